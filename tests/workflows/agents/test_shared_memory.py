"""The memory that runs share: who reads what, each reflection once, and for as long as it takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from activities.memory import memory_id
from mull.agents.memory import Reflection, SharedMemory
from mull.agents.request import MemoryRequest
from tests.workflows.agents.running import ScriptedAgent, run, served

FAILS = ["[answer] 5", "[answer] 4"]


@asynccontextmanager
async def remembering(
    client: Client, name: str, model: ScriptedAgent, **options: Any
) -> AsyncIterator[Any]:
    """Serve agents, and yield the memory of this name."""
    async with served(client, model, **options):
        yield client.get_workflow_handle(memory_id(name))


async def held(memory: Any) -> dict[str, list[str]]:
    """The texts that a memory holds, by scope."""
    found = await memory.query("memory", result_type=SharedMemory)
    return {scope: [one.text for one in some.reflections] for scope, some in found.scopes.items()}


async def test_another_run_reads_what_a_run_added(client: Client) -> None:
    """The next run's first episode has it already, and it names where it comes from."""
    model = ScriptedAgent([*FAILS, "[answer] 7"], ["Add 7.", "Add it at once."])
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
    """By default each task has a scope of its own."""
    name = f"scoped-{scope}"
    model = ScriptedAgent(["[answer] 5", "[answer] 9"], ["Add 7."])
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
    async with remembering(client, "once", ScriptedAgent()) as memory:
        await client.start_workflow(
            "MemoryWorkflow", MemoryRequest(name="once"), id=memory.id, task_queue="mull"
        )
        for _ in range(2):
            await memory.execute_update("remember", sent)
        large = {**sent, "reflection": {"text": "x" * 30_000}}
        for given in (None, "x", {"scope": "a"}, [1], large):
            with pytest.raises(WorkflowUpdateFailedError):
                await memory.execute_update("remember", given)
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
    model = ScriptedAgent(["[answer] 5"] * 30, [f"Plan {number}." for number in range(30)])
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
