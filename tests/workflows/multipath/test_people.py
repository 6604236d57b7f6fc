"""An open result that waits for a person, and what they may say of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError

from reflection.multipath.result import Progress
from tests.scripted import ScriptedAgent, reflection
from tests.workflows.multipath.running import (
    BAD,
    FINE,
    GOOD,
    TASK,
    Handle,
    ScriptedTester,
    coding,
    ended,
    finding,
    passage,
    report,
    researching,
    served,
    start,
)

WRONG = report(True, False, False)
PASSED = report(True, True, True)


async def needs_review(handle: Handle, waits: bool = True) -> None:
    """Wait until the run's search attribute says that it waits for a person, or no more."""
    async with asyncio.timeout(20):
        while True:
            description = await handle.describe()
            found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
            if found.get("MullNeedsReview") is waits:
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def waiting(client: Client, model: ScriptedAgent, **fields: Any) -> AsyncIterator[Handle]:
    """A run of research whose first report is open, and the only one there may be."""
    known = {"docs": "tides", "max_revisions": 1, "review_open": True, **fields}
    async with served(client, model, None, finding(passage())):
        handle = await start(client, **known)
        await needs_review(handle)
        yield handle


@asynccontextmanager
async def failing(
    client: Client, model: ScriptedAgent, tester: ScriptedTester, **fields: Any
) -> AsyncIterator[Handle]:
    """A run of code whose tests fail, and that may have no more drafts."""
    known = {"prompt": TASK, "max_revisions": 1, "review_open": True, **fields}
    async with served(client, model, tester):
        handle = await start(client, **known)
        await needs_review(handle)
        yield handle


def poor(*more: str) -> ScriptedAgent:
    """Reports of which the first has a critique, and the others what `more` says of them."""
    return researching(*[FINE] * 4, reflect_on_report=[reflection("mend it"), *more])


async def test_a_person_accepts(client: Client) -> None:
    """The report stands with what is open in it, and the decision names who accepted it."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("review", {"accept": True, "author": "ann"})
        result = await ended(handle)

    assert (result.stop_reason, result.open, len(result.critiques)) == (
        "accepted_by_person",
        True,
        1,
    )
    before, last = result.decisions[-2:]
    assert before.reason.endswith("an open result waits for a review")
    assert (before.stop_reason, before.stop, before.waits_for_review) == (
        "max_revisions",
        False,
        True,
    )
    assert (last.author, last.stop) == ("ann", True)


async def test_a_closed_result_waits_for_nobody(client: Client) -> None:
    """A consistent report ends the run at once, though reviews were asked for."""
    async with served(client, researching(FINE), None, finding(passage())):
        result = await ended(await start(client, docs="tides", review_open=True))

    assert result.stop_reason == "consistent"


async def test_a_person_s_words_join_k(client: Client) -> None:
    """One more report is written by the person's words and K, reflected on, and may end the run."""
    model = poor(reflection())

    async with waiting(client, model) as handle:
        await handle.execute_update("review", {"revise": "name the bay", "author": "ann"})
        result = await ended(handle)

    asked = model.asked("generate_report")[1].prompt
    assert "name the bay" in asked
    assert "mend it" in asked
    assert (result.stop_reason, result.revisions, result.max_revisions) == ("consistent", 2, 2)
    assert (result.drafts[1].author, result.drafts[1].origin) == ("ann", "refined")
    (granted,) = [each for each in result.decisions if each.asked]
    assert (granted.after, granted.next, granted.asked, granted.author) == (
        "reflect_on_report",
        "generate_report",
        "name the bay",
        "ann",
    )


async def test_a_person_s_words_join_e(client: Client) -> None:
    """One more draft of the kept code is written by the person's words and its error."""
    model, tester = coding(BAD, GOOD), ScriptedTester(WRONG, PASSED)

    async with failing(client, model, tester) as handle:
        await handle.execute_update("review", {"revise": "multiply by two", "author": "ann"})
        result = await ended(handle)

    asked = model.asked("generate_code")[1].prompt
    assert "multiply by two" in asked
    assert "it returned another value" in asked
    assert BAD in asked
    assert (result.output, result.stop_reason) == (GOOD + "\n", "passed")
    assert result.drafts[1].author == "ann"


async def test_a_person_s_draft_is_of_the_code_that_they_saw(client: Client) -> None:
    """Where the kept code is not the latest, it is what the person's words are about."""
    model = coding("a = 1", "a = 2", "a = 3")
    tester = ScriptedTester(report(True, True, False), report(False, False, True), PASSED)

    async with failing(client, model, tester, max_revisions=2) as handle:
        await handle.execute_update("review", {"revise": "count on", "draft": 0})
        result = await ended(handle)

    asked = model.asked("generate_code")[2].prompt
    assert "a = 1" in asked
    assert "a = 2" not in asked
    assert result.stop_reason == "passed"


async def test_a_draft_that_is_open_again_waits_again(client: Client) -> None:
    """After a person's draft that is open too a person decides again."""
    async with waiting(client, poor(reflection("mend that"))) as handle:
        await handle.execute_update("review", {"revise": "shorter"})
        await needs_review(handle, waits=False)
        await needs_review(handle)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert (result.stop_reason, result.kept, result.revisions) == ("accepted_by_person", 1, 2)


async def test_a_person_replaces_the_result(client: Client) -> None:
    """The person's text is the result as it is, as their draft, and nothing is open in it."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("review", {"replace": "mine", "author": "ann"})
        result = await ended(handle)

    assert (result.output, result.stop_reason, result.open) == ("mine", "replaced_by_person", False)
    assert (result.drafts[1].origin, result.drafts[1].author) == ("replaced", "ann")
    assert (result.kept, result.critiques) == (1, ())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"score": 0.5}, "a result of the agent has no score: accept, revise or replace it"),
        ({"accept": True, "draft": 1}, "draft 1 is under review now"),
        ({"replace": "x" * 60_001}, "the text is over 60,000 bytes"),
        ({}, "give one of accept, revise, replace and score"),
        ({"revise": "  "}, "give some text"),
        ("yes", ""),
        (b"rubbish", ""),
    ],
)
async def test_wrong_reviews_are_refused_and_change_nothing(
    client: Client, wrong: Any, said: str
) -> None:
    """What can't be followed is refused with the reason, and the run waits on."""
    async with waiting(client, poor()) as handle:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", wrong)
        still = await handle.query("progress", result_type=Progress)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert said in str(caught.value.cause)
    assert (still.step, len(still.drafts)) == ("waiting_for_review", 1)
    assert result.stop_reason == "accepted_by_person"


async def test_no_draft_is_promised_that_the_budget_has_no_room_for(client: Client) -> None:
    """A draft that can't be paid for is refused with the reason, and the run waits on."""
    async with waiting(client, poor(), budget_tokens=250) as handle:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", {"revise": "shorter"})
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert "200 of 250 tokens" in str(caught.value.cause)
    assert result.stop_reason == "accepted_by_person"


async def test_a_review_that_nobody_waits_for_is_refused(client: Client) -> None:
    """While the run works there is nothing to say."""
    slow = ScriptedAgent(poor()._script, delays={("reflect_on_report", 0): 2})

    async with served(client, slow, None, finding(passage())):
        handle = await start(client, docs="tides", max_revisions=1)
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert "is not waiting for a review" in str(caught.value.cause)
    assert result.stop_reason == "max_revisions"


async def test_a_wait_ends_by_itself(client: Client) -> None:
    """After `review_timeout_seconds` the result comes back as it is, and the reason says so."""
    async with waiting(client, poor(), review_timeout_seconds=1) as handle:
        result = await ended(handle)

    assert (result.stop_reason, result.kept, result.open) == ("review_timeout", 0, True)


async def test_waiting_for_a_person_takes_nothing_of_the_deadline(client: Client) -> None:
    """A run that waited longer than its budget of seconds still makes the person's draft."""
    async with waiting(client, poor(reflection()), budget_seconds=6) as handle:
        await asyncio.sleep(6.5)
        await handle.execute_update("review", {"revise": "shorter"})
        result = await ended(handle)

    assert result.stop_reason == "consistent"


async def test_finished_while_waiting(client: Client) -> None:
    """`finish_now` ends the wait with what there is."""
    async with waiting(client, poor()) as handle:
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.stop_reason, result.decisions[-1].author) == ("finished_by_person", "ann")


async def test_cancelled_while_waiting(client: Client) -> None:
    """The run is cancelled, needs no review any more, and still shows its draft."""
    async with waiting(client, poor()) as handle:
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        await needs_review(handle, waits=False)
        after = await handle.query("progress", result_type=Progress)

    assert after.drafts[0].text == FINE


async def test_a_person_has_five_drafts_and_no_more(client: Client) -> None:
    """The sixth is refused with the number, however much budget is left."""
    model = researching(*[FINE] * 6, reflect_on_report=[reflection("mend it")] * 6)

    async with waiting(client, model) as handle:
        for drafts in range(2, 7):
            await handle.execute_update("review", {"revise": "again"})
            async with asyncio.timeout(20):
                while len(await handle.query("decisions")) < 1 + 3 * drafts:
                    await asyncio.sleep(0.1)
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("review", {"revise": "again"})
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert "at most 5 revisions can be requested" in str(caught.value.cause)
    assert result.revisions == 6
