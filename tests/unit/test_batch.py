"""Batches by themselves: what is refused, in which order runs start, and what still fits."""

from typing import Any

import pytest
from pydantic import ValidationError

from reflection.batch.loop import Batch
from reflection.batch.request import BatchRequest
from reflection.batch.sheet import sheet, standing
from reflection.request import explain
from reflection.run import Usage
from reflection.sheet import Sheet


def variant(name: str = "a", repeats: int = 1, **request: Any) -> dict[str, Any]:
    return {
        "name": name,
        "workflow": "ReflectOnResultWorkflow",
        "request": request,
        "takes": {"query": "query"},
        "repeats": repeats,
    }


def request_of(items: int, *variants: dict[str, Any], **fields: Any) -> BatchRequest:
    return BatchRequest.model_validate(
        {
            "items": [{"query": f"question {place}"} for place in range(items)],
            "variants": variants or [variant()],
            **fields,
        }
    )


def spent(tokens: int | None, cost: float | None = None) -> Usage:
    return Usage(calls=1, input_tokens=tokens, output_tokens=0, cost_usd=cost)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"items": []}, "items: "),
        ({"variants": []}, "variants: "),
        ({"colour": 1}, "colour: no such field"),
        ({"max_concurrency": 33}, "max_concurrency: "),
        ({"variants": [variant(), variant()]}, "two variants have the same name"),
        ({"variants": [variant("a b")]}, "variants.0.name: "),
        ({"variants": [variant(repeats=0)]}, "variants.0.repeats: "),
        ({"variants": [variant() | {"workflow": "BatchWorkflow"}]}, "variants.0.workflow: "),
        ({"variants": [variant(query="x")]}, "variant a: query is in both request and takes"),
        (
            {"variants": [variant() | {"takes": {"query": "text"}}]},
            "item 0 has no text, which a takes",
        ),
        ({"variants": [variant(colour=1)]}, "variant a with item 0: colour: no such field"),
        ({"items": [{"query": "x"}, {"query": " "}]}, "variant a with item 1: query: "),
        ({"items": [{"query": "x" * 90_000}] * 6}, "540,1"),
        ({"variants": [variant(sources=["y" * 500_000])]}, "bytes of items and variants exceed"),
        (
            {"items": [{"query": "x"}] * 400, "variants": [variant("v" * 40, 5)]},
            "2,000 runs need shorter names of their variants",
        ),
        ({"items": [{"query": "x"}] * 201, "variants": [variant(repeats=10)]}, "2,010 runs"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], said: str) -> None:
    """The message names the field, the variant or the item, and what to do with it."""
    whole = {"items": [{"query": "x"}], "variants": [variant()], **fields}

    with pytest.raises(ValidationError) as caught:
        BatchRequest.model_validate(whole)

    assert said in explain(caught.value)


def test_large_runs_are_fewer_at_once() -> None:
    """What starts runs goes to the server in one message: 32 of 180 KB would not fit into it."""
    large = {"items": [{"query": "x" * 90_000}] * 4, "variants": [variant(sources=["y" * 90_000])]}

    request = BatchRequest.model_validate({**large, "max_concurrency": 32})

    assert request.concurrency == 13
    assert request_of(3, max_concurrency=32).concurrency == 32


def test_runs_in_flight_count_as_the_largest_so_far() -> None:
    """With 40 of 100 spent, one more of 40 fits beside none, and a third never does."""
    batch = Batch(request_of(3, budget_tokens=100), "b")
    first = batch.next()
    assert first is not None
    batch.ended(first, "completed", spent(40))
    second, held_back = batch.next(), batch.next()
    assert second is not None
    batch.ended(second, "completed", spent(40))

    assert held_back is None
    assert batch.next() is None
    assert (batch.stop_reason, batch.result().not_started) == ("budget", 1)
    assert "80 of 100 tokens are spent, and a run took up to 40" in batch.result().stop_explanation


def test_an_error_is_cut_to_what_a_long_result_can_hold() -> None:
    """The records of 2,000 failed runs fit an event, as a result and carried with their items."""
    items = [{"query": "\x01" * 40} for _ in range(400)]
    request = request_of(400, variant("v" * 20, 5), max_concurrency=32)
    request = BatchRequest.model_validate(request.model_dump() | {"items": items})
    batch = Batch(request, "i" * request.id_bytes)
    while (planned := batch.next()) is not None:
        batch.ended(planned, "failed", error='"' * 5_000)

    carrying = request.model_copy(update={"carried": batch.carried()})
    again = Batch(BatchRequest.model_validate_json(carrying.model_dump_json()), batch._identity)

    assert batch.result().failed == 2_000
    assert again.result() == batch.result()
    assert 400_000 < len(carrying.model_dump_json().encode()) <= 512 * 1024
    assert 400_000 < len(batch.result().model_dump_json().encode()) <= 512 * 1024


def ended(batch: Batch, *errors: str | None) -> Batch:
    """End a run for each: with a result, or with this error."""
    for error in errors:
        planned = batch.next()
        assert planned
        if error is None:
            batch.ended(planned, "completed", spent(1_000, 0.02))
        else:
            batch.ended(planned, "failed", error=error)
    return batch


def facts(shown: Sheet) -> list[tuple[str, str]]:
    return [(fact.label, fact.value) for fact in shown.facts]


def test_a_batch_that_has_ended() -> None:
    """Why it ended stands with what became of its runs, and the three commonest failures."""
    errors = ("Timeout: slow", "no key", "Timeout: slow", "a", "b")
    batch = ended(Batch(request_of(8, max_concurrency=8), "b"), None, *errors)
    batch.stop("budget", "the next run does not fit")

    shown = sheet(batch.result())

    assert (shown.verdict.stop_reason, shown.verdict.words) == (
        "budget",
        "the next run does not fit",
    )
    assert facts(shown) == [
        ("batch", "6 of 8 runs"),
        ("runs", "1 completed, 5 failed, 0 cancelled, 2 not started"),
        *(("failures", said) for said in ("Timeout: slow", "no key", "a")),
        ("spent", "tokens unknown, cost unknown"),
    ]
    assert [fact.note for fact in shown.facts][2:4] == ["2", "1"]


def test_each_tenth_is_a_step() -> None:
    """Of twenty runs every other one is said, and what was said stays."""
    batch, said = Batch(request_of(20), "b"), list[str]()
    for _ in range(20):
        shown = sheet(ended(batch, None).progress())
        assert [step.words for step in shown.steps[: len(said)]] == said
        said = [step.words for step in shown.steps]

    assert (len(said), said[0]) == (10, "10 % of 20 runs have ended")


def test_a_standing_batch_counts_by_variant_without_a_text() -> None:
    """The Web UI shows how far each variant is, and never what was asked."""
    batch = ended(Batch(request_of(2, variant("a"), variant("b")), "b"), None, "no key")

    shown = standing(batch)

    assert shown.tables[0].rows == (("a", 1, 0, 2), ("b", 1, 1, 2))
    assert "question" not in str(shown)


def test_a_plan() -> None:
    """Variants take turns; ids count from 0 and summaries from 1; the query is the item's.

    No variant is always first, and a repeat of all begins when each was made once.
    """
    request = request_of(2, variant("a", 2, seed=7), variant("b"))
    batch = Batch(request, "batch-7")

    plan = list(request.plan())

    assert plan == [(0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    assert request.fields_of(plan[-1]) == {"seed": 7, "query": "question 1"}
    assert batch.id_of(plan[-1]) == "batch-7/1-a-1"
    assert batch.summary_of(plan[-1]) == "item 2 by a, 2 of 2"
