"""Whole runs for tests: the real rules decide over answers that a test writes down."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mull.run import Spending
from mull.sampling.loop import Sampling
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Response, Tally

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sampled(answers: Sequence[str | Response | None], **settings: Any) -> Sampling:
    """Count answers in waves as the workflow does, until the rule stops or none are left."""
    asked: dict[str, Any] = {"question": "What is 3 * 43?", "model": "openai/gpt-test"}
    sampling = Sampling(SelfConsistencyRequest(**asked | settings))
    while len(sampling.responses) < len(answers) and not sampling.stopped:
        at = len(sampling.responses)
        length = min(sampling.plan().calls, len(answers) - at)
        sampling.begin_wave(length)
        for index in range(at, at + length):
            sampling.count(replied(index, answers[index]))
    return sampling


def finished(answers: Sequence[str | Response | None], **settings: Any) -> Sampling:
    """Count answers, and let a person end what the rule would go on with."""
    sampling = sampled(answers, **settings)
    if not sampling.stopped:
        sampling.stop("finished_by_person", "finished by Ann", None, "Ann")
    return sampling


def replied(index: int, answer: str | Response | None) -> Response:
    """Return one reply of 100 tokens in, 40 out and $0.0002, or the response that is given."""
    if isinstance(answer, Response):
        return answer
    return Response(
        index=index, answer=answer, vote=answer,
        reasoning=f"Sample {index + 1}: 3 * 43 = 3 * 40 + 3 * 3 = 129.",
        timestamp=START + timedelta(seconds=index), model="openai/gpt-test", seed=7 + index,
        finish_reason="stop", spending=spending(100, 40, 0.0002),
    )  # fmt: skip


def tally_of(answers: Sequence[str]) -> Tally:
    """Count these votes."""
    tally = Tally()
    for answer in answers:
        tally.add(answer)
    return tally


def spending(read: int, written: int, usd: float = 0.001) -> Spending:
    """Return what one call cost."""
    return Spending(
        calls=1, input_tokens=read, output_tokens=written, cached_tokens=0, cost_usd=usd
    )


def failed(index: int, error: str) -> Response:
    """Return a sample that failed for good after three calls."""
    return Response(index=index, answer=None, error=error, attempts=3, seed=7 + index)


def put_in(index: int, answer: str, author: str) -> Response:
    """Return an answer that a person put in."""
    return Response(
        index=index, answer=answer, vote=answer, author=author, attempts=0, timestamp=START
    )
