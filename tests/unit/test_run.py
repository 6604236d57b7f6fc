"""What every run has: what a request may ask for, what was spent, what still fits, and sizes."""

import gc
import time
from typing import Any

import pytest
from pydantic import ValidationError

from mull.request import explain
from mull.run import Budget, Spending, call_tokens, room, total, usage
from mull.sampling.loop import Sampling
from mull.sampling.request import WAVE_BYTES, SelfConsistencyRequest
from mull.sampling.result import Response
from mull.text import cut_encoded


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"question": " \n"}, "question: should have at least 1 character"),
        ({"question": "x" * 100_001}, "question: 100,001 bytes exceed the limit of 100,000"),
        ({"question": "x" * 50_000, "max_responses": 401},
         "are 20,050,000 bytes of history, and at most 20,000,000 are taken"),
        ({"question": "x", "prompt_template": "y" * 20_000, "max_responses": 1_000},
         "are 20,001,000 bytes of history"),
        ({"question": "x", "answers": "llm", "max_responses": 101},
         "max_responses is at most 50 where answers are compared by a model"),
        ({"question": "x", "max_concurrency": 33}, "max_concurrency: should be less than"),
        ({"question": "x", "temperature": float("nan")}, "temperature: "),
        ({"question": "x", "budget_usd": 0}, "budget_usd: "),
        ({"question": "x", "colour": 1}, "colour: no such field"),
        ({}, "question: missing"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field(fields: dict[str, Any], said: str) -> None:
    """Each wrong field is refused in one line that says why."""
    with pytest.raises(ValidationError) as caught:
        SelfConsistencyRequest(**fields)

    assert said in explain(caught.value)
    assert "\n" not in explain(caught.value)


@pytest.mark.parametrize("responses", [1, 60, 1_000])
@pytest.mark.parametrize("character", ["a", "数", "\x01"])
def test_the_largest_result_fits_a_payload(responses: int, character: str) -> None:
    """All answers different and as long as may be, every reasoning too: under 512 KiB, at once.

    A worker that takes two seconds for it is taken to hang.
    """
    request = SelfConsistencyRequest(
        question=cut_encoded(character * 20_000, 20_000), rule="fixed", max_responses=responses
    )
    sampling = Sampling(request)
    reasoning = cut_encoded(character * 300_000, request.reasoning_bytes)
    for index in range(responses):
        answer = cut_encoded(f"{index} {character * 3_000}", request.answer_bytes)
        known = {"answer": answer, "vote": answer, "reasoning": reasoning, "model": character * 200}
        sampling.count(Response(index=index, **known))

    # As in a worker, what was there before is not searched for garbage: tests leave a lot of it.
    gc.freeze()
    started = time.thread_time()
    result = sampling.result()
    took = time.thread_time() - started
    gc.unfreeze()

    assert took < 0.4
    assert len(result.model_dump_json().encode()) < 512 * 1024


@pytest.mark.parametrize(("size", "calls"), [(100, 32), (50_000, 32), (100_000, 25)])
def test_a_wave_fits_one_message(size: int, calls: int) -> None:
    """A large question makes for smaller waves, whatever concurrency was asked for."""
    request = SelfConsistencyRequest(question="q" * size, max_concurrency=32)

    assert request.concurrency == calls
    assert request.concurrency * request.asked_bytes <= WAVE_BYTES


def test_one_unknown_makes_its_sum_unknown() -> None:
    """Unknown is never 0; calls without a reply are counted in parts of their own."""
    known = Spending(calls=1, input_tokens=80, output_tokens=20, cached_tokens=5, cost_usd=0.25)
    unpriced = Spending(calls=1, input_tokens=10, output_tokens=1)

    found = usage({"generating": [known, known], "evaluating": [known]}, retried=2, cancelled=0)

    assert total([known, unpriced]) == Spending(calls=2, input_tokens=90, output_tokens=21)
    assert (found.calls, found.tokens, found.cost_usd) == (3, 300, 0.75)
    assert (found.parts["generating"].calls, found.parts["evaluating"]) == (2, known)
    assert (found.parts["retried"], found.parts["cancelled"]) == (Spending(calls=2), total([]))


def spent(tokens: int | None, usd: float | None = None) -> Spending:
    return Spending(calls=1, input_tokens=tokens, output_tokens=0, cost_usd=usd)


@pytest.mark.parametrize(
    ("budget", "calls", "fits"),
    [
        (Budget(), [], 5),
        (Budget(tokens=1_000), [], 1),
        (Budget(tokens=1_000), [spent(100)], 5),
        (Budget(tokens=350), [spent(100)], 2),
        (Budget(tokens=350), [spent(50), spent(150)], 1),
        (Budget(tokens=300), [spent(100), spent(100), spent(100)], 0),
        (Budget(tokens=300), [spent(400)], 0),
        (Budget(tokens=400), [spent(100), spent(None)], 2),
        (Budget(tokens=400), [spent(None)], 0),
        (Budget(usd=0.05), [spent(100, 0.01)], 4),
        (Budget(usd=0.05), [spent(100, None)], 0),
        (Budget(usd=0.05), [spent(100, 0.0)], 5),
        (Budget(tokens=1_000, usd=0.03), [spent(100, 0.01)], 2),
    ],
)
def test_as_many_calls_fit_as_the_largest_so_far_allows(
    budget: Budget, calls: list[Spending], fits: int
) -> None:
    """Each of 5 calls is taken to be as large as the largest so far; the first goes alone."""
    found = room(budget, calls, 5)

    assert found.calls == fits
    assert found.reason or fits == 5


@pytest.mark.parametrize(
    ("tokens", "usd", "expected", "fits"),
    [
        (9_000, None, None, False),
        (9_000, None, 1_000, True),
        (9_000, None, 1_001, False),
        (16_000, None, 20_000, True),
        (9_000, 0.15, 1_000, False),
        (9_000, 0.16, 1_000, True),
    ],
)
def test_the_first_call_of_a_kind_is_as_large_as_it_may_get(
    tokens: int, usd: float | None, expected: int | None, fits: bool
) -> None:
    """After one of 8,000 tokens it is never taken to be larger; its price is not known."""
    found = room(Budget(tokens=tokens, usd=usd), [spent(8_000, 0.08)], 1, expected=expected)

    assert bool(found.calls) is fits


@pytest.mark.parametrize(
    ("texts", "tokens"), [((), 700), (("a" * 300,), 800), (("数" * 98, "a" * 9), 801)]
)
def test_a_call_is_sized_by_its_texts_and_its_limit(texts: tuple[str, ...], tokens: int) -> None:
    """Three bytes are a token, which is more than models count; instructions are 600."""
    assert call_tokens(texts, 100) == tokens
