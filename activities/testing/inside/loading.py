"""Importing the code under test as the module `solution`."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from .channel import Channel
from .faults import frames, said

NAME = "solution"
FOLDER = Path.cwd()
# As the frames of the code name it; the code itself may go to another folder.
SOLUTION = str(FOLDER / f"{NAME}.py")


def load(channel: Channel) -> ModuleType | None:
    """Import the code; where that fails, say why and return None."""
    path = SOLUTION
    module = ModuleType(NAME)
    module.__file__ = path
    sys.modules[NAME] = module
    try:
        text = Path(path).read_text(encoding="utf-8")
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 its purpose
    except BaseException as error:  # the code may raise anything, SystemExit too
        channel.say(broken=_summary(error, path), traceback=frames(error, {path}))
        return None
    return module


def public(solution: ModuleType) -> dict[str, Any]:
    """Return the names of the code that tests may use without importing them."""
    return {name: value for name, value in vars(solution).items() if not name.startswith("_")}


def also_named(solution: ModuleType, *names: str | None) -> None:
    """Let the tests import the code by other names too, as far as no module has them."""
    for name in names:
        if name and name.isidentifier() and name not in sys.modules and find_spec(name) is None:
            sys.modules[name] = solution


def _summary(error: BaseException, path: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
    return said(error)
