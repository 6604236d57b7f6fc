"""What a backend must provide so that a program can be started in it, watched and ended."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import CodeType
from typing import Any, ParamSpec, Protocol, TypeVar

from activities.sandbox.port import SandboxError
from reflection.multipath.request import Limits

MODULES = ("program", "init")
# One to measure what a run takes, another to clear up after it while the first still looks.
PER_RUN = 2

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Enough threads for so many runs at once: a limit is only enforced by one that is free."""

    def __init__(self, runs: int) -> None:
        self._pool = ThreadPoolExecutor(PER_RUN * runs, thread_name_prefix="mull-sandbox")

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread. Raises SandboxError where none can be started."""
        try:
            called = self._pool.submit(work, *args, **kwargs)
        except RuntimeError as error:
            raise SandboxError(f"no thread of the sandbox's own: {error}") from error
        return await asyncio.wrap_future(called)


@dataclass(frozen=True)
class Place:
    """What one run is given: a user id that nobody else has (None: the worker's), and limits.

    `packages` are the names of the distributions that the program may import. `threads` are the
    sandbox's own, for what takes a while.
    """

    uid: int | None
    limits: Limits
    packages: tuple[str, ...]
    threads: Threads


@dataclass(frozen=True)
class Disk:
    """What a run's files take: bytes, and how many files and folders there are."""

    size: int
    files: int


@dataclass(frozen=True)
class Launch:
    """How to start one run.

    `argv` ends where the interpreter's own arguments begin, and inherits `descriptors` as they
    are numbered. `work` and `scratch` are folders as the program sees them. `uid` is who it
    becomes, None where it stays who it is. `modules` are files of `inside/` beside `init` and
    `program`: `confinement` (its `confine(settings)` runs last in the program's process) and
    `sweep` (its `prepare(settings)` runs first, and its `sweep(settings)` ends what the program
    left behind, both in the first process). `settings` are further ones for them, and `folders`,
    which the program makes before it starts work. `nested`: the first process is the only child
    of the one that is started. `disk` measures, in a thread, by the first process's id.
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
    modules: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    patience: float = 0.5


class Backend(Protocol):
    """A way to confine programs."""

    name: str
    version: str

    def prepare(self, place: Place) -> AbstractAsyncContextManager[Launch]:
        """Make ready for one run, and clear away what is left of it. Raises SandboxError."""
        ...


@cache
def module(name: str) -> CodeType:
    """Compile a file of `inside/`, for the interpreter inside, which is of the same version."""
    text = files("activities.sandbox.inside").joinpath(f"{name}.py").read_text("utf-8")
    return compile(text, "<sandbox>", "exec", dont_inherit=True, optimize=0)


@cache
def interpreter_arguments() -> tuple[str, ...]:
    """Return what follows the interpreter's path; the numbers of three descriptors follow.

    Without `site`, which would look for packages; the environment is clean, so it may be read.
    """
    text = files("activities.sandbox.inside").joinpath("boot.py").read_text("utf-8")
    return ("-S", "-s", "-B", "-c", text)


def base_python() -> str:
    """Return the interpreter that runs programs: the one that the worker's environment is from."""
    return str(getattr(sys, "_base_executable", sys.executable))


async def uninterrupted(work: Awaitable[None]) -> None:
    """Wait for something to end though this task be cancelled, which then holds."""
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
