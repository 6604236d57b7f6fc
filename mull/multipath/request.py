"""The request of a run of the multi-path agent."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal

from pydantic import FailFast, Field, StringConstraints, field_validator

from mull.multipath.parts import Mode
from mull.multipath.suite import FILE_BYTES, TestFile
from mull.option import model_option, option, review_option
from mull.request import Bounded, Frozen, ModelName, Words, output_limit, time_out
from mull.text import within

PROMPT_BYTES = 100_000
OUTPUT_BYTES = 60_000
R_MAX: dict[Mode, int] = {"research": 3, "code": 5}

Folder = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]

SEARCHED = (
    "A folder to search, on the worker's machine and inside one that MULL_DOCUMENTS names there."
)
path_option, code_option = partial(option, "Path"), partial(option, "Code and its tests")
limit_option = partial(option, "Each run of the code in the sandbox")


class Limits(Frozen):
    """The limits of one run of a program.

    A worker has its own ceiling, and the lower of the two applies.
    """

    wall_seconds: float = limit_option(
        10, "Seconds by the clock.", gt=0, le=3_600, allow_inf_nan=False
    )
    cpu_seconds: float = limit_option(
        10, "Seconds of CPU time.", gt=0, le=3_600, allow_inf_nan=False
    )
    memory_mb: int = limit_option(512, "Mebibytes of memory.", ge=32, le=65_536)
    disk_mb: int = limit_option(64, "Mebibytes of disk.", ge=1, le=65_536)
    processes: int = Field(
        default=64, ge=1, le=4_096, description="Processes and threads together."
    )
    output_bytes: int = Field(
        default=1_000_000, ge=1_000, le=100_000_000, description="Bytes printed."
    )


class MultiPathRequest(Bounded):
    """A prompt, the documents that the worker may read for it, and everything that bounds the run.

    `limits` bound each run of the code.
    """

    subject_field = "prompt"

    prompt: Words
    docs: Folder | None = option("Documents", None, SEARCHED, "folder", common=True)
    mode: Mode | None = path_option(None, "The path; the agent chooses by default.", common=True)
    judge: ModelName | None = model_option(
        None,
        "The model that reflects on reports. The worker's judge by default.",
        "model",
        variable="MULL_JUDGE_MODEL",
    )
    passages: int = option(
        "Documents", 8, "How many passages to retrieve.", only_with={"docs": None}, ge=1, le=20
    )
    max_revisions: int | None = option(
        "How long to revise",
        None,
        "The most drafts, the first one counted, unlike in `reflect`; 3 for research"
        " and 5 for code by default.",
        common=True,
        ge=1,
        le=10,
    )
    creative: bool = path_option(
        True, "Off: no ideas beyond the documents.", only_with={"mode": (None, "research")}
    )
    language: Literal["python"] = code_option("python", "The language of the code.")
    entry: FunctionName | None = code_option(None, "The name of the function to write.")
    tests: TestFile | None = Field(
        default=None,
        description="Tests of yours. Without them they come from the prompt's examples, else from"
        " the model.",
    )
    packages: Annotated[tuple[PackageName, ...], FailFast()] = code_option(
        (),
        "What the code may import besides numpy and pytest: packages of the worker's"
        " own environment.",
        "names",
        max_length=50,
    )
    limits: Limits = Field(
        default_factory=Limits, description="What each run of the code is held to."
    )
    temperature: float = model_option(0.7, "Temperature.", ge=0, le=2, allow_inf_nan=False)
    seed: int | None = model_option(None, "The model's seed, if it takes one.", ge=0, le=2**31)
    max_output_tokens: int | None = output_limit("reply", 4_096, model_option, common=True)
    call_timeout_seconds: float | None = time_out("call")
    review_open: bool = review_option(
        False, "A result that is open (critiques or an error) waits for a person."
    )
    # A field that is gone: earlier starters sent it as null, and the runs that they began go on.
    embedding_model: None = Field(default=None, exclude=True)

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
