"""The memory that runs share, and many agents at once in one worker, also encrypted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client

from activities.environments.activity import LIVE
from activities.language_model.port import ModelCall
from activities.memory import memory_id
from mull.agents.memory import Reflection, SharedMemory
from mull.agents.request import MemoryRequest
from mull.agents.result import ReflexionResult
from mull.connection import connect
from mull.keys import ENCRYPTED
from tests.conftest import activities_of, encoded_in, refusal
from tests.scripted import ScriptedModel, kind_of
from tests.workflows.agents.running import Counting, ended, run, served, start
from tests.workflows.agents.scripted_training import ScriptedTraining, trains
from tests.workflows.test_encryption import key

FAILS = ["[answer] 5", "[answer] 4"]


@asynccontextmanager
async def remembering(
    client: Client, name: str, model: ScriptedModel, **options: Any
) -> AsyncIterator[Any]:
    async with served(client, model, **options):
        yield client.get_workflow_handle(memory_id(name))


async def held(memory: Any) -> dict[str, list[str]]:
    found = await memory.query("memory", result_type=SharedMemory)
    return {scope: [one.text for one in some.reflections] for scope, some in found.scopes.items()}


async def test_another_run_reads_what_a_run_added(client: Client) -> None:
    model = ScriptedModel(plan=[*FAILS, "[answer] 7"], reflect=["Add 7.", "Add it at once."])
    async with remembering(client, "family", model) as memory:
        first = await run(client, {"memory": "family", "episode_limit": 2})
        second = await run(client, {"memory": "family"})
        kept = await held(memory)

    assert (first.status, second.status) == ("exhausted", "solved")
    assert kept == {"counting/7": ["Add 7.", "Add it at once."]}
    assert "- Add 7.\n- Add it at once." in model.prompts("plan")[2]
    assert {one.episode for one in second.reflections} == {1, 2}
    assert len({one.workflow_id for one in second.reflections}) == 1


@pytest.mark.parametrize(
    ("scope", "key", "seen"), [("task", "counting/9", False), ("environment", "counting", True)]
)
async def test_tasks_see_each_other_s_reflections_by_choice_alone(
    client: Client, scope: str, key: str, seen: bool
) -> None:
    name = f"scoped-{scope}"
    model = ScriptedModel(plan=["[answer] 5", "[answer] 9"], reflect=["Add 7."])
    async with remembering(client, name, model) as memory:
        one = {"memory": name, "scope": scope, "episode_limit": 1}
        await run(client, one)
        await run(client, {**one, "task": "9"})
        kept = await held(memory)

    assert ("Add 7." in model.prompts("plan")[1]) is seen
    assert (key in kept) is seen


async def test_a_reflection_is_added_once_and_rubbish_is_refused(client: Client) -> None:
    """An update that is sent again changes nothing; what is no reflection changes nothing."""
    sent = {
        "name": "once", "scope": "a",
        "reflection": {"text": "Look.", "workflow_id": "w", "episode": 1},
    }  # fmt: skip
    async with remembering(client, "once", ScriptedModel()) as memory:
        await client.start_workflow(
            "MemoryWorkflow", MemoryRequest(name="once"), id=memory.id, task_queue="mull"
        )
        for _ in range(2):
            await memory.execute_update("remember", sent)
        large = {**sent, "reflection": {"text": "x" * 30_000}}
        for given in (None, "x", {"scope": "a"}, [1], large):
            await refusal(memory, "remember", given)
        kept = await held(memory)
        await memory.execute_update("clear", "b")
        after_another = await held(memory)
        await memory.execute_update("clear")
        cleared = await held(memory)

    assert (kept, after_another, cleared) == ({"a": ["Look."]}, {"a": ["Look."]}, {})


async def test_a_memory_goes_on_in_new_histories(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many runs add to it, no history grows long, and nothing is lost or doubled."""
    monkeypatch.setattr("workflows.memory.LONGEST_HISTORY", 40)
    model = ScriptedModel(
        plan=["[answer] 5"] * 30, reflect=[f"Plan {number}." for number in range(30)]
    )
    async with remembering(client, "long", model) as memory:
        asked = {"memory": "long", "episode_limit": 1, "max_attempts": 5}
        await asyncio.gather(*(run(client, {**asked, "task": f"1{n % 3}"}) for n in range(30)))
        kept = await held(memory)
        length = (await memory.describe()).history_length
        first = client.get_workflow_handle(memory.id)
        described = await first.describe()

    assert sorted(kept) == ["counting/10", "counting/11", "counting/12"]
    assert [len(texts) for texts in kept.values()] == [3, 3, 3]
    assert length < 80
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id


def test_a_memory_knows_its_reflections_after_they_were_dropped() -> None:
    """One that comes again is not added anew, though three others took its place."""
    memory = SharedMemory()
    made = [Reflection(text=f"Plan {n}.", workflow_id="w", episode=n) for n in range(1, 5)]
    for reflection in [*made, made[0]]:
        memory = memory.remember("a", reflection)

    assert [one.text for one in memory.of("a").reflections] == ["Plan 2.", "Plan 3.", "Plan 4."]


# More than have their episodes kept live.
AGENTS = 2 * LIVE


def apt(call: ModelCall) -> str:
    """Answer wrongly until the prompt has a reflection on the task."""
    wanted, _, steps = call.prompt.rpartition("Task: Count to ")[2].partition(".")
    if kind_of(call) == "reflect":
        return f"I did not count to {wanted}."
    if f"- I did not count to {wanted}." not in call.prompt:
        return "[answer] 0"
    return f"[answer] {wanted}" if "Observation 1" in steps else f"add[{wanted}]"


async def test_many_agents_at_once_see_nothing_of_each_other(client: Client) -> None:
    """Each learns its own lesson, in as many calls as alone, though fewer episodes are kept live.

    Those of one memory add to it side by side, and none is lost.
    """
    model = ScriptedModel(each=apt)
    requests: list[dict[str, Any]] = [
        {"task": str(number), "max_attempts": 5, **({"memory": "together"} if number % 2 else {})}
        for number in range(1, AGENTS + 1)
    ]

    async with served(client, model, Counting):
        results = await asyncio.gather(*(run(client, request) for request in requests))
        memory = client.get_workflow_handle(memory_id("together"))
        held = await memory.query("memory", result_type=SharedMemory)

    assert [result.answer for result in results] == [request["task"] for request in requests]
    assert {(result.status, len(result.episodes)) for result in results} == {("solved", 2)}
    assert len(model.calls) == 4 * AGENTS
    texts = sorted(one.text for scope in held.scopes.values() for one in scope.reflections)
    assert texts == sorted(f"I did not count to {one['task']}." for one in requests[::2])


async def test_many_agents_at_once_lose_no_reflection(client: Client) -> None:
    model = ScriptedModel(each=apt)
    training = ScriptedTraining([(0.1, 0.2, 0.3)] * AGENTS)
    asked: dict[str, Any] = {"reward_model": "r", "memory": "all", "max_attempts": 5}

    async def one(number: int) -> ReflexionResult:
        return await ended(
            await start(client, {**asked, "task": str(number)}, "RetroformerWorkflow")
        )

    async with served(client, model, Counting), trains(client, training):
        results = await asyncio.gather(*map(one, range(1, AGENTS + 1)))
        memory = client.get_workflow_handle(memory_id("all"))
        held = await memory.query("memory", result_type=SharedMemory)

    assert [result.answer for result in results] == [str(n) for n in range(1, AGENTS + 1)]
    assert {(result.status, len(result.episodes)) for result in results} == {("solved", 2)}
    assert (len(model.calls), len(training.scored)) == (6 * AGENTS, AGENTS)
    texts = sorted(one.text for scope in held.scopes.values() for one in scope.reflections)
    assert texts == sorted(f"I did not count to {n}." for n in range(1, AGENTS + 1))


async def test_an_agent_and_its_memory_leave_no_plain_text(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every payload of both is encrypted, what failed is too, and a later run reads the memory."""
    del client
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", key("main-1"))
    encrypting = await connect()
    model = ScriptedModel(
        plan=["[answer] 5", "no: add[x]", "[answer] 7"], reflect=["A lesson to keep."]
    )
    async with served(encrypting, model):
        request = {"memory": "sealed", "episode_limit": 1, "max_attempts": 1}
        first = await start(encrypting, request)
        await first.result()
        broken = await start(encrypting, request | {"task": "8"})
        failed = ReflexionResult.model_validate(await broken.result())
        later = await run(encrypting, request)
        memory = encrypting.get_workflow_handle(memory_id("sealed"))
        histories = [await one.fetch_history() for one in (first, broken, memory)]

    events = [event for history in histories for event in history.events]
    found = [payload for _, payload in encoded_in(events)]
    whole = b"".join(event.SerializeToString() for event in events)
    assert [payload.data for payload in found if payload.metadata["encoding"] != ENCRYPTED] == []
    assert not [text for text in (b"lesson", b"invalid literal", b"Count to") if text in whole]
    assert "ValueError: invalid literal" in failed.stop_explanation
    assert [one.text for one in later.reflections] == ["A lesson to keep."]
    assert "remember_reflection" in await activities_of(first)
