"""A result that waits for a person, and what they may say of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)

from reflection.critique.result import Progress, ReflectOnResultResult
from tests.conftest import begin_reflecting, served
from tests.scripted import ScriptedCritic

Handle = WorkflowHandle[Any, Any]


async def needs_review(handle: Handle, waits: bool = True) -> bool:
    """Wait until the run's search attribute says that it waits for a person, or no more."""
    async with asyncio.timeout(20):
        while True:
            description = await handle.describe()
            found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
            if found.get("MullNeedsReview") is waits:
                return True
            await asyncio.sleep(0.1)


@asynccontextmanager
async def waiting(client: Client, model: ScriptedCritic, **fields: Any) -> AsyncIterator[Handle]:
    """A run whose score of 0.4 is below 0.6, waiting for a person."""
    async with served(client, model):
        handle = await begin_reflecting(client, review_below=0.6, **fields)
        await needs_review(handle)
        yield handle


async def ended(handle: Handle) -> ReflectOnResultResult:
    return ReflectOnResultResult.model_validate(await asyncio.wait_for(handle.result(), 20))


def poor(*more: float) -> ScriptedCritic:
    return ScriptedCritic(["a", "b", "c", "d"], [0.4, 0.3, *more])


async def test_a_person_accepts(client: Client) -> None:
    """The best draft stands with its score, and the decision names who accepted it, and when."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("review", {"accept": True, "author": "ann"})
        result = await ended(handle)

    assert (result.draft, result.score, result.stop_reason) == ("a", 0.4, "accepted_by_person")
    before, last = result.decisions[-2:]
    assert before.reason.endswith("a score below 0.6 waits for a review")
    assert (before.stop_reason, before.stop, before.waits_for_review) == (
        "max_revisions",
        False,
        True,
    )
    assert (last.author, last.stop) == ("ann", True)
    assert before.at is not None
    assert last.at is not None
    assert last.at > before.at


async def test_a_person_s_revision_counts_as_one_more(client: Client) -> None:
    """The draft that was shown is revised by the person's words, judged, and may pass."""
    model = poor(0.9)

    async with waiting(client, model) as handle:
        await handle.execute_update("review", {"revise": "name the harbour", "author": "ann"})
        result = await ended(handle)

    assert (result.draft, result.stop_reason, result.revisions) == ("c", "passed", 2)
    assert (result.drafts[2].revises, result.drafts[2].author) == (0, "ann")
    assert "name the harbour" in model.calls[4].prompt
    assert [each.asked for each in result.decisions if each.asked] == ["name the harbour"]


async def test_a_revision_that_is_poor_again_waits_again(client: Client) -> None:
    """After a revision that a person asked for and that is still below, a person decides again."""
    async with waiting(client, poor(0.2)) as handle:
        await handle.execute_update("review", {"revise": "shorter"})
        await needs_review(handle, waits=False)
        await needs_review(handle)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert (result.draft, result.stop_reason, result.revisions) == ("a", "accepted_by_person", 2)


async def test_a_person_replaces_the_draft(client: Client) -> None:
    """The person's text is the result, as their draft, and has no score."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("review", {"replace": "mine", "author": "ann"})
        result = await ended(handle)

    assert (result.draft, result.score, result.stop_reason) == ("mine", None, "replaced_by_person")
    assert (result.drafts[2].origin, result.drafts[2].author) == ("replaced", "ann")


async def test_a_person_scores_the_draft(client: Client) -> None:
    """The person's score is the draft's, whatever the judge said, and is marked as theirs."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("review", {"score": 0.8, "author": "ann"})
        result = await ended(handle)

    evaluation = result.drafts[0].evaluation
    assert evaluation is not None
    assert (result.draft, result.score, result.stop_reason) == ("a", 0.8, "scored_by_person")
    assert (evaluation.judged, evaluation.author) == (0.4, "ann")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"accept": True, "score": 0.5},
        {"score": 1.5},
        {"revise": "  "},
        {"replace": ""},
        {"akzept": True},
        {"replace": "x" * 100_001},
        "yes",
        b"rubbish",
    ],
)
async def test_wrong_reviews_are_refused_and_change_nothing(client: Client, wrong: Any) -> None:
    """What can't be read is refused, and the run waits on."""
    async with waiting(client, poor()) as handle:
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("review", wrong)
        still = await handle.query("progress", result_type=Progress)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert (still.step, len(still.drafts)) == ("waiting_for_review", 2)
    assert result.stop_reason == "accepted_by_person"


async def test_a_review_that_nobody_waits_for_is_refused(client: Client) -> None:
    """While the run works, and once a review is taken, there is nothing to say."""
    model = ScriptedCritic(["a"], [0.9], delays={("judge", 0): 2})

    async with served(client, model):
        handle = await begin_reflecting(client, review_below=0.6)
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert "is not waiting for a review" in str(caught.value.cause)
    assert result.stop_reason == "passed"


async def test_a_wait_ends_by_itself(client: Client) -> None:
    """After `review_timeout_seconds` the best draft comes back, and the reason says so."""
    async with waiting(client, poor(), review_timeout_seconds=1) as handle:
        result = await ended(handle)

    assert (result.draft, result.stop_reason) == ("a", "review_timeout")


async def test_waiting_for_a_person_takes_nothing_of_the_deadline(client: Client) -> None:
    """A run that waited longer than its budget of seconds still makes the person's revision."""
    async with waiting(client, poor(0.9), budget_seconds=6) as handle:
        await asyncio.sleep(6.5)
        await handle.execute_update("review", {"revise": "shorter"})
        result = await ended(handle)

    assert (result.draft, result.stop_reason) == ("c", "passed")


async def test_no_revision_is_promised_that_the_budget_has_no_room_for(client: Client) -> None:
    """A revision that can't be paid for is refused with the reason, and the run waits on."""
    async with waiting(client, poor(), budget_tokens=320) as handle:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", {"revise": "shorter"})
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert "300 of 320 tokens" in str(caught.value.cause)
    assert result.stop_reason == "accepted_by_person"


async def test_finished_while_waiting(client: Client) -> None:
    """`finish_now` ends the wait with the best draft."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.draft, result.stop_reason) == ("a", "finished_by_person")


async def test_cancelled_while_waiting(client: Client) -> None:
    """The run is cancelled, needs no review any more, and still shows its best draft."""
    async with waiting(client, poor()) as handle:
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        await needs_review(handle, waits=False)
        after = await handle.query("progress", result_type=Progress)

    assert (after.drafts[0].text, after.best) == ("a", 0)


async def test_an_unscored_draft_waits_too(client: Client) -> None:
    """A draft that nobody could judge is not known to be good enough."""
    model = ScriptedCritic(["a"], [["rubbish", "rubbish"]])

    async with waiting(client, model) as handle:
        await handle.execute_update("review", {"score": 0.9})
        result = await ended(handle)

    assert (result.draft, result.score, result.stop_reason) == ("a", 0.9, "scored_by_person")


async def test_a_person_s_revision_is_one_and_no_more(client: Client) -> None:
    """After a plateau with revisions left, a person's own does not start the others again."""
    model = ScriptedCritic(["a", "b", "c", "d", "e"], [0.4, 0.4, 0.4, 0.5, 0.55])

    async with waiting(client, model, max_revisions=8) as handle:
        await handle.execute_update("review", {"revise": "shorter"})
        await needs_review(handle, waits=False)
        await needs_review(handle)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert [each.stop_reason for each in result.decisions if each.waits_for_review] == [
        "plateau",
        "max_revisions",
    ]
    assert (result.draft, result.revisions) == ("d", 3)


async def test_a_review_of_another_draft_is_refused(client: Client) -> None:
    """Who looked at a draft that is not under review any more is told so."""
    async with waiting(client, poor()) as handle:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", {"accept": True, "draft": 1})
        await handle.execute_update("review", {"accept": True, "draft": 0})
        result = await ended(handle)

    assert "draft 1 is under review now" in str(caught.value.cause)
    assert result.stop_reason == "accepted_by_person"
