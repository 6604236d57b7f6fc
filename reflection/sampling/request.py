"""What a run of self-consistency is asked for."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from reflection.run import encoded_size
from reflection.sampling.rules import Stopping

AnswerKind = Literal["exact", "text", "number", "choice", "llm"]

QUESTION_BYTES = 100_000
TEMPLATE_BYTES = 20_000
HISTORY_BYTES = 20_000_000
# What starts a wave goes to the server in one message of at most 4 MB.
WAVE_BYTES = 2_500_000
# A result repeats an answer up to five times and must fit a payload of 2 MiB.
ANSWERS_BYTES = 120_000
REASONINGS_BYTES = 200_000
COMPARED_RESPONSES = 50

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class SelfConsistencyRequest(Stopping):
    """A question, how its answers are compared, and everything that bounds the run.

    `temperature` is 0 to 2. `seed`: sample i is asked for with seed + i, so that samples differ.
    `prompt_template` replaces the chain-of-thought prompt; `{question}` in it is the place of
    the question, which goes to the end where there is none. Budgets bound tokens in and out
    together, US dollars, and seconds from the start. `sample_timeout_seconds` bounds one call,
    `max_attempts` how often a call that fails in passing is made. A result whose uncertainty is as
    `review_when` waits for a person, for at most `review_timeout_seconds`.
    Source: the self-reflection agent; its defaults.
    """

    question: Words
    model: str | None = Field(None, min_length=1, max_length=200)
    answers: AnswerKind = "exact"
    prompt_template: str | None = Field(None, min_length=1)
    temperature: float = Field(0.7, ge=0, le=2, allow_inf_nan=False)
    seed: int | None = Field(None, ge=0, le=2**31)
    max_output_tokens: int = Field(1024, ge=1, le=32_768)
    max_concurrency: int = Field(16, ge=1, le=32)
    budget_tokens: int | None = Field(None, ge=1)
    budget_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    budget_seconds: float | None = Field(None, gt=0, le=30 * 86_400, allow_inf_nan=False)
    sample_timeout_seconds: float = Field(120, ge=1, le=3_600, allow_inf_nan=False)
    max_attempts: int = Field(5, ge=1, le=100)
    review_when: Literal["high"] | None = None
    review_timeout_seconds: float | None = Field(None, gt=0, le=30 * 86_400, allow_inf_nan=False)

    @property
    def asked_bytes(self) -> int:
        """The size of what each call of a wave carries, in bytes."""
        return encoded_size(self.question) + encoded_size(self.prompt_template or "")

    @property
    def concurrency(self) -> int:
        """The calls of one wave, at most: `max_concurrency`, and what fits into one message."""
        return max(1, min(self.max_concurrency, WAVE_BYTES // self.asked_bytes))

    @property
    def answer_bytes(self) -> int:
        """The size of one answer, at most, so that the result of the longest run can be kept."""
        return min(2_000, ANSWERS_BYTES // self.max_responses)

    @property
    def reasoning_bytes(self) -> int:
        """The size to which one reasoning is cut, for the same end."""
        return REASONINGS_BYTES // self.max_responses

    @field_validator("question")
    @classmethod
    def _small_question(cls, question: str) -> str:
        return _within(question, QUESTION_BYTES)

    @field_validator("prompt_template")
    @classmethod
    def _small_template(cls, template: str | None) -> str | None:
        return None if template is None else _within(template, TEMPLATE_BYTES)

    @model_validator(mode="after")
    def _small_history(self) -> Self:
        size = self.asked_bytes * self.max_responses
        if size > HISTORY_BYTES:
            raise ValueError(
                f"question and prompt_template, {self.max_responses} times, are {size:,} bytes of"
                f" history, and at most {HISTORY_BYTES:,} are taken"
            )
        if self.answers == "llm" and self.max_responses > COMPARED_RESPONSES:
            raise ValueError(
                f"max_responses is at most {COMPARED_RESPONSES} where answers are compared by a"
                " model, which may be asked about every pair of them"
            )
        return self


def _within(text: str, most: int) -> str:
    size = encoded_size(text)
    if size > most:
        raise ValueError(f"{size:,} bytes, and at most {most:,} are taken")
    return text
