"""What people do to a run while it works: put in answers, finish it, cancel it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from mull.sampling.result import SelfConsistencyResult
from tests.conftest import (
    QUERY,
    Handle,
    begin,
    failure,
    refusal,
    served,
    until,
    until_asked,
    until_sent,
)
from tests.scripted import ScriptedModel
from tests.workflows.multipath.running import PROMPT, WRONG, researching

SUM = "What is the sum of the first 10 prime numbers?"
Model = ScriptedModel


class Slow(NamedTuple):
    """A run with calls that take a minute: where it stands then, and what it has to show."""

    workflow: str
    request: dict[str, Any]
    model: Callable[[], ScriptedModel]
    standing: dict[str, object]
    cancelled: list[Any]
    kept: dict[str, object]


ASK = Slow(
    "SelfConsistencyWorkflow",
    {"question": SUM},
    lambda: ScriptedModel(sample=["129", "129", "7", "129", "129"], delays=[0, 0, 60, 0, 60]),
    {"in_flight": 2, "waves": [5], "stop_reason": None},
    [("sample", 2), ("sample", 4)],
    {"final_answer": "129", "total_responses": 3},
)
REFLECT = Slow(
    "ReflectOnResultWorkflow",
    {"query": QUERY, "guardrails": []},
    lambda: ScriptedModel(write=["first", "second"], judge=[0.4], delays={("write", 1): 60}),
    {"step": "revising", "in_flight": 1, "score": 0.4, "best": 0},
    [("write", 1)],
    {"draft": "first", "score": 0.4},
)
AGENT = Slow(
    "MultiPathWorkflow",
    {"prompt": PROMPT},
    lambda: researching(WRONG, WRONG, delays={("generate_report", 1): 60}),
    {"step": "generate_report", "in_flight": 1, "revisions": 1, "mode": "research"},
    [("generate_report", 1)],
    {"kept": 0, "open": True, "revisions": 1},
)
each_loop = pytest.mark.parametrize("loop", [ASK, REFLECT, AGENT], ids=lambda loop: loop.workflow)


@asynccontextmanager
async def standing(client: Client, loop: Slow, model: ScriptedModel) -> AsyncIterator[Handle]:
    """A run whose slow calls are all that is left to wait for."""
    async with served(client, model):
        handle = await begin(client, loop.request, loop.workflow)
        # A query before that splits the first workflow task, and a replay then tells its decision's
        # time by when the local activity in it ended: some milliseconds earlier.
        await until_asked(model, 1)
        await until(
            lambda: handle.query("progress"), lambda seen: loop.standing.items() <= seen.items()
        )
        yield handle


@each_loop
async def test_a_person_can_finish_with_what_there_is(client: Client, loop: Slow) -> None:
    """`finish_now` keeps what is in, cancels the calls in flight, and names who said so.

    A review is refused: nobody is asked for one. `progress` and `decisions` answer afterwards.
    """
    model = loop.model()

    async with standing(client, loop, model) as handle:
        refused = await refusal(handle, "review", {"accept": True})
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await handle.result()
        after, decisions = await handle.query("progress"), await handle.query("decisions")
        await until(lambda: sorted(model.cancelled) == loop.cancelled)

    assert "is not waiting for a review" in refused
    assert loop.kept.items() <= result.items()
    assert result["stop_reason"] == after["stop_reason"] == "finished_by_person"
    # A query has every field; in a result those are left out that hold nothing by default.
    holding, kept = (
        [{name: x for name, x in one.items() if x not in (None, [], {})} for one in each]
        for each in (decisions, result["decisions"])
    )
    assert holding == kept
    assert (decisions[-1]["author"], decisions[-1]["stop"]) == ("ann", True)
    assert result["usage"]["parts"]["cancelled"]["calls"] == len(loop.cancelled)


@each_loop
async def test_a_deadline_keeps_what_came(client: Client, loop: Slow) -> None:
    async with served(client, loop.model()):
        handle = await begin(client, {**loop.request, "budget_seconds": 5}, loop.workflow)
        result = await handle.result()

    assert loop.kept.items() <= result.items()
    assert result["stop_reason"] == "deadline"
    assert result["usage"]["parts"]["cancelled"]["calls"] == len(loop.cancelled)


@each_loop
async def test_cancelling_ends_the_calls_in_flight(client: Client, loop: Slow) -> None:
    """Temporal's own cancel ends the run as cancelled; `progress` still has what there was.

    The list shows what it has cost, except that of a wave of which no answer was counted.
    """
    model = loop.model()

    async with standing(client, loop, model) as handle:
        before = await handle.query("progress")
        await handle.cancel()
        await failure(handle, CancelledError)
        after = await handle.query("progress")
        await until(lambda: sorted(model.cancelled) == loop.cancelled)
        listed = (await handle.describe()).typed_search_attributes

    assert any(pair.key.name == "MullCostUsd" for pair in listed) == (loop is not ASK)
    assert after.get("drafts") == before.get("drafts") != []


async def test_a_person_s_answer_votes_after_the_wave_in_flight(client: Client) -> None:
    """An answer that is put in takes the next index, has its author, and costs no call.

    One that can't be read, has an unknown field or is no object is refused, and changes nothing.
    """
    added = asyncio.Event()
    model = ScriptedModel(sample=["1", "2", "1", "2", "1"], held=added)

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "max_responses": 6, "answers": "number"})
        await until_asked(model, 5)
        for wrong in ({"answer": "soon"}, {"answer": ""}, {"answr": "1"}, b"rubbish"):
            await refusal(handle, "add_answer", wrong)
        index = await handle.execute_update("add_answer", {"answer": "1.0", "author": "ann"})
        refused = await refusal(handle, "add_answer", {"answer": "1"})
        added.set()
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert index == 5
    assert "already asked for its maximum" in refused
    assert (result.responses[5].author, result.responses[5].vote) == ("ann", "1")
    assert (result.total_responses, result.usage.calls, result.waves) == (6, 5, (5,))


async def test_an_answer_before_the_first_wave_votes_first(client: Client) -> None:
    model = ScriptedModel(sample=["9", "1", "1", "1", "1", "1"])

    handle = await begin(client, {"question": SUM, "answers": "number"})
    adding = asyncio.create_task(handle.execute_update("add_answer", {"answer": "1"}))
    await until_sent(handle)
    async with served(client, model):
        index = await adding
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert index == 0
    assert [each.index for each in result.decisions] == list(range(len(result.decisions)))
    assert result.responses[0].author == "a person"
    assert sum(each.stop for each in result.decisions) == 1


async def test_a_vote_that_was_taken_is_counted_when_the_run_is_finished(client: Client) -> None:
    """`add_answer` and then `finish_now`: the answer that was put in is in the result."""
    model = ScriptedModel(sample=["1"] * 5, delays=[60] * 5)

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
    added = asyncio.Event()
    model = ScriptedModel(sample=["1"] * 5, held=added)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await handle.execute_update("add_answer", {"answer": "2"})
        added.set()
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert [each.stop for each in result.decisions] == [False] * 5 + [True]
    assert "an answer added by a person follows" in result.decisions[4].reason
    assert (result.total_responses, result.consensus_confidence) == (6, 5 / 6)


@pytest.mark.parametrize("loop", [REFLECT, AGENT], ids=lambda loop: loop.workflow)
async def test_finished_before_the_first_step(client: Client, loop: Slow) -> None:
    """A run that a person ends before any worker has seen it asks nothing.

    A draft that was given is never lost; where none was there is nothing.
    """
    given = {"draft": "mine"} if loop is REFLECT else {}
    handle = await begin(client, {**loop.request, **given}, loop.workflow)
    finishing = asyncio.create_task(handle.execute_update("finish_now", {"author": "ann"}))
    await until_sent(handle)
    model = loop.model()

    async with served(client, model):
        await finishing
        result = await handle.result()

    assert (result.get("draft"), result.get("output")) == (given.get("draft"), None)
    assert (result["stop_reason"], model.calls) == ("finished_by_person", [])
