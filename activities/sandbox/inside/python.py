"""Running Python in the forked process as a new interpreter would, at no second start."""

from __future__ import annotations

import atexit
import builtins
import os
import sys

from activities.sandbox.inside.mark import Mark, cause_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Left out when it runs: these take longer to import than everything else here.
    from collections.abc import Callable

OURS = "<sandbox>"


def run_python(argv: tuple[str, ...], run: Callable[[str], None], mark: Mark) -> None:
    """Run Python in this process as a new interpreter would, and mark that it came to its end."""
    _prepare(argv, os.path.dirname(argv[0]) if run is script else "")  # noqa: PTH120
    # The first to be registered is the last to be called: after it the interpreter only tidies up.
    atexit.register(lambda: mark.set("done", f"{mark.code} {mark.cause}"))
    mark.set("running")
    try:
        run(argv[0])
    except SystemExit as end:
        mark.code = _exit_code(end.code)
        raise
    except BaseException as error:  # whatever it likes
        mark.code, mark.cause = 1, cause_of(error)
        _cut(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def _exit_code(given: object) -> int:
    """Return what a program asked for, which the kernel cuts to eight bits: 256 is no 0."""
    if isinstance(given, int):
        return int(given) if abs(given) < 2**31 else 1
    return int(given is not None)


def _cut(error: BaseException) -> None:
    """Cut our own frames from a traceback."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == OURS:
        trace = trace.tb_next
    error.__traceback__ = trace


def _prepare(argv: tuple[str, ...], folder: str) -> None:
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()
    packages = os.environ.get("PYTHONPATH")
    sys.path[:] = [os.path.abspath(folder), *([packages] if packages else []), *_standard()]  # noqa: PTH100
    sys.argv[:] = argv
    main = type(sys)("__main__")
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = main


def _standard() -> list[str]:
    return [each for each in sys.path if each.startswith((sys.base_prefix, sys.base_exec_prefix))]


def script(path: str) -> None:
    """Run a file as `python FILE` does."""
    main = sys.modules["__main__"]
    main.__file__ = os.path.join(os.getcwd(), path)  # noqa: PTH118, PTH109
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read()
    except OSError as error:
        sys.exit(f"python: can't open file '{path}': {error.strerror}")
    exec(compile(text, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102


def module(name: str) -> None:
    """Run a module as `python -m NAME` does."""
    import runpy

    runpy._run_module_as_main(name)  # type: ignore[attr-defined]
