"""The request of a run of the multi-path agent."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import FailFast, Field, StringConstraints, field_validator

from mull.multipath.state import Mode
from mull.multipath.suite import FILE_BYTES, TestFile
from mull.request import Bounded, Frozen, ModelName, Words, output_limit, time_out
from mull.text import within

PROMPT_BYTES = 100_000
OUTPUT_BYTES = 60_000
R_MAX: dict[Mode, int] = {"research": 3, "code": 5}

Folder = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Limits(Frozen):
    """The limits of one run of a program.

    A worker has its own ceiling, and the lower of the two applies.
    """

    wall_seconds: float = Field(
        10, gt=0, le=3_600, allow_inf_nan=False, description="Seconds by the clock."
    )
    cpu_seconds: float = Field(
        10, gt=0, le=3_600, allow_inf_nan=False, description="Seconds of CPU time."
    )
    memory_mb: int = Field(512, ge=32, le=65_536, description="Mebibytes of memory.")
    disk_mb: int = Field(64, ge=1, le=65_536, description="Mebibytes of disk.")
    processes: int = Field(64, ge=1, le=4_096, description="Processes and threads together.")
    output_bytes: int = Field(1_000_000, ge=1_000, le=100_000_000, description="Bytes printed.")


class MultiPathRequest(Bounded):
    """A prompt, the documents that the worker may read for it, and everything that bounds the run.

    `limits` bound each run of the code.
    """

    subject_field = "prompt"

    prompt: Words
    docs: Folder | None = Field(
        None,
        description="A folder to search, on the worker's machine and inside one that MULL_DOCUMENTS"
        " names there.",
    )
    mode: Mode | None = Field(None, description="The path; the agent chooses by default.")
    judge: ModelName | None = Field(
        None, description="The model that reflects on reports; else the worker's own judge."
    )
    passages: int = Field(8, ge=1, le=20, description="How many passages to retrieve.")
    max_revisions: int | None = Field(
        None,
        ge=1,
        le=10,
        description="The most drafts, the first one counted, unlike in `reflect`; 3 for research"
        " and 5 for code by default.",
    )
    creative: bool = Field(True, description="Off: no ideas beyond the documents.")
    language: Literal["python"] = Field("python", description="The language of the code.")
    entry: FunctionName | None = Field(None, description="The name of the function to write.")
    tests: TestFile | None = Field(
        None,
        description="Tests of yours. Without them they come from the prompt's examples, else from"
        " the model.",
    )
    packages: Annotated[tuple[PackageName, ...], FailFast()] = Field(
        (),
        max_length=50,
        description="What the code may import besides numpy and pytest: packages of the worker's"
        " own environment.",
    )
    limits: Limits = Field(default_factory=Limits)
    temperature: float = Field(0.7, ge=0, le=2, allow_inf_nan=False, description="Temperature.")
    seed: int | None = Field(None, ge=0, le=2**31, description="The model's seed, if it takes one.")
    max_output_tokens: int | None = output_limit("reply", 4_096)
    call_timeout_seconds: float | None = time_out("call")
    review_open: bool = Field(
        False, description="A result that is open (critiques or an error) waits for a person."
    )
    # A field that is gone: earlier starters sent it as null, and the runs that they began go on.
    embedding_model: None = Field(None, exclude=True)

    @property
    def draft_bytes(self) -> int:
        """The size in bytes to which a draft is cut."""
        return OUTPUT_BYTES

    def most_calls(self) -> Iterator[tuple[str | None, int]]:
        """Yield the models of a run, each with the most calls of it."""
        drafts = max(map(self.r_max, R_MAX))
        yield self.model, 2 + drafts
        yield self.judge, drafts

    def r_max(self, mode: Mode) -> int:
        """Return the most drafts that may be made, the first one included."""
        return self.max_revisions or R_MAX[mode]

    @field_validator("prompt")
    @classmethod
    def _small_prompt(cls, prompt: str) -> str:
        return within(prompt, PROMPT_BYTES)

    @field_validator("tests")
    @classmethod
    def _small_tests(cls, tests: TestFile | None) -> TestFile | None:
        within("" if tests is None else tests.text, FILE_BYTES)
        return tests
