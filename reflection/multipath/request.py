"""What a run of the multi-path agent is asked for."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reflection.multipath.state import Mode
from reflection.multipath.suite import FILE_BYTES, TestFile
from reflection.request import Frozen, Request
from reflection.size import encoded_size

PROMPT_BYTES = 100_000
OUTPUT_BYTES = 60_000
PERSONS_REVISIONS = 5
R_MAX: dict[Mode, int] = {"research": 3, "code": 5}

Seconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Folder = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
FunctionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Limits(Frozen):
    """What a program may take: seconds, mebibytes, processes and threads together, bytes printed.

    A worker has a ceiling of its own, and the lower of the two holds.
    """

    wall_seconds: float = Field(10, gt=0, le=3_600, allow_inf_nan=False)
    cpu_seconds: float = Field(10, gt=0, le=3_600, allow_inf_nan=False)
    memory_mb: int = Field(512, ge=32, le=65_536)
    disk_mb: int = Field(64, ge=1, le=65_536)
    processes: int = Field(64, ge=1, le=4_096)
    output_bytes: int = Field(1_000_000, ge=1_000, le=100_000_000)


class MultiPathRequest(Request):
    """A prompt, the documents that the worker may read for it, and everything that bounds the run.

    `docs` is a folder on the worker, under a root that its operator allows. `mode` overrides the
    router. `max_revisions` is R_max, counted with the first draft: 3 for research and 5 for code
    where it is not given. `passages` is how many are retrieved. `embedding_model` adds a search
    by meaning to the one by words. `creative` lets the reflection add ideas beyond the documents.
    `judge` reflects on reports; none: the worker's own judge.

    `tests` is a user's own file. Without one the tests come from the prompt's examples, and else
    from the model. `entry` is the function that is asked for. `packages` are further wheels of
    the worker's environment that the code may import. `limits` bound each run of the code.

    Budgets bound tokens in and out together, US dollars, and seconds from the start without the
    time spent waiting for a person. `max_output_tokens` bounds one reply, `call_timeout_seconds`
    one call, and `max_attempts` how often a call that fails in passing is made. With `review_open`
    a result that still has critiques or an error waits for a person, for at most
    `review_timeout_seconds`.
    """

    prompt: Words
    docs: Folder | None = None
    mode: Mode | None = None
    model: ModelName | None = None
    judge: ModelName | None = None
    embedding_model: ModelName | None = None
    passages: int = Field(8, ge=1, le=20)
    max_revisions: int | None = Field(None, ge=1, le=10)
    creative: bool = True
    language: Literal["python"] = "python"
    entry: FunctionName | None = None
    tests: TestFile | None = None
    packages: tuple[PackageName, ...] = Field((), max_length=50)
    limits: Limits = Field(default_factory=Limits)
    temperature: float = Field(0.7, ge=0, le=2, allow_inf_nan=False)
    seed: int | None = Field(None, ge=0, le=2**31)
    max_output_tokens: int = Field(4096, ge=1, le=32_768)
    budget_tokens: int | None = Field(None, ge=1)
    budget_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    budget_seconds: Seconds | None = None
    call_timeout_seconds: float = Field(120, ge=1, le=3_600, allow_inf_nan=False)
    max_attempts: int = Field(5, ge=1, le=100)
    review_open: bool = False
    review_timeout_seconds: Seconds | None = None

    def r_max(self, mode: Mode) -> int:
        """Return how many drafts there may be, the first one counted."""
        return self.max_revisions or R_MAX[mode]

    @model_validator(mode="after")
    def _small(self) -> Self:
        _within("prompt", self.prompt, PROMPT_BYTES)
        if self.tests is not None:
            _within("tests", self.tests.text, FILE_BYTES)
        return self


def _within(field: str, text: str, most: int) -> None:
    size = encoded_size(text)
    if size > most:
        raise ValueError(f"{field}: {size:,} bytes, and at most {most:,} are taken")
