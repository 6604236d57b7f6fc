"""The port to whatever runs untrusted code.

SandboxError          the sandbox itself failed: Temporal retries it
└── PackageError      a package that the program asks for is not on this worker: no retry helps
"""

from pathlib import PurePosixPath
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, StringConstraints, model_validator

from reflection.multipath.request import Limits, PackageName
from reflection.run import Record, Request, encoded_size

TASK_QUEUE = "mull-code"
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
# A path inside the work folder: no part of it is empty, begins with a dot, or leads out.
Path = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_. -]*(/[A-Za-z0-9_][A-Za-z0-9_. -]*)*$", max_length=200
    ),
]


class Program(Request):
    """A program to run: one file of Python, or several files and a command.

    `code` is run as the file `main.py`. `files` are texts by their path in the work folder, and
    `command` is what runs there; its word `python` is the sandbox's Python, with numpy, pytest
    and `packages`. `input` is the standard input. `keep_bytes` of the standard output, and of the
    standard error, are returned: half from the beginning, half from the end.
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
    """What a program printed: `size` bytes in all, of which the beginning and the end are kept.

    Bytes that are no UTF-8 are written as backslash escapes. `tail` is empty where all fits.
    """

    head: str
    tail: str
    size: int

    @property
    def text(self) -> str:
        """Both ends, with a note of what is left out between them."""
        if not self.tail:
            return self.head
        return f"{self.head}\n[... of {self.size:,} bytes ...]\n{self.tail}"


class Result(Record):
    """What came of a program, whatever it did.

    `exit_code` and `signal` are those of its first process, None where there is none. Seconds and
    bytes are those of all its processes together. `limits` are those that held.
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
    """The sandbox itself failed, and nothing is known of the program."""


class PackageError(SandboxError):
    """A package that the program asks for is not on this worker, as the message says."""


class Sandbox(Protocol):
    """Whatever runs untrusted code, so many programs at once, and lets none of it out."""

    name: str
    at_once: int

    async def run(self, program: Program) -> Result:
        """Run a program to its end or to a limit. Raises SandboxError, and nothing else.

        A cancellation ends the whole tree of its processes before it goes on.
        """
        ...
