"""The request of a self-consistency run."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from mull.option import bound_option, model_option, option, review_option
from mull.request import Bounded, Framing, Words, output_limit, time_out
from mull.sampling.probability import CalibrationMap
from mull.sampling.rules import Stopping
from mull.text import encoded_size, within

AnswerKind = Literal["exact", "text", "number", "choice", "llm"]

QUESTION_BYTES = 100_000
TEMPLATE_BYTES = 20_000
HISTORY_BYTES = 20_000_000
# What starts a wave goes to the server in one message of at most 4 MB.
WAVE_BYTES = 2_500_000
# Answers are the keys of a result's distribution, which are never cut.
ANSWERS_BYTES = 60_000
REASONINGS_BYTES = 200_000
COMPARED_RESPONSES = 50

answer_option = partial(option, "Answers")


class SelfConsistencyRequest(Bounded, Stopping, Framing):
    """A question, how its answers are compared, and everything that bounds the run.

    Source: the self-reflection agent; its defaults.
    """

    subject_field = "question"

    question: Annotated[Words, AfterValidator(partial(within, most=QUESTION_BYTES))]
    answers: AnswerKind = answer_option(
        "exact",
        "How answers are compared; llm asks the model whether two mean the same.",
        common=True,
    )
    prompt_template: Annotated[str, AfterValidator(partial(within, most=TEMPLATE_BYTES))] | None = (
        answer_option(
            None,
            "A prompt in place of the step-by-step one; {question} in it is the"
            " question's place, else its end.",
            "text",
            min_length=1,
        )
    )
    temperature: float = model_option(0.7, "Temperature.", ge=0, le=2, allow_inf_nan=False)
    seed: int | None = model_option(
        None, "Sample i gets seed + i, so that samples differ.", ge=0, le=2**31
    )
    max_output_tokens: int | None = output_limit("reply", 1_024, model_option, common=True)
    max_concurrency: int = bound_option(16, "The most calls at once.", ge=1, le=32)
    sample_timeout_seconds: float | None = time_out("call", flag="--sample-timeout-seconds")
    review_when: Literal["high"] | None = review_option(
        None, "An answer whose uncertainty is high waits for a person."
    )
    calibration: CalibrationMap | None = answer_option(
        None,
        "A map of `mull replay --calibrate`; else the worker's own.",
        "json",
        expected="a map of `mull replay --calibrate`",
    )

    def most_calls(self) -> Iterator[tuple[str | None, int]]:
        """Yield the models of a run, each with the most calls of it."""
        yield self.model, self.max_responses

    def task_timeout(self) -> timedelta | None:
        """Return it as for any run; None where each answer may be compared with each other one."""
        return None if self.answers == "llm" else super().task_timeout()

    @property
    def call_timeout_seconds(self) -> float | None:
        """The same time-out by the name that it has in other requests."""
        return self.sample_timeout_seconds

    @property
    def asked_bytes(self) -> int:
        """The size of what each call of a wave carries, in bytes."""
        own = encoded_size(self.question) + encoded_size(self.prompt_template or "")
        return own + self.shown_bytes

    @property
    def concurrency(self) -> int:
        """The most calls in one wave: `max_concurrency`, or fewer to fit one message."""
        return max(1, min(self.max_concurrency, WAVE_BYTES // self.asked_bytes))

    @property
    def answer_bytes(self) -> int:
        """The size of one answer, at most, so that the result of the longest run can be kept."""
        return min(2_000, ANSWERS_BYTES // self.max_responses)

    @property
    def reasoning_bytes(self) -> int:
        """The size to which one reasoning is cut, for the same end."""
        return REASONINGS_BYTES // self.max_responses

    @model_validator(mode="after")
    def _small_history(self) -> Self:
        size = self.asked_bytes * self.max_responses
        if size > HISTORY_BYTES:
            raise ValueError(
                f"question, prompt_template, system, context and messages, {self.max_responses}"
                f" times, are {size:,} bytes of history, and at most {HISTORY_BYTES:,} are taken"
            )
        if self.answers == "llm" and self.max_responses > COMPARED_RESPONSES:
            raise ValueError(
                f"max_responses is at most {COMPARED_RESPONSES} where answers are compared by a"
                " model, which may be asked about every pair of them"
            )
        return self
