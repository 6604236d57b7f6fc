"""What a backend must say, so that a program can be started in it, watched and ended."""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import CodeType
from typing import Any, Protocol

from activities.sandbox.running.threads import Threads
from reflection.multipath.request import Limits

# Each after those that it imports.
MODULES = ("mark", "python", "program", "init")


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
    becomes, None where it stays who it is, or where a module does that. `modules` are files of
    `inside/` beside `init` and `program`: `confine` (its function `confine(settings)` runs in the
    program's process, last) and `sweep` (`sweep(settings)` ends what the program left behind, in
    the first process). `settings` are further ones for them, and `folders`, which the program makes
    before it goes to work. `nested`: the first process is the
    only child of the one that is started. `disk` measures, in a thread, by the first process's id.
    `patience` is how many seconds the first process has to end everything, until it is killed.
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
