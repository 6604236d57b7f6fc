"""A run of self-consistency whose uncertainty is high, and the person that it waits for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)

from reflection.sampling.result import Progress, SelfConsistencyResult
from tests.conftest import ask, begin, served
from tests.scripted import ScriptedModel

SPLIT = ["1", "2", "3", "4", "5"]
Handle = WorkflowHandle[Any, Any]


@asynccontextmanager
async def waiting(client: Client, **fields: Any) -> AsyncIterator[Handle]:
    """A run whose five answers all differ, waiting for a person."""
    request = {"question": "How much?", "max_responses": 5, "review_when": "high", **fields}
    async with served(client, ScriptedModel(SPLIT)):
        handle = await begin(client, request)
        async with asyncio.timeout(20):
            while not (await handle.query("progress", result_type=Progress)).needs_review:
                await asyncio.sleep(0.1)
        yield handle


async def ended(handle: Handle) -> SelfConsistencyResult:
    return SelfConsistencyResult.model_validate(await asyncio.wait_for(handle.result(), 20))


async def marked(handle: Handle) -> object:
    found = (await handle.describe()).typed_search_attributes
    return {pair.key.name: pair.value for pair in found}["MullNeedsReview"]


async def test_a_certain_answer_waits_for_nobody(client: Client) -> None:
    """Only where the uncertainty is high is a person asked."""
    result = await ask(client, ScriptedModel(["1"] * 5), review_when="high")

    assert (result.stop_reason, result.uncertainty_level) == ("rule", "low")


async def test_a_person_accepts_the_answer(client: Client) -> None:
    """The answer stands, and the last decision names who accepted it."""
    async with waiting(client) as handle:
        before = await marked(handle)
        await handle.execute_update("review", {"accept": True, "author": "ann"})
        result = await ended(handle)
        after = await marked(handle)

    assert (result.final_answer, result.stop_reason) == ("1", "accepted_by_person")
    assert (result.reviewer, result.decisions[-1].author, before, after) == (
        "ann",
        "ann",
        True,
        False,
    )


async def test_a_person_replaces_the_answer(client: Client) -> None:
    """The person's answer is the final one, without a confidence, beside what the votes gave."""
    async with waiting(client) as handle:
        await handle.execute_update("review", {"replace": "7", "author": "ann"})
        result = await ended(handle)

    assert (result.final_answer, result.voted_answer) == ("7", "1")
    assert result.reply == "Final Answer: 7 (by ann)"
    assert result.total_responses == 5


@pytest.mark.parametrize(
    "wrong", [{"score": 0.5}, {"revise": "better"}, {}, {"replace": "7" * 3_000}, b"rubbish"]
)
async def test_accept_and_replace_are_all(client: Client, wrong: object) -> None:
    """A score, a revision and rubbish are refused, and the run waits on."""
    async with waiting(client) as handle:
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("review", wrong)
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    assert result.stop_reason == "accepted_by_person"


async def test_the_wait_ends_by_itself(client: Client) -> None:
    """After the time-out the answer of the votes stands, and the reason says so."""
    async with waiting(client, review_timeout_seconds=2) as handle:
        until = (await handle.query("progress", result_type=Progress)).review_until
        result = await ended(handle)

    assert (result.final_answer, result.stop_reason) == ("1", "review_timeout")
    decided = result.decisions[-2].at
    assert decided is not None
    assert until == decided + timedelta(seconds=2)


async def test_finishing_ends_the_wait(client: Client) -> None:
    """`finish_now` takes the answer of the votes, and further answers are refused meanwhile."""
    async with waiting(client) as handle:
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("add_answer", {"answer": "7"})
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.final_answer, result.stop_reason) == ("1", "finished_by_person")


async def test_cancelling_ends_the_wait(client: Client) -> None:
    """A cancelled run needs no review any more."""
    async with waiting(client) as handle:
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        async with asyncio.timeout(10):
            while await marked(handle):
                await asyncio.sleep(0.1)


async def test_a_replacement_must_be_readable(client: Client) -> None:
    """An answer that can't be read as its kind is refused, as `add_answer` refuses it."""
    async with waiting(client, answers="number") as handle:
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("review", {"replace": "banana"})
        await handle.execute_update("review", {"replace": " 7 \n"})
        result = await ended(handle)

    assert (result.final_answer, result.stop_reason) == ("7", "replaced_by_person")


async def test_every_decision_says_when(client: Client) -> None:
    """Votes, the rule and the person decided in this order of time."""
    async with waiting(client) as handle:
        await handle.execute_update("review", {"accept": True})
        result = await ended(handle)

    times = [each.at for each in result.decisions]
    assert all(times)
    assert times == sorted(times, key=str)
    assert result.decisions[-1].author == "a person"
