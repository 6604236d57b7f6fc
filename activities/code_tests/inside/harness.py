"""What every program of tests has: loading the code, writing values and faults, and the way out.

Lines of JSON go out on a descriptor that the code's own prints miss. Values are written as Python
expressions, of exact builtin types alone, so that nothing of the code's runs.
"""

import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

LINE = 40_000
MESSAGE = 1_500
FRAMES = 8
WIDTH = 120
NAME = "solution"
FOLDER = Path.cwd()
# As the frames of the code name it; the code itself may go to another folder.
SOLUTION = str(FOLDER / f"{NAME}.py")
CHARACTERS = 8_000
ITEMS = 2_000
DEPTH = 50
# Some 3,900 digits, and Python writes 4,300.
BITS = 13_000
SHOWN = 600


def asked() -> dict[str, Any]:
    """Read what to do from the standard input: one JSON object, its `nonce` among its members."""
    sys.dont_write_bytecode = True
    task: dict[str, Any] = json.load(sys.stdin)
    return task


class Channel:
    """A private duplicate of the standard output, which itself goes to the standard error."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._descriptor = os.dup(1)
        # The code under test may replace what these modules hold.
        self._write, self._encode = os.write, json.JSONEncoder().encode
        os.dup2(2, 1)

    def say(self, **said: object) -> int:
        """Print one line: the nonce and an object. A line that is too long says so instead.

        Returns how many bytes that took.
        """
        text = self._encode(said)
        if len(text) > LINE:
            text = self._encode({"too_long": len(text)})
        # The code may have left half a line behind.
        data = f"\n{self._nonce} {text}\n".encode("ascii")
        size = len(data)
        while data:
            data = data[self._write(self._descriptor, data) :]
        return size


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


def said(error: BaseException) -> str:
    """Write an exception as its type and message; never raises, whatever the type does."""
    name = type(error).__name__
    try:
        text = str(error)[:MESSAGE]
    except BaseException:  # the code's own __str__ may raise anything
        text = "its message can't be shown"
    return f"{name}: {text}" if text else name


def frames(error: BaseException, paths: Collection[str]) -> str:
    """Write the innermost frames that stand in the files of these paths, and the exception."""
    stack = traceback.StackSummary.extract(
        frame
        for frame in traceback.walk_tb(error.__traceback__)
        if frame[0].f_code.co_filename in paths
    )
    kept = [_named(frame) for frame in stack[-FRAMES:]]
    if isinstance(error, SyntaxError) and error.filename and error.filename in paths:
        kept.append(f'File "{Path(error.filename).name}", line {error.lineno}')
        kept.append(f"    {(error.text or '').strip()[:WIDTH]}")
    return "\n".join([*kept, said(error)[:WIDTH]]) if kept else ""


def _named(frame: traceback.FrameSummary) -> str:
    place = f'File "{Path(frame.filename).name}", line {frame.lineno}, in {frame.name[:WIDTH]}'
    return f"{place}\n    {(frame.line or '')[:WIDTH]}"


class UnplainError(Exception):
    """The value is no plain data, or too much of it; the message says which."""


def written(value: object) -> str:
    """Write a value as an expression of at most CHARACTERS. Raises UnplainError."""
    text = _Writer().write(value, DEPTH)
    if len(text) > CHARACTERS:
        raise UnplainError(f"a value of {len(text):,} characters, and {CHARACTERS:,} are read")
    return text


def shown(value: object, most: int = SHOWN) -> str:
    """Write a value for people, whatever it is, in at most so many characters and an ellipsis."""
    try:
        text = written(value)
    except UnplainError:
        text = _repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # the code's own repr may fail in any way
        return f"<{type(value).__name__}>"


class _Writer:
    def __init__(self) -> None:
        self._left = ITEMS
        self._writers: dict[type, Callable[[Any, int], str]] = {
            type(None): _plainly,
            bool: _plainly,
            int: _integer,
            float: _number,
            complex: _complex,
            str: _text,
            bytes: _text,
            tuple: self._tuple,
            list: lambda value, depth: f"[{self._all(value, depth)}]",
            set: self._set,
            frozenset: self._frozen,
            dict: self._dict,
        }

    def write(self, value: object, depth: int) -> str:
        self._left -= 1
        if depth == 0:
            raise UnplainError(f"a value nested more than {DEPTH} deep")
        if self._left < 0:
            raise UnplainError(f"a value of more than {ITEMS:,} items")
        writer = self._writers.get(type(value))
        if writer is None:
            raise UnplainError(
                f"a value of the type {type(value).__name__}, which is no plain data"
            )
        return writer(value, depth - 1)

    def _all(self, values: Iterable[object], depth: int) -> str:
        return ", ".join([self.write(value, depth) for value in values])

    def _tuple(self, value: tuple[object, ...], depth: int) -> str:
        return f"({self._all(value, depth)}{',' if len(value) == 1 else ''})"

    def _set(self, value: set[object], depth: int) -> str:
        return f"{{{self._all(value, depth)}}}" if value else "set()"

    def _frozen(self, value: frozenset[object], depth: int) -> str:
        return f"frozenset({{{self._all(value, depth)}}})" if value else "frozenset()"

    def _dict(self, value: dict[object, object], depth: int) -> str:
        pairs = [f"{self.write(k, depth)}: {self.write(v, depth)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"


def _plainly(value: object, _depth: int) -> str:
    return repr(value)


def _integer(value: int, _depth: int) -> str:
    if value.bit_length() > BITS:
        raise UnplainError(f"an integer of {value.bit_length():,} bits, and {BITS:,} are read")
    return repr(value)


def _number(value: float, _depth: int) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value!r}')"


def _complex(value: complex, _depth: int) -> str:
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise UnplainError("a complex number that is not finite")
    return repr(value)


def _text(value: str | bytes, _depth: int) -> str:
    if len(value) > CHARACTERS:
        raise UnplainError(f"a text of {len(value):,} characters, and {CHARACTERS:,} are read")
    return ascii(value)
