"""The sandbox's first process: starts the program, reaps what dies, and reports how it ended.

It ends everything when its lifeline, a pipe that the worker alone holds, is closed.
"""

from __future__ import annotations

# The module `signal` makes enums of it, which takes longer than everything else here.
import _signal as signal  # type: ignore[import-not-found]
import gc
import mmap
import os
import resource
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Left out when it runs: these take longer to import than everything else here.
    from collections.abc import Callable
    from typing import Any

    Settings = dict[str, Any]

MARK_BYTES = 4096
TICK_MS = 1_000
FEED_BYTES = 65_536


class Program:
    """The forked program: its process, its standard input, and the mark that it leaves."""

    def __init__(self, pid: int, mark: mmap.mmap, stdin: int, text: bytes) -> None:
        self.pid = pid
        self.mark = mark
        self.status: int | None = None
        self._stdin = stdin
        self._left = memoryview(text)

    @property
    def hungry(self) -> int | None:
        """The descriptor that more of the input can be written to."""
        return self._stdin if self._stdin >= 0 else None

    def feed(self) -> None:
        """Write as much of the input as fits now; close it after the last, or when it is closed."""
        try:
            written = os.write(self._stdin, self._left[:FEED_BYTES]) if self._left else 0
        except BlockingIOError:
            return
        except OSError:
            written = len(self._left)
        self._left = self._left[written:]
        if not self._left:
            os.close(self._stdin)
            self._stdin = -1


def main(
    settings: Settings,
    status_fd: int,
    lifeline_fd: int,
    become: Callable[[Settings, mmap.mmap, int], None],
    sweep: Callable[[Settings], None],
) -> None:
    """Run one program to its end. Returns in the program's own process alone."""
    waker = _wake_on_death()
    _say(status_fd, "hello")
    if os.read(lifeline_fd, 1) != b"g":
        os._exit(1)
    mark, stdin, feeding = mmap.mmap(-1, MARK_BYTES), *os.pipe()
    # What is there by now need not be looked through, and copied by that, when the program ends.
    gc.freeze()
    pid = os.fork()
    if not pid:
        _forget()
        become(settings, mark, stdin)
        return
    os.close(stdin)
    os.set_blocking(feeding, False)
    _say(status_fd, "started")
    program = Program(pid, mark, feeding, settings.pop("input"))
    settings["main"] = pid
    _attend(program, waker, lifeline_fd)
    sweep(settings)
    _say(status_fd, _ending(program))
    os._exit(0)


def _wake_on_death() -> int:
    """Have a byte in a pipe for every child that dies, and take no other signal."""
    waker, woken = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return waker


def _forget() -> None:
    """Take signals as a plain process does."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _attend(program: Program, waker: int, lifeline: int) -> None:
    """Reap and feed until the program ends or the lifeline is closed."""
    poll = select.poll()
    poll.register(waker, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    if program.hungry is not None:
        poll.register(program.hungry, select.POLLOUT)
    while program.status is None:
        ready = {descriptor for descriptor, _ in poll.poll(TICK_MS)}
        if lifeline in ready:
            return
        stdin = program.hungry
        if stdin is not None and stdin in ready:
            program.feed()
            if program.hungry is None:
                poll.unregister(stdin)
        if waker in ready:
            os.read(waker, FEED_BYTES)
        _reap(program)


def _reap(program: Program) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if pid == program.pid:
            program.status = status


def _ending(program: Program) -> str:
    """Say how it ended, in words that the worker reads: numbers, and the mark as hexadecimal."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = program.status
    exited = status is not None and os.WIFEXITED(status)
    signalled = status is not None and os.WIFSIGNALED(status)
    code = os.WEXITSTATUS(status) if status is not None and exited else -1
    number = os.WTERMSIG(status) if status is not None and signalled else 0
    cpu = used.ru_utime + used.ru_stime
    size = int.from_bytes(program.mark[:2], "big")
    mark = program.mark[2 : 2 + size].hex() or "-"
    return f"ended {code} {number} {cpu:.6f} {used.ru_maxrss} {mark}"


def _say(status_fd: int, line: str) -> None:
    os.write(status_fd, f"{line}\n".encode())
