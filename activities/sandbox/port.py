"""The port to a sandbox for untrusted code, its errors, and running a program from an activity.

SandboxError          the sandbox itself failed: Temporal retries it
└── PackageError      a package that the program asks for is not on this worker: no retry helps
"""

from pathlib import PurePosixPath
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, StringConstraints, model_validator
from temporalio import activity
from temporalio.exceptions import ApplicationError

from mull import queues
from mull.connection import heartbeating
from mull.multipath.request import Limits, PackageName
from mull.request import Record, Request
from mull.telemetry import OUTCOMES, activity_meter
from mull.text import encoded_size

TASK_QUEUE = queues.CODE
PROGRAM_BYTES = 1_000_000
FILES = 200

Status = Literal[
    "ok",
    "error",
    "exited_early",
    "timeout",
    "cpu_limit",
    "memory_limit",
    "output_limit",
    "disk_limit",
    "killed_by_signal",
]
# A path in the work folder. Its parts aren't empty and don't begin with a dot, so it stays inside.
Path = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_. -]*(/[A-Za-z0-9_][A-Za-z0-9_. -]*)*$", max_length=200
    ),
]


class Program(Request):
    """A program to run: one file of Python, or several files and a command.

    `code` runs as the file `main.py`. `files` are texts by their path in the work folder, and
    `command` runs there; its word `python` is the sandbox's Python, with numpy, pytest and
    `packages`. `input` is the standard input. `keep_bytes` of the standard output, and as many of
    the standard error, are returned: half from the beginning, half from the end.
    """

    code: str | None = None
    files: dict[Path, str] = Field(default_factory=dict, max_length=FILES)
    command: tuple[str, ...] = Field((), max_length=100)
    input: str = ""
    packages: tuple[PackageName, ...] = Field((), max_length=50)
    limits: Limits = Field(default_factory=Limits)
    keep_bytes: int = Field(65_536, ge=1_024, le=500_000)

    @model_validator(mode="after")
    def _one_program(self) -> Self:
        if (self.code is None) == (not self.command):
            raise ValueError("give either code, or files and a command")
        names = {*self.files, *(["main.py"] if self.code is not None else [])}
        if self.code is not None and "main.py" in self.files:
            raise ValueError("main.py is given twice: as code, and among the files")
        for name in names:
            if any(str(folder) in names for folder in PurePosixPath(name).parents):
                raise ValueError(f"{name} lies below another file")
        size = sum(
            encoded_size(text) for text in (self.code or "", self.input, *self.files.values())
        )
        if size > PROGRAM_BYTES:
            raise ValueError(f"the program takes {size:,} bytes, more than {PROGRAM_BYTES:,}")
        return self


class Output(Record):
    """The output of a program: `size` bytes in all, of which the beginning and the end are kept.

    Bytes that are not UTF-8 are written as backslash escapes. `tail` is empty if all of it fits.
    """

    head: str
    tail: str
    size: int

    @property
    def text(self) -> str:
        """Both ends, with a note of the whole size between them."""
        if not self.tail:
            return self.head
        return f"{self.head}\n[... of {self.size:,} bytes ...]\n{self.tail}"


class Result(Record):
    """The end of a program, its output, and the resources that it used.

    `exit_code` and `signal` are those of its first process, or None. Seconds and bytes are those
    of all its processes together. `limits` are those that applied.
    """

    status: Status
    exit_code: int | None
    signal: int | None
    stdout: Output
    stderr: Output
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    backend: str
    limits: Limits


class SandboxError(Exception):
    """The sandbox itself failed; this says nothing about the program."""


class PackageError(SandboxError):
    """A package that the program asks for is not on this worker; the message names it."""


class Sandbox(Protocol):
    """Runs untrusted code, `at_once` programs at the same time, and confines it."""

    name: str
    at_once: int

    async def run(self, program: Program) -> Result:
        """Run a program to its end or to a limit. Raises SandboxError, and nothing else.

        On cancellation, first end its whole tree of processes.
        """
        ...


async def run(sandbox: Sandbox, program: Program) -> Result:
    """Run a program from within an activity.

    Raises an ApplicationError if the sandbox itself fails: of type `sandbox_error`, or,
    non-retryable, `PackageError`.
    """
    outcome = "cancelled"
    async with heartbeating():
        try:
            result = await sandbox.run(program)
            outcome = result.status
        except PackageError as error:
            outcome = "PackageError"
            raise ApplicationError(str(error), type=outcome, non_retryable=True) from None
        except SandboxError as error:
            outcome = "sandbox_error"
            raise ApplicationError(str(error), type=outcome) from None
        finally:
            OUTCOMES.record(activity_meter(), outcome=outcome)
    return result


class SandboxActivities:
    """The activity that runs any program; the sandbox's own ceiling limits what it may use."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @activity.defn
    async def run_code(self, program: Program) -> Result:
        """Run a program and return its result, whatever it did. Raises as `run` does."""
        return await run(self._sandbox, program)
