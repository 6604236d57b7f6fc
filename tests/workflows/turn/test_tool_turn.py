"""The turn as a workflow: answers, calls of tools, people, reflections and bounds."""

from typing import Any

from temporalio.client import Client

from tests.workflows.turn.running import (
    ANSWER,
    Noted,
    ScriptedTurns,
    ended,
    run,
    served,
    start,
    until,
)


async def test_a_turn_answers(client: Client) -> None:
    """Without a call of a tool, one step is enough."""
    result = await run(client, ScriptedTurns([ANSWER]))

    assert (result.answer, result.stop_reason) == (ANSWER, "answered")
    assert result.budget.steps_used == 1
    assert result.tools == ("look", "write", "slow")


async def test_results_go_back_to_the_model(client: Client) -> None:
    """Two calls in one reply run, and the next step reads what they returned, quoted."""
    noted = Noted()
    model = ScriptedTurns([[("look", {"place": "sea"}), ("look", {"place": "sky"})], ANSWER])

    result = await run(client, model, noted)

    assert result.answer == ANSWER
    assert sorted(noted.calls) == ["look sea", "look sky"]
    assert [call.status for call in result.calls] == ["ok", "ok"]
    told = [one["content"] for one in model.calls[1].messages if one["role"] == "tool"]
    assert [("sea is blue" in text, "sky is blue" in text) for text in told] == [
        (True, False),
        (False, True),
    ]
    assert result.budget.tool_calls_used == 2


async def test_what_writes_waits_for_a_person(client: Client) -> None:
    """An allowed call runs, a denied one tells the model why; neither wait uses up the turn."""
    noted = Noted()
    calls: list[Any] = [[("write", {"text": "a"})], [("write", {"text": "b"})], ANSWER]
    async with served(client, ScriptedTurns(calls), noted):
        handle = await start(client)
        seen = await until(handle, "waiting_for_permission")
        assert seen["asking"] == [1]
        assert noted.calls == []
        await handle.execute_update("permit", {"call": 1, "allow": True, "author": "ann"})
        async with asyncio_timeout():
            while (await handle.query("progress"))["asking"] != [2]:
                pass
        await handle.execute_update("permit", {"call": 2, "allow": False, "why": "not today"})
        result = await ended(handle)

    assert noted.calls == ["write a"]
    assert [call.status for call in result.calls] == ["ok", "denied"]
    assert result.calls[0].approval is not None
    assert result.calls[0].approval.author == "ann"
    assert "not today" in result.calls[1].content


def asyncio_timeout() -> Any:
    import asyncio

    return asyncio.timeout(20)
