"""The forked process that becomes the program: it gives up its rights, then runs it.

Python it runs as a new interpreter would, without a second start.
"""

from __future__ import annotations

# The module `signal` makes enums of it, which takes longer than everything else here.
import _signal as signal  # type: ignore[import-not-found]
import atexit
import builtins
import errno
import mmap
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Left out when it runs: these take longer to import than everything else here.
    from collections.abc import Callable
    from typing import Any

    Settings = dict[str, Any]

OURS = "<sandbox>"
NOT_FOUND = 127
MOST_DESCRIPTORS = 65_536


def become(
    settings: Settings,
    memory: mmap.mmap,
    stdin: int,
    confine: Callable[[Settings], None],
) -> None:
    """Turn this process into the program. Returns, or raises SystemExit, when it has ended."""
    mark = Mark(memory)
    try:
        _settle(settings, stdin, confine)
    except Exception as error:
        mark.set(cause_of(error) or "broken", f"{type(error).__name__}: {error}")
        os._exit(1)
    argv = settings["argv"]
    settings.clear()
    if argv[0] not in ("python", "python3"):
        _execute(argv, mark)
    elif len(argv) > 1 and not argv[1].startswith("-"):
        run_python(argv[1:], script, mark)
    elif len(argv) > 2 and argv[1] == "-m":
        run_python(argv[2:], module, mark)
    else:
        _execute((sys.executable, *argv[1:]), mark)


def _settle(settings: Settings, stdin: int, confine: Callable[[Settings], None]) -> None:
    """Take the place, the environment, the limits and the identity that the program gets."""
    os.dup2(stdin, 0)
    os.closerange(3, MOST_DESCRIPTORS)
    os.setsid()
    os.umask(0o022)
    if settings["uid"] is not None:
        os.setgroups([])
        os.setresgid(settings["uid"], settings["uid"], settings["uid"])
        os.setresuid(settings["uid"], settings["uid"], settings["uid"])
    for folder in settings.get("folders", ()):
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is slow
    os.chdir(settings["work"])
    _write(settings.pop("files"))
    os.environ.update(settings["env"])
    for kind, (soft, most) in settings["rlimits"]:
        # The worker's own hard limit holds too: nobody without privileges may raise it.
        hard = resource.getrlimit(kind)[1]
        lower = (
            (soft, most) if hard == resource.RLIM_INFINITY else (min(soft, hard), min(most, hard))
        )
        resource.setrlimit(kind, lower)
    confine(settings)


def _write(files: dict[str, bytes]) -> None:
    for path, text in files.items():
        if "/" in path:
            os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103 - as above
        with open(path, "wb") as file:  # noqa: PTH123 - as above
            file.write(text)


def _execute(argv: tuple[str, ...], mark: Mark) -> None:
    # Python ignores these, and what it executes would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    mark.set("executed")
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the program's own command, in the sandbox
    except (OSError, ValueError) as error:
        mark.set("running")
        sys.stderr.write(f"{argv[0]}: {getattr(error, 'strerror', error)}\n")
        sys.exit(NOT_FOUND)


class Mark:
    """What the program's process says of itself in memory that the first process shares.

    No descriptor leads there, so what writes to all of them, or closes them, changes nothing.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._pid = os.getpid()
        self.code = 0
        self.cause = ""

    def set(self, stage: str, detail: str = "") -> None:
        """Say how far it came; a child of the program says nothing."""
        if os.getpid() != self._pid:
            return
        said = f"{stage} {detail}".encode(errors="replace")[:1_000]
        self._memory[: 2 + len(said)] = len(said).to_bytes(2, "big") + said


def cause_of(error: BaseException) -> str:
    """Name the limit that an error is about, if it is about one."""
    if isinstance(error, MemoryError):
        return "memory"
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    return "full" if full else ""


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
    own = (sys.base_prefix, sys.base_exec_prefix)
    standard = [path for path in sys.path if path.startswith(own)]
    sys.path[:] = [os.path.abspath(folder), *([packages] if packages else []), *standard]  # noqa: PTH100
    sys.argv[:] = argv
    main = type(sys)("__main__")
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules["__main__"] = main


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
