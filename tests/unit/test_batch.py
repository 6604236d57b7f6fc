"""Batches by themselves: what is refused, in which order runs start, and what still fits."""

from typing import Any

import pytest
from pydantic import ValidationError

from mull.batch.loop import Batch, Pages
from mull.batch.request import EVENT_BYTES, ID_BYTES, BatchPage, BatchRequest
from mull.batch.result import Allowance, PageEnd
from mull.batch.sheet import cost_words, sheet, standing
from mull.request import explain
from mull.run import Usage
from mull.sheet import Sheet


def variant(name: str = "a", repeats: int = 1, **request: Any) -> dict[str, Any]:
    return {
        "name": name, "workflow": "ReflectOnResultWorkflow", "request": request,
        "takes": {"query": "query"}, "repeats": repeats,
    }  # fmt: skip


def request_of(items: int, *variants: dict[str, Any], **fields: Any) -> BatchRequest:
    return BatchRequest.model_validate(
        {
            "items": [{"query": f"question {place}"} for place in range(items)],
            "variants": variants or [variant()],
            **fields,
        }
    )


def carried_run(**fields: Any) -> dict[str, Any]:
    run = {"item": 0, "variant": "a", "repeat": 0, "workflow_id": "", "status": "completed"}
    return {**run, **fields}


def paged(number: int = 1, **fields: Any) -> Pages:
    return Pages(BatchRequest(variants=[variant()], pages=number, **fields), "b")


def page_end(page: int, reason: str, **counts: int) -> PageEnd:
    """Return how a page ended; an explanation is that its budget is spent."""
    end = {"page": page, "stop_reason": reason, "stop_explanation": "spent", "counts": counts}
    return PageEnd.model_validate(end)


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
        ({"items": [{"query": "x" * 90_000}] * 6}, "540,1"),
        ({"variants": [variant(sources=["y" * 500_000])]}, "bytes of items and variants exceed"),
        ({"items": [{"query": "x"}] * 51, "variants": [variant(repeats=10)]}, "510 runs exceed"),
        ({"pages": 1}, "items: give some, or the number of pages"),
        ({"items": [], "pages": 1, "variants": [variant(sources=["y" * 150_000])]},
         "with pages at most 150,000"),
        ({"carried": [carried_run(variant="b")]}, "names an unknown item or variant"),
        ({"carried": [carried_run(item=1)]}, "names an unknown item or variant"),
        ({"carried": [carried_run(error="x" * 200)]}, "a run with over 275 bytes"),
    ],
)  # fmt: skip
def test_what_is_refused(fields: dict[str, Any], said: str) -> None:
    """The message names the field or the variant, and what to do with it."""
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
    batch = ended(Batch(request_of(3, budget_tokens=100), "b"), spent(40))
    second, held_back = batch.next(), batch.next()
    assert second is not None
    batch.ended(batch.run(second, "completed", spent(40)))

    assert held_back is None
    assert batch.next() is None
    assert (batch.stop_reason, batch.result().not_started) == ("budget", 1)
    assert "80 of 100 tokens are spent, and a run took up to 40" in batch.result().stop_explanation


def test_what_a_run_takes_that_its_item_lacks_is_left_out() -> None:
    """The run fails by itself, and its record says what is missing."""
    request = request_of(1, variant() | {"takes": {"query": "text", "draft": "query"}})

    assert request.fields_of(next(request.plan())) == {"draft": "question 0"}


def test_what_ran_without_a_size_counts_as_the_largest() -> None:
    """Of 100 tokens 30 are spent, and 30 for the run that failed: one more fits, and then none.

    What the pages before have spent counts too, and shows how large a run is; where nothing has a
    size a limit can't be kept.
    """
    batch = ended(Batch(request_of(4, budget_tokens=100), "b"), spent(30), "no key", spent(30))
    after = Batch(request_of(2, budget_tokens=100), "b")
    larger = Batch(request_of(4, budget_tokens=150), "b")
    for page in (after, larger):
        page.allow(Allowance(max_concurrency=4, spent=batch.counts))
    unsized = ended(Batch(request_of(2, budget_usd=1.0), "b"), spent(30))

    assert (batch.next(), after.next(), unsized.next()) == (None, None, None)
    assert "90 of 100 tokens are spent, and a run took up to 30" in batch.stop_explanation
    assert after.stop_explanation == batch.stop_explanation
    assert batch.result().doubt == f"2 of 4 runs without a result ({batch.stop_explanation})"
    assert [larger.next() is None for _ in range(3)] == [False, False, True]
    assert "a limit of $1.00 can't be kept: the model's price" in unsized.stop_explanation


def test_the_largest_batch_fits_an_event() -> None:
    """The records of 500 failed runs fit it, as a result and carried with all their items."""
    request = request_of(100, variant("v" * 40, 5), max_concurrency=32)
    left = (EVENT_BYTES - 500 * 275 - len(request.model_dump_json())) // 100
    items = [{"query": "x" * left} for _ in range(100)]
    request = BatchRequest.model_validate(request.model_dump() | {"items": items})
    batch = Batch(request, "i" * (ID_BYTES + len("/page-5000")))
    while (planned := batch.next()) is not None:
        batch.ended(batch.run(planned, "failed", error='"' * 5_000))

    carrying = batch.going_on()
    again = Batch(BatchRequest.model_validate_json(carrying.model_dump_json()), batch.identity)

    assert batch.result().failed == 500
    assert again.result() == batch.result()
    assert 480_000 < len(carrying.model_dump_json().encode()) <= 520_000
    assert 150_000 < len(batch.result().model_dump_json().encode()) <= 512 * 1024


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ({"items": [{"query": "x"}] * 101}, "505 runs exceed the limit of 500"),
        ({"carried": [carried_run(item=1)]}, "carried: a run names an unknown item or variant"),
        ({"number": 2}, "page 2: the batch has 2 pages, from 0"),
        ({"number": 1}, "page 1: page 0 comes first"),
        ({"items": [{"query": " "}]}, None),
    ],
)
def test_which_pages_are_refused(page: dict[str, Any], said: str | None) -> None:
    """What the whole page is, and not what its items are: a run whose item is wrong fails alone."""
    pages = Pages(BatchRequest(variants=[variant(repeats=5)], pages=2), "b")

    given = BatchPage.model_validate({"number": 0, "items": [{"query": "x"}], **page})

    assert pages.refuses(given) == said


def test_a_batch_that_is_paused_as_its_budget_ends_is_not_held() -> None:
    """Nobody can resume it then, so its next page is told to end, and not to wait."""
    pages = paged(2, budget_tokens=10)
    for number in (0, 1):
        pages.accept(BatchPage(number=number, items=({"query": "x"},)))
    assert pages.next() == 0
    pages.pause(paused=True)
    pages.ended(page_end(0, "budget", completed=1, tokens=10))

    assert (pages.next(), pages.allowance(1).max_concurrency) == (1, 4)


def ended(batch: Batch, *ends: Usage | str | None) -> Batch:
    """End a run for each: with this usage or that of a usual run, or with this error."""
    for end in ends:
        planned = batch.next()
        assert planned
        if isinstance(end, str):
            batch.ended(batch.run(planned, "failed", error=end))
        else:
            batch.ended(batch.run(planned, "completed", end or spent(1_000, 0.02)))
    return batch


def facts(shown: Sheet) -> list[tuple[str, str]]:
    return [(fact.label, fact.value) for fact in shown.facts]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((), "0 tokens, cost $0.00"),
        ((None,), "1,000 tokens, cost $0.020"),
        ((None, "no key", None), "at least 2,000 tokens, cost at least $0.040"),
        (("no key",), "tokens unknown, cost unknown"),
    ],
)
def test_what_is_known_of_the_cost(errors: tuple[str | None, ...], words: str) -> None:
    """One failed run leaves the sums of the others as the least; in the result they are unknown."""
    batch = ended(Batch(request_of(4), "b"), *errors)

    assert cost_words(batch.progress()) == cost_words(batch.result()) == words
    assert (batch.result().tokens is None) == ("no key" in errors)


@pytest.mark.parametrize(
    ("runs", "steps", "first"), [(20, 10, "10 % of 20"), (3, 3, "33 % of 3"), (1, 1, "100 % of 1")]
)
def test_each_tenth_is_a_step(runs: int, steps: int, first: str) -> None:
    """Of twenty runs every other one is said, of a few each; and what was said stays."""
    batch, said = Batch(request_of(runs), "b"), list[str]()
    for _ in range(runs):
        shown = sheet(ended(batch, None).progress())
        assert [step.words for step in shown.steps[: len(said)]] == said
        said = [step.words for step in shown.steps]

    assert (len(said), said[0].startswith(first)) == (steps, True)


def test_what_was_not_started_has_not_ended() -> None:
    """A page that was cancelled early is no progress, and who follows hears of a pause.

    Before any page has come there are no runs, and no step of them.
    """
    pages = paged(2)
    assert sheet(pages.progress()).steps == ()
    pages.accepted, pages.in_flight = [("digest", 5)], {0: 4}
    pages.ended(page_end(0, "completed", completed=2, not_started=3))
    pages.pause(paused=True)

    progress = pages.progress()

    assert (progress.done, progress.not_started, progress.total) == (2, 3, 5)
    assert (sheet(progress).busy or "").startswith("paused: 2 of 5 runs")


def test_a_batch_that_will_start_nothing_more_shows_why() -> None:
    """Once its budget is spent and nothing is in flight, its progress reads as its result does."""
    pages = paged()
    pages.accepted, pages.in_flight = [("digest", 5)], {0: 4}
    pages.ended(page_end(0, "budget", completed=2, not_started=3))

    runs = ("runs", "2 completed, 0 failed, 0 cancelled, 3 not started")
    assert pages.progress() == pages.result()
    assert sheet(pages.progress()).verdict.words == "spent"
    assert facts(sheet(pages.result()))[1] == runs


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


def test_a_page_that_was_paused_has_all_its_places_in_a_new_history() -> None:
    """What a page may do is said by its batch, and a pause bounds it no longer than it lasts."""
    page = Batch(request_of(2, page=0, allowed=0), "b")
    page.allow(Allowance(max_concurrency=0))
    later = Batch(page.going_on(), "b")
    paused = later.most
    later.allow(Allowance(max_concurrency=4))

    assert (paused, later.most) == (0, 4)


def test_warnings_go_on_in_a_new_history() -> None:
    """Each is said once, and the last hundred are kept."""
    pages = paged()
    for number in (0, 0, *range(150)):
        pages.warn(f"warning {number}")

    seen = Pages(pages.going_on(), "b").progress().warnings

    assert (len(seen), seen[-1]) == (100, "warning 149")


def test_a_batch_says_first_that_runs_have_no_result() -> None:
    """Nothing is said where all have one."""
    whole = ended(Batch(request_of(2), "b"), None, None).result()
    parted = ended(Batch(request_of(2), "b"), None, "no key").result()

    assert sheet(whole).flags == ()
    assert sheet(parted).flags == ("not to be built on: 1 of 2 runs without a result",)
