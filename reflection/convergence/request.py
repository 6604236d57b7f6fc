"""What a run of self-consistency is asked for."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from reflection.convergence.rules.settings import Stopping

AnswerKind = Literal["exact", "text", "number", "choice", "llm"]

QUESTION_BYTES = 100_000
HISTORY_BYTES = 20_000_000
COMPARED_RESPONSES = 100

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class SelfConsistencyRequest(Stopping):
    """A question, how its answers are compared, and everything that bounds the run.

    `temperature` is 0 to 2. `seed`: sample i is asked for with seed + i, so that samples differ.
    `prompt_template` replaces the chain-of-thought prompt; `{question}` in it is the place of
    the question, which goes to the end where there is none. Budgets bound tokens in and out
    together, US dollars, and seconds from the start. `sample_timeout_seconds` bounds one call,
    `max_attempts` how often a call that fails in passing is made.
    Source: the self-reflection agent; its defaults.
    """

    question: Words
    model: str | None = Field(None, min_length=1, max_length=200)
    answers: AnswerKind = "exact"
    prompt_template: str | None = Field(None, min_length=1, max_length=20_000)
    temperature: float = Field(0.7, ge=0, le=2, allow_inf_nan=False)
    seed: int | None = Field(None, ge=0, le=2**31)
    max_output_tokens: int = Field(1024, ge=1, le=32_768)
    max_concurrency: int = Field(16, ge=1, le=32)
    budget_tokens: int | None = Field(None, ge=1)
    budget_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    budget_seconds: float | None = Field(None, gt=0, le=30 * 86_400, allow_inf_nan=False)
    sample_timeout_seconds: float = Field(120, ge=1, le=3_600, allow_inf_nan=False)
    max_attempts: int = Field(5, ge=1, le=100)

    @field_validator("question")
    @classmethod
    def _small_enough(cls, question: str) -> str:
        size = len(question.encode("utf-8", "surrogatepass"))
        if size > QUESTION_BYTES:
            raise ValueError(f"{size:,} bytes, and at most {QUESTION_BYTES:,} are taken")
        return question

    @model_validator(mode="after")
    def _small_history(self) -> Self:
        asked = self.question + (self.prompt_template or "")
        size = len(asked.encode("utf-8", "surrogatepass")) * self.max_responses
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
