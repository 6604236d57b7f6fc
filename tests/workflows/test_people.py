"""What people do to a run while it goes on: put in answers, finish it, cancel it."""

import asyncio

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import CancelledError

from reflection.sampling.result import SelfConsistencyResult
from tests.conftest import begin, served, until_asked
from tests.scripted import ScriptedModel

SUM = "What is the sum of the first 10 prime numbers?"


async def test_a_person_s_answer_votes_after_the_wave_in_flight(client: Client) -> None:
    """An answer that is put in takes the next index, has its author, and costs no call."""
    model = ScriptedModel(["1", "2", "1", "2", "1"], delays=[1.5] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "max_responses": 6, "answers": "number"})
        await until_asked(model, 5)
        index = await handle.execute_update("add_answer", {"answer": "1.0", "author": "ann"})
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert index == 5
    assert (result.responses[5].author, result.responses[5].vote) == ("ann", "1")
    assert (result.total_responses, result.usage.calls, result.waves) == (6, 5, (5,))


async def test_wrong_updates_are_refused_and_change_nothing(client: Client) -> None:
    """An unreadable answer, an unknown field and an update after the end are all refused."""
    model = ScriptedModel(["1", "1", "1"], delays=[1.5] * 3)

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "preset": "thrifty", "answers": "number"})
        for wrong in ({"answer": "soon"}, {"answer": ""}, {"answr": "1"}):
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update("add_answer", wrong)
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert (result.total_responses, result.stop_reason) == (3, "rule")


async def test_a_person_can_finish_with_what_there_is(client: Client) -> None:
    """`finish_now` counts what is in, cancels the calls in flight, and names who said so."""
    model = ScriptedModel(["1", "2", "2", "2", "1"], delays=[0, 60, 0, 60, 60])

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await asyncio.sleep(1)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = SelfConsistencyResult.model_validate(await handle.result())
        async with asyncio.timeout(15):
            while len(model.cancelled) < 3:
                await asyncio.sleep(0.1)

    assert (result.stop_reason, result.total_responses) == ("finished_by_person", 2)
    assert result.decisions[-1].author == "ann"
    assert result.usage.parts["cancelled"].calls == 3
    assert sorted(model.cancelled) == [1, 3, 4]


async def test_cancelling_ends_the_calls_in_flight(client: Client) -> None:
    """Temporal's own cancel ends the run as cancelled, and its calls soon after."""
    model = ScriptedModel(["1"] * 5, delays=[60] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        async with asyncio.timeout(15):
            while len(model.cancelled) < 5:
                await asyncio.sleep(0.1)

    assert isinstance(caught.value.cause, CancelledError)


async def test_an_answer_before_the_first_wave_votes_first(client: Client) -> None:
    """What is put in before anything was asked is counted, by its index, before the wave."""
    model = ScriptedModel(["9", "1", "1", "1", "1", "1"])

    handle = await begin(client, {"question": SUM, "answers": "number"})
    adding = asyncio.create_task(handle.execute_update("add_answer", {"answer": "1"}))
    async with served(client, model):
        index = await adding
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert index == 0
    assert [each.index for each in result.decisions] == list(range(len(result.decisions)))
    assert result.responses[0].author == "a person"
    assert sum(each.stop for each in result.decisions) == 1


async def test_a_vote_that_was_taken_is_counted_when_the_run_is_finished(client: Client) -> None:
    """`add_answer` and then `finish_now`: the answer that was put in is in the result."""
    model = ScriptedModel(["1"] * 5, delays=[60] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await handle.execute_update("add_answer", {"answer": "7"})
        await handle.execute_update("finish_now")
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert (result.final_answer, result.total_responses) == ("7", 1)
    assert [each.stop for each in result.decisions] == [False, True]


async def test_a_run_stops_once_and_the_last_vote_decides(client: Client) -> None:
    """An answer put in during a wave that would end the run is counted before the run ends."""
    model = ScriptedModel(["1"] * 5, delays=[1.5] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await handle.execute_update("add_answer", {"answer": "2"})
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert [each.stop for each in result.decisions] == [False] * 5 + [True]
    assert "an answer added by a person follows" in result.decisions[4].reason
    assert (result.total_responses, result.consensus_confidence) == (6, 5 / 6)


async def test_no_more_answers_are_taken_than_the_run_may_have(client: Client) -> None:
    """Where every place is asked for already, an answer of a person is refused."""
    model = ScriptedModel(["1"] * 3, delays=[1.5] * 3)

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "rule": "fixed", "max_responses": 3})
        await until_asked(model, 3)
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("add_answer", {"answer": "1"})
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert "already asked for its maximum" in str(caught.value.cause)
    assert result.total_responses == 3


@pytest.mark.parametrize("name", ["add_answer", "finish_now"])
async def test_an_update_that_is_no_object_is_refused(client: Client, name: str) -> None:
    """Bytes in the place of JSON change nothing, and the run goes on."""
    model = ScriptedModel(["1"] * 5, delays=[1.5] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(name, b"rubbish")
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert (result.total_responses, result.stop_reason) == (5, "rule")
