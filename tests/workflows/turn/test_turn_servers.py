"""Whole turns with the tools of an MCP server that dies and hangs, and many turns at once."""

import asyncio
import resource
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from temporalio.client import Client

import worker
from activities.language_model.port import ModelCall
from mull.turn.approval import ToolRule
from tests.activities.tools.test_servers import over_stdio
from tests.workflows.turn.running import ANSWER, Noted, ScriptedTurns, ended, run, start

TRUST: dict[str, Any] = {"read_only": ["add", "die_once", "hang"]}
ADD = ("shop__add", {"first": 2, "second": 3})
TURNS = 50
GROWTH = 150_000_000


async def test_a_server_that_dies_in_the_middle_of_a_call(client: Client, tmp_path: Path) -> None:
    """What only reads is called again, what may have written is not, and the next call works."""
    calls: list[Any] = [[("shop__die_once", {})], [("shop__die", {})], [ADD], ANSWER]
    async with over_stdio(tmp_path, mull=TRUST) as shop:
        tools = shop.activities
        tools._rules = (ToolRule(tool="shop__die", action="allow"),)

        result = await run(client, ScriptedTurns(calls), tools)

    assert shop.called() == ["die_once", "die_once", "die", "add"]
    assert [call.status for call in result.calls] == ["ok", "timeout", "ok"]
    assert "may have done" in result.calls[1].content
    assert (result.calls[2].content, result.answer) == ("5", ANSWER)
    assert result.budget.tool_calls_used == 3


async def test_a_server_that_never_answers_costs_its_time_out(
    client: Client, tmp_path: Path
) -> None:
    """The turn goes on, and has the time that is left."""
    async with over_stdio(tmp_path, mull={**TRUST, "timeout_seconds": 2}) as shop:
        model = ScriptedTurns([[("shop__hang", {})], ANSWER])

        result = await run(client, model, shop.activities)

    assert [call.status for call in result.calls] == ["timeout"]
    assert result.calls[0].content == "no answer within 2 s"
    assert result.answer == ANSWER
    assert result.budget.remaining_s > 40


class Fast(ScriptedTurns):
    """Look twice, where nothing is, and answer with the message: each turn is told apart."""

    def __init__(self) -> None:
        super().__init__([self.say] * 3 * TURNS, ["Nothing is there."] * TURNS)

    def say(self, call: ModelCall) -> Any:
        message = next(one["content"] for one in call.messages if one["role"] == "user")
        step = sum(one["role"] == "assistant" for one in call.messages)
        steps: list[Any] = [
            [("look", {"place": f"sea {message}"}), ("look", {"place": f"sky {message}"})],
            [("look", {"place": f"bad {message}"})],
            f"It is {message}.",
        ]
        return steps[step]


async def test_many_turns_at_once(client: Client) -> None:
    """All end with their own answers, none is lost, and memory is bounded."""
    noted, model = Noted(), Fast()
    queues = ["mull", "llm", "tools"]
    async with AsyncExitStack() as stack:
        for each in worker.build(client, queues, model, called=noted.tools()):
            await stack.enter_async_context(each)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = [
            start(client, message=str(number), think_level="low", budget_seconds=600)
            for number in range(TURNS)
        ]
        handles = await asyncio.gather(*begun)
        results = [await ended(handle, 240) for handle in handles]
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert [result.answer for result in results] == [f"It is {n}." for n in range(TURNS)]
    assert {result.stop_reason for result in results} == {"answered"}
    assert {tuple(call.status for call in result.calls) for result in results} == {
        ("ok", "ok", "error")
    }
    assert {len(result.reflections) for result in results} == {1}
    assert len(noted.calls) == len({*noted.calls}) == 3 * TURNS
    assert grown * 1024 < GROWTH
