"""The port to a backend, which starts programs, and the processes of one run from outside."""

import asyncio
import contextlib
import marshal
import os
import re
import signal
import subprocess
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

from activities.sandbox.limits import Ending, parse_ending
from activities.sandbox.port import Output, Program
from activities.sandbox.watcher import Disk, children
from mull.text import cut_encoded, encoded_size

CHUNK = 65_536
STATUS_BYTES = 16_384
# What the launcher and the first process see; the program gets an environment of its own.
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
# The first lines that the sandbox's Python runs. The modules come with the settings, since it can't
# read Mull's files.
BOOT = """\
import marshal, os, sys
settings_fd, status_fd, lifeline_fd = map(int, sys.argv[1:])
with os.fdopen(settings_fd, "rb") as file:
    settings = marshal.load(file)
spaces = {}
for name, code in settings.pop("modules").items():
    spaces[name] = {"__name__": name}
    exec(code, spaces[name])
spaces["init"]["main"](settings, status_fd, lifeline_fd, spaces.get("confinement", {}))
"""
# Without `site`, which would look for packages. The environment is clean, so it may be read.
INTERPRETER_ARGUMENTS = ("-S", "-s", "-B", "-c", BOOT)


@dataclass(frozen=True)
class Launch:
    """How to start one run.

    `argv` ends where the interpreter's own arguments begin. `descriptors` are inherited under
    their numbers. `work` and `scratch` are folders as the program sees them. `uid` is the user
    that the program becomes, or None to stay the same. `modules` are the files of `inside/` to
    send: `init`, and `confinement` with its hooks. `settings` are further ones for them, and
    `folders` are made by the program before it starts work. `nested`: the first process is the
    only child of the one that is started. `disk` measures, in a thread, by the first process's id.
    `patience` is how many seconds the first process has to end everything before it is killed.
    """

    argv: tuple[str, ...]
    work: str
    scratch: str
    uid: int | None
    packages: str
    path: str
    disk: Callable[[int], Disk]
    nested: bool
    descriptors: tuple[int, ...] = ()
    modules: tuple[str, ...] = ("init",)
    settings: dict[str, Any] = field(default_factory=dict)
    patience: float = 0.5


class Backend(Protocol):
    """A way to confine programs."""

    name: str
    version: str

    def prepare(
        self, program: Program, uid: int | None, threads: Executor, /
    ) -> AbstractAsyncContextManager[Launch]:
        """Prepare one run, and clean up after it. Raises SandboxError.

        `uid` is the run's own user, or None for the worker's. `threads` are the sandbox's own, for
        work that would block the event loop.
        """
        ...


@cache
def compiled(name: str) -> CodeType:
    """Compile a file of `inside/` for the interpreter in the sandbox, which has our version."""
    text = files("activities.sandbox.inside").joinpath(f"{name}.py").read_text("utf-8")
    return compile(text, "<sandbox>", "exec", dont_inherit=True, optimize=0)


async def uninterrupted(work: Awaitable[None]) -> None:
    """Wait until something has ended, even if this task is cancelled; then pass that on."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


class SandboxProcess:
    """One launched sandbox; made, awaited and closed in the worker's event loop."""

    def __init__(self, launch: Launch, settings: dict[str, Any], keep: int, most: int) -> None:
        self.stdout, self.stderr = Kept(keep), Kept(keep)
        self.ending: Ending | None = None
        self.first: int | None = None
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.flooded: asyncio.Future[None] = loop.create_future()
        self.patience = launch.patience
        self._launch, self._most, self._loop = launch, most, loop
        self._status = bytearray()
        self._open: set[int] = set()
        self._first_handle: int | None = None
        try:
            self._begin(settings)
        except BaseException:
            self.close()
            raise

    def _begin(self, settings: dict[str, Any]) -> None:
        with contextlib.ExitStack() as stack:
            given = os.memfd_create("settings", os.MFD_CLOEXEC)
            stack.callback(os.close, given)
            with open(given, "wb", closefd=False) as file:
                file.write(marshal.dumps(settings))
            os.lseek(given, 0, os.SEEK_SET)
            alive, self._lifeline = os.pipe()
            self._open.add(self._lifeline)
            stack.callback(os.close, alive)
            stdout = self._pipe(self.stdout.add, stack)
            stderr = self._pipe(self.stderr.add, stack)
            status = self._pipe(self._read_status, stack)
            inherited = (given, status, alive)
            self._process = subprocess.Popen(  # noqa: S603 - the backend's own command
                [*self._launch.argv, *INTERPRETER_ARGUMENTS, *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(*inherited, *self._launch.descriptors),
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        handle = os.pidfd_open(self._process.pid)
        self._open.add(handle)
        self._loop.add_reader(handle, self._reap, handle)

    def _pipe(self, take: Callable[[bytes], None], stack: contextlib.ExitStack) -> int:
        """Make a pipe that is read as data comes in, and return where to write."""
        read, write = os.pipe()
        stack.callback(os.close, write)
        os.set_blocking(read, False)
        self._open.add(read)
        self._loop.add_reader(read, self._read, read, take)
        return write

    def _read(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        if data:
            take(data)
        else:
            self._close(descriptor)
        if self.stdout.size + self.stderr.size > self._most and not self.flooded.done():
            self.flooded.set_result(None)

    def _read_status(self, data: bytes) -> None:
        """Read what the first process reports of itself, line by line."""
        self._status += data[: STATUS_BYTES - len(self._status)]
        *lines, rest = bytes(self._status).split(b"\n")
        self._status[:] = rest
        for word, *more in (line.decode(errors="replace").split() for line in lines if line):
            if word == "hello":
                self._learn_first()
                self._tell(b"g" if self.first else b"")
            elif word == "started" and not self.started.done():
                self.started.set_result(None)
            elif word == "ended":
                with contextlib.suppress(ValueError):
                    self.ending = parse_ending(more)

    def _learn_first(self) -> None:
        """Learn the first process's id, if there is one yet, and have the OOM killer choose it."""
        pid = self._process.pid
        self.first = next(children(pid), None) if self._launch.nested else pid
        if self.first is None:
            return
        with contextlib.suppress(OSError):
            self._first_handle = os.pidfd_open(self.first)
            self._open.add(self._first_handle)
            Path(f"/proc/{self.first}/oom_score_adj").write_text("1000", "ascii")

    def _reap(self, handle: int) -> None:
        self._close(handle)
        self._process.wait()
        self.exited.set_result(None)

    def release(self) -> None:
        """Close the lifeline; the first process then ends everything, itself last."""
        self._tell(b"r")
        self._close(self._lifeline)

    def _tell(self, word: bytes) -> None:
        # Another run may have the number of a closed descriptor.
        if self._lifeline in self._open:
            with contextlib.suppress(OSError):
                os.write(self._lifeline, word)

    def kill_first(self) -> None:
        """Kill the first process, and its namespace with it, even if it has not said hello yet.

        The process that started it reaps it and ends; killed as well, it would leave a zombie.
        """
        if self._first_handle is None and not self.exited.done():
            self._learn_first()
        if self._first_handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first_handle, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process that was started, if it has not ended with the first one."""
        if not self.exited.done():
            self._process.kill()

    def reap_first(self) -> None:
        """Kill and reap the first process, even if it outlived the process that started it.

        A worker that is process 1 of a container is then its parent.
        """
        self.kill_first()
        if self._launch.nested and self._first_handle is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._first_handle, os.WEXITED)

    @property
    def all_read(self) -> bool:
        """True once all output has been read."""
        return self._open <= {self._lifeline, self._first_handle}

    def close(self) -> None:
        """Close every descriptor."""
        for descriptor in tuple(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            self._loop.remove_reader(descriptor)
            os.close(descriptor)


class Kept:
    """The first and the last of the bytes that were added, at most `most` together."""

    def __init__(self, most: int) -> None:
        self.size = 0
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Add bytes, and drop those between the two ends."""
        self.size += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._half :] if room < len(data) else b""
        if len(self._tail) > self._half:
            del self._tail[: len(self._tail) - self._half]

    def output(self) -> Output:
        """Return the kept bytes as text, which takes at most as many bytes in JSON."""
        whole = self.size == len(self._head) + len(self._tail)
        if whole:
            text = (self._head + self._tail).decode("utf-8", "backslashreplace")
            if encoded_size(text) <= 2 * self._half:
                return Output(head=text, tail="", size=self.size)
        head, tail = self._head, self._tail
        if whole and not tail:
            head, tail = head[: len(head) // 2], head[len(head) // 2 :]
        # Leave out a character that a cut goes through.
        begun = getincrementaldecoder("utf-8")("backslashreplace").decode(head)
        ended = re.sub(rb"^[\x80-\xbf]{1,3}", b"", tail).decode("utf-8", "backslashreplace")
        return Output(
            head=cut_encoded(begun, self._half),
            tail=cut_encoded(ended[::-1], self._half)[::-1],
            size=self.size,
        )
