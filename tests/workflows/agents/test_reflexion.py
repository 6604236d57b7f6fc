"""Reflexion on a real server: the order of its calls, what is shown to whom, and why it stops."""

import asyncio

from temporalio.client import Client

from reflection.agents.result import ReflexionResult
from tests.workflows.agents.running import ScriptedAgent, calls_of, served, start

SOLVED = ["Thought: up. add[7]", "[answer] 7"]
FAILED = ["[answer] 5"]


async def test_the_order_of_calls_is_the_source_s(client: Client) -> None:
    """Initialise; then solve, evaluate, and reflect after a failure, until it is correct."""
    model = ScriptedAgent([*FAILED, *SOLVED], ["I did not count. Next time I add 7."])
    async with served(client, model):
        handle = await start(client, {})
        result = ReflexionResult.model_validate(await asyncio.wait_for(handle.result(), 20))
        calls = await calls_of(handle)

    assert calls == [
        "begin_task",
        "plan_action", "evaluate_episode", "reflect_on_episode",
        "plan_action", "execute_action", "plan_action", "evaluate_episode",
    ]  # fmt: skip
    assert (result.status, result.stop_reason, result.answer) == ("solved", "solved", "7")
    assert [episode.episode_return for episode in result.episodes] == [0.0, 1.0]
    assert [episode.ended for episode in result.episodes] == ["answered", "answered"]
    first, second, _ = model.prompts("plan")
    assert "I did not count" not in first
    assert "- I did not count. Next time I add 7." in second
    assert [made.next or made.stop_reason for made in result.decisions] == [
        "reflect", "episode", "solved",
    ]  # fmt: skip
