"""The sandbox's first process, and the program that is forked from it.

The first process starts the program, reaps what dies, and reports how the program ended. It ends
everything when its lifeline, a pipe that the worker alone holds, is closed. The program's process
gives up its rights and then runs: Python as a new interpreter would, without a second start.
"""

from __future__ import annotations

# The module `signal` makes enums of it, which takes longer than everything else here.
import _signal as signal  # type: ignore[import-not-found]
import atexit
import builtins
import errno
import gc
import mmap
import os
import resource
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Left out when it runs: these take longer to import than everything else here.
    from collections.abc import Callable
    from typing import Any

    Settings = dict[str, Any]
    Hooks = dict[str, Callable[[Settings], None]]

MARK_BYTES = 4096
TICK_MS = 1_000
FEED_BYTES = 65_536
OURS = "<sandbox>"
NOT_FOUND = 127
MOST_DESCRIPTORS = 65_536


def main(settings: Settings, status_fd: int, lifeline_fd: int, hooks: Hooks) -> None:
    """Run one program to its end. Returns in the program's own process alone.

    `hooks` are functions of the settings: `prepare` runs first, `confine` last in the program's
    process, and `sweep` ends what the program left behind.
    """
    hooks.get("prepare", _nothing)(settings)
    waker = _wake_on_death()
    _say(status_fd, "hello")
    if os.read(lifeline_fd, 1) != b"g":
        os._exit(1)
    mark, stdin, feeding = mmap.mmap(-1, MARK_BYTES), *os.pipe()
    # Keep the last garbage collection from looking at, and so copying, all that exists by now.
    gc.freeze()
    pid = os.fork()
    if not pid:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        become(settings, mark, stdin, hooks.get("confine", _nothing))
        return
    os.close(stdin)
    os.set_blocking(feeding, False)
    _say(status_fd, "started")
    child = Child(pid, mark, feeding, settings.pop("input"))
    settings["orphaned"] = _attend(child, waker, lifeline_fd)
    hooks.get("sweep", _nothing)(settings)
    _say(status_fd, _ending(child))
    os._exit(0)


def _nothing(_: Settings) -> None:
    pass


class Child:
    """The forked program: its process, its standard input until that is closed, and its mark."""

    def __init__(self, pid: int, mark: mmap.mmap, stdin: int, text: bytes) -> None:
        self.pid = pid
        self.mark = mark
        self.status: int | None = None
        self.stdin: int | None = stdin
        self._left = memoryview(text)

    def feed(self, stdin: int) -> None:
        """Write as much of the input as fits now; close it at its end, or once it has no reader."""
        try:
            written = os.write(stdin, self._left[:FEED_BYTES]) if self._left else 0
        except BlockingIOError:
            return
        except OSError:
            written = len(self._left)
        self._left = self._left[written:]
        if not self._left:
            os.close(stdin)
            self.stdin = None


def _wake_on_death() -> int:
    """Get a byte in a pipe for every child that dies, and ignore Ctrl-C."""
    waker, woken = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return waker


def _attend(child: Child, waker: int, lifeline: int) -> bool:
    """Reap and feed until the program or the lifeline ends; True if the worker has died.

    A living worker writes to the lifeline before it closes it.
    """
    poll = select.poll()
    poll.register(waker, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    if child.stdin is not None:
        poll.register(child.stdin, select.POLLOUT)
    while child.status is None:
        ready = {descriptor for descriptor, _ in poll.poll(TICK_MS)}
        if lifeline in ready:
            return not os.read(lifeline, 1)
        stdin = child.stdin
        if stdin is not None and stdin in ready:
            child.feed(stdin)
            if child.stdin is None:
                poll.unregister(stdin)
        if waker in ready:
            os.read(waker, FEED_BYTES)
        _reap(child)
    return False


def _reap(child: Child) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if pid == child.pid:
            child.status = status


def _ending(child: Child) -> str:
    """Report to the worker how the program ended: numbers, and the mark in hexadecimal."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = child.status
    code = os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else -1
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
    cpu = used.ru_utime + used.ru_stime
    size = int.from_bytes(child.mark[:2], "big")
    mark = child.mark[2 : 2 + size].hex() or "-"
    return f"ended {code} {number} {cpu:.6f} {used.ru_maxrss} {mark}"


def _say(status_fd: int, line: str) -> None:
    os.write(status_fd, f"{line}\n".encode())


def become(
    settings: Settings, memory: mmap.mmap, stdin: int, confine: Callable[[Settings], None]
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
    """Take on the program's folder, environment, limits and user."""
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
        # The worker's own hard limit applies too: it can't be raised without privileges.
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
    # Python ignores these signals, and a program that it executes would inherit that.
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
    """What the program's process reports in memory that it shares with the first process.

    It has no descriptor, so a program that writes to or closes all of its own can't change it.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._pid = os.getpid()
        self.code = 0
        self.cause = ""

    def set(self, stage: str, detail: str = "") -> None:
        """Record how far it came, unless this is a child of the program."""
        if os.getpid() != self._pid:
            return
        said = f"{stage} {detail}".encode(errors="replace")[:1_000]
        self._memory[: 2 + len(said)] = len(said).to_bytes(2, "big") + said


def cause_of(error: BaseException) -> str:
    """Name the limit that an error is about, if any."""
    if isinstance(error, MemoryError):
        return "memory"
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    return "full" if full else ""


def run_python(argv: tuple[str, ...], run: Callable[[str], None], mark: Mark) -> None:
    """Run Python in this process as a new interpreter would, and mark that it came to its end."""
    _prepare(argv, os.path.dirname(argv[0]) if run is script else "")  # noqa: PTH120
    # Registered first, it is called last: after it the interpreter only tidies up.
    atexit.register(lambda: mark.set("done", f"{mark.code} {mark.cause}"))
    mark.set("running")
    try:
        run(argv[0])
    except SystemExit as end:
        mark.code = _exit_code(end.code)
        raise
    except BaseException as error:  # the program may raise anything
        mark.code, mark.cause = 1, cause_of(error)
        # Leave our own frames out of its traceback.
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == OURS:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def _exit_code(given: object) -> int:
    """Return the code that a program asked for; the kernel cuts it to 8 bits, so 256 to 0."""
    if isinstance(given, int):
        return int(given) if abs(given) < 2**31 else 1
    return int(given is not None)


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
