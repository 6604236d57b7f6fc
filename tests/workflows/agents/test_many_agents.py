"""Many agents at once in one worker, and agents whose histories are encrypted."""

import asyncio
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from activities.language_model.port import ModelCall
from activities.memory import memory_id
from mull.agents.memory import SharedMemory
from mull.agents.result import ReflexionResult
from mull.connection import connect
from mull.keys import ENCRYPTED
from tests.conftest import payloads_of
from tests.workflows.agents.running import (
    Counting,
    Said,
    ScriptedAgent,
    calls_of,
    kind_of,
    run,
    served,
    start,
)
from tests.workflows.agents.scripted_training import ScriptedTraining, trains
from tests.workflows.test_encryption import key

AGENTS = 100


class Apt:
    """A model that answers wrongly until it has read its reflection: the prompt says which."""

    def __init__(self) -> None:
        self.calls = 0

    def reply(self, call: ModelCall) -> str:
        self.calls += 1
        wanted, _, steps = call.prompt.rpartition("Task: Count to ")[2].partition(".")
        if kind_of(call) == "reflect":
            return f"I did not count to {wanted}."
        known = f"- I did not count to {wanted}." in call.prompt
        if not known:
            return "[answer] 0"
        return f"[answer] {wanted}" if "Observation 1" in steps else f"add[{wanted}]"


class Replies(list[Said]):
    """Lines that never run out, each of which the model makes by the prompt."""

    def __init__(self, model: Apt) -> None:
        super().__init__([model.reply])

    def pop(self, _: Any = -1) -> Said:
        return self[0]


async def test_a_hundred_agents_at_once_see_nothing_of_each_other(client: Client) -> None:
    """Each learns its own lesson, in as many calls as alone, though fewer episodes are kept live.

    Those of one memory add to it side by side, and none is lost.
    """
    apt, model = Apt(), ScriptedAgent()
    model._lines = {kind: Replies(apt) for kind in ("plan", "reflect")}
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
    assert apt.calls == 4 * AGENTS
    texts = sorted(one.text for scope in held.scopes.values() for one in scope.reflections)
    assert texts == sorted(f"I did not count to {one['task']}." for one in requests[::2])


async def test_a_hundred_agents_at_once_lose_no_reflection(client: Client) -> None:
    """Each samples several, side by side, and keeps the one that its reward model likes best."""
    apt, model = Apt(), ScriptedAgent()
    model._lines = {kind: Replies(apt) for kind in ("plan", "reflect")}
    training = ScriptedTraining([(0.1, 0.2, 0.3)] * AGENTS)
    asked: dict[str, Any] = {"reward_model": "r", "memory": "all", "max_attempts": 5}

    async def one(number: int) -> ReflexionResult:
        handle = await start(client, {**asked, "task": str(number)}, "RetroformerWorkflow")
        return ReflexionResult.model_validate(await handle.result())

    async with (
        served(client, model, Counting),
        trains(client, training),
    ):
        results = await asyncio.gather(*map(one, range(1, AGENTS + 1)))
        memory = client.get_workflow_handle(memory_id("all"))
        held = await memory.query("memory", result_type=SharedMemory)

    assert [result.answer for result in results] == [str(n) for n in range(1, AGENTS + 1)]
    assert {(result.status, len(result.episodes)) for result in results} == {("solved", 2)}
    assert (apt.calls, len(training.scored)) == (6 * AGENTS, AGENTS)
    texts = sorted(one.text for scope in held.scopes.values() for one in scope.reflections)
    assert texts == sorted(f"I did not count to {n}." for n in range(1, AGENTS + 1))


async def test_an_agent_and_its_memory_leave_no_plain_text(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every payload of both is encrypted, what failed is too, and a later run reads the memory."""
    del client
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", key("main-1"))
    encrypting = await connect()
    model = ScriptedAgent(["[answer] 5", "no: add[x]", "[answer] 7"], ["A lesson to keep."])
    async with served(encrypting, model):
        request = {"memory": "sealed", "episode_limit": 1, "max_attempts": 1}
        first = await start(encrypting, request)
        await first.result()
        broken = await start(encrypting, request | {"task": "8"})
        failed = ReflexionResult.model_validate(await broken.result())
        later = await run(encrypting, request)
        memory = encrypting.get_workflow_handle(memory_id("sealed"))
        histories = [await one.fetch_history() for one in (first, broken, memory)]

    found: list[Payload] = []
    whole = b""
    for event in (event for history in histories for event in history.events):
        event.upsert_workflow_search_attributes_event_attributes.ClearField("search_attributes")
        found += payloads_of(event)
        whole += event.SerializeToString()
    assert [payload.data for payload in found if payload.metadata["encoding"] != ENCRYPTED] == []
    assert not [text for text in (b"lesson", b"invalid literal", b"Count to") if text in whole]
    assert "ValueError: invalid literal" in failed.stop_explanation
    assert [one.text for one in later.reflections] == ["A lesson to keep."]
    assert "remember_reflection" in await calls_of(first)
