"""Who is served first: the priorities of calls, and how many programs a worker takes."""

import asyncio
import uuid
from itertools import count

import pytest
from temporalio.client import Client
from temporalio.common import Priority

import worker
from activities.sandbox.port import TASK_QUEUE as CODE
from activities.sandbox.port import Program, Result
from mull.connection import TASK_QUEUE
from tests import callers
from tests.conftest import QUERY, STRICT, Handle, begin, served
from tests.scripted import ScriptedModel, finished

RUNS = 20


async def priorities(handle: Handle) -> list[tuple[int, str]]:
    """Return the keys of each call of a run, in the order in which they were made."""
    events = [event async for event in handle.fetch_history_events()]
    made = [
        event.activity_task_scheduled_event_attributes.priority
        for event in events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    return [(one.priority_key, one.fairness_key) for one in made]


async def asked(client: Client, key: int | None, fairness: str | None = None) -> Handle:
    return await client.start_workflow(
        "SelfConsistencyWorkflow",
        {"question": "Is quokka prime?", "max_responses": 4},
        id=f"ask-is-quokka-prime-{uuid.uuid4().hex[:8]}",
        task_queue=TASK_QUEUE,
        priority=Priority(priority_key=key, fairness_key=fairness),
    )


@pytest.mark.parametrize(
    ("key", "first", "later"), [(None, 3, 4), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 4, 4), (5, 5, 5)]
)
async def test_the_first_call_of_a_run_comes_before_later_ones(
    client: Client, key: int | None, first: int, later: int
) -> None:
    """By the priority of its start, which a user may have set; a batch's stay the last ones."""
    async with served(client, ScriptedModel(sample=["7", "8", "9", "10"])):
        handle = await asked(client, key)
        await handle.result()

    keys = await priorities(handle)
    assert [one for one, _ in keys] == [first, later, later, later]


async def test_the_calls_of_a_run_share_a_key_of_their_own(client: Client) -> None:
    """It is short, has no word of the question, and differs from run to run."""
    async with served(client, ScriptedModel(sample=["7"] * 4)):
        handles = [await asked(client, None), await asked(client, None)]
        given = await asked(client, None, "team-7")
        await asyncio.gather(*(handle.result() for handle in (*handles, given)))

    keys = [{key for _, key in await priorities(handle)} for handle in handles]
    assert [len(some) for some in keys] == [1, 1]
    assert keys[0] != keys[1]
    assert all(len(key) == 16 and "quokka" not in key for some in keys for key in some)
    assert {key for _, key in await priorities(given)} == {"team-7"}


async def test_a_session_s_turns_share_a_key(client: Client) -> None:
    """They are one user's, who has one turn among the others."""
    async with served(client, ScriptedModel(step=["It is 4.", "It is 5."])):
        session = await begin(client, {"tools": []}, "SessionWorkflow")
        for _ in range(2):
            await session.execute_update("send", {"message": "How much?"})
        await session.execute_update("finish_now")
        await session.result()

    turns = [client.get_workflow_handle(f"{session.id}-turn-{number}") for number in (1, 2)]
    keys = [key for turn in turns for _, key in await priorities(turn)]
    assert (len(set(keys)), len(keys) >= 2, "" in keys) == (1, True, False)


async def test_each_kind_of_call_is_a_first_one_once(client: Client) -> None:
    """A draft and its first judgement are not later than another run's first call."""
    model = ScriptedModel(write=["a", "b"], judge=[0.4, 0.9])
    async with served(client, model):
        request = {"query": QUERY, "guardrails": []}
        handle = await begin(client, request, "ReflectOnResultWorkflow")
        await handle.result()

    assert [key for key, _ in await priorities(handle)] == [3, 3, 3, 4]


async def waiting(handle: Handle) -> int:
    return len((await handle.describe()).raw_description.pending_activities)


async def test_one_answer_does_not_wait_behind_every_other(client: Client) -> None:
    """Behind runs of a hundred answers each it comes 25th or so of 100 that wait."""
    asked, question = count(1), "Whose turn is it?"
    model = ScriptedModel(sample=lambda _: str(next(asked)))
    runs: list[Handle] = []
    [first] = worker.build(client, ["mull"], **STRICT)
    [calls] = worker.build(client, ["llm"], model)
    async with first:
        for number in range(RUNS):
            request = {"question": f"How much is {number}?", "max_responses": 100}
            runs.append(await begin(client, request))
        while not all([await waiting(run) > 1 for run in runs]):
            await asyncio.sleep(0.1)
        mine = await begin(client, {"question": question, "max_responses": 1})
        while not await waiting(mine):
            await asyncio.sleep(0.1)
        before = sum([await waiting(run) for run in runs])
        async with calls:
            await mine.result()
            for run in runs:
                await run.terminate()

    places = [place for place, prompt in enumerate(model.prompts("sample")) if question in prompt]
    assert (len(places), before > 3 * RUNS) == (1, True)
    assert places[0] < before / 2


class CountingSandbox:
    """Knows how many programs were given to it at once, and refuses none."""

    name = "counting"

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.most = 0
        self._now = 0

    async def run(self, program: Program) -> Result:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.2)
        self._now -= 1
        return finished(program)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_worker_takes_what_it_has_places_for(client: Client, at_once: int) -> None:
    """The others wait in the queue, where another worker may take them, and not in this one."""
    sandbox = CountingSandbox(at_once)
    (code,) = worker.build(client, ["code"], sandbox=sandbox)

    async with code:
        await callers.call(client, "run_code", CODE, Program(code="1"), Result, 6)

    assert sandbox.most == at_once
