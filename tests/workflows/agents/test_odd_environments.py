"""Environments of one's own that are wrong: each ends its run in words, and harms no other run."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from activities.environments import activity
from activities.environments.port import Evaluation, StepResult
from mull.agents.result import ReflexionResult
from tests.conftest import payloads_of
from tests.patience import PATIENCE
from tests.workflows.agents.running import Counting, ScriptedAgent, run, served, start

WRONG = Evaluation(reward=0, correct=False)


class Odd(Counting):
    """What a test makes odd of the counting environment."""

    name = "odd"


async def played(client: Client, odd: type[Odd], *plans: str, **request: Any) -> ReflexionResult:
    """Run an agent in an odd environment."""
    known = {"environment": "odd", "episode_limit": 1, **request}
    async with served(client, ScriptedAgent(plans or ["[answer] 7"], ["Lesson."]), odd):
        return await run(client, known)


@pytest.mark.parametrize(
    "found",
    [
        True,
        None,
        {"reward": 1, "correct": True},
        WRONG.model_copy(update={"reward": float("nan")}),
        WRONG.model_copy(update={"reward": 1.7e308}),
        WRONG.model_copy(update={"correct": None}),
        WRONG.model_copy(update={"metrics": {str(number): 0.5 for number in range(40_000)}}),
    ],
    ids=["bool", "nothing", "dict", "nan", "huge", "unknown", "metrics"],
)
async def test_a_wrong_evaluation_ends_the_run_in_words(client: Client, found: Any) -> None:
    """It is read where it comes from, so that no workflow has to read what can't be."""

    class Wrong(Odd):
        def evaluate(self, answer: str | None) -> Evaluation:
            del answer
            return found  # type: ignore[no-any-return]

    result = await played(client, Wrong)

    assert result.stop_reason == "environment_failed"
    assert "the environment returned" in result.stop_explanation
    assert result.answer == "7"


async def test_a_wrong_verdict_is_a_warning(client: Client) -> None:
    """The episode was evaluated, and stays so."""

    class Wrong(Odd):
        def verify(self, answer: str) -> bool:
            return answer == "7"

    result = await played(client, Wrong)

    assert (result.status, result.hidden_passed) == ("solved", None)
    assert any("returned bool, not Verdict" in warning for warning in result.warnings)


async def test_what_a_hidden_test_raises_is_not_told(client: Client) -> None:
    """Its words may be the test's own: they are in no result and no history."""

    class Telling(Odd):
        def verify(self, answer: str) -> bool:
            raise AssertionError(f"SECRET: expected 42, not {answer}")

    async with served(client, ScriptedAgent(["[answer] 7"]), Telling):
        handle = await start(client, {"environment": "odd"})
        result = ReflexionResult.model_validate(await handle.result())
        history = await handle.fetch_history()

    said = b"".join(payload.data for event in history.events for payload in payloads_of(event))
    assert b"SECRET" not in said + str(history.events).encode()
    assert any("AssertionError" in warning for warning in result.warnings)


async def test_an_iterator_that_ends_is_an_error_like_others(client: Client) -> None:
    """A bare next() raises what no future takes: the step would hang until its time is over."""

    class Ending(Odd):
        def step(self, action: str) -> StepResult:
            del action
            return next(iter(()))

    async with asyncio.timeout(PATIENCE):
        result = await played(client, Ending, "add[1]")

    assert "StopIteration" in result.stop_explanation


async def test_a_close_that_hangs_loses_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before counts."""
    monkeypatch.setattr(activity, "CLOSING_SECONDS", 0.1)

    class Staying(Odd):
        async def close(self) -> None:
            await asyncio.sleep(1_000)

    async with asyncio.timeout(PATIENCE):
        result = await played(client, Staying)

    assert result.status == "solved"


async def test_one_that_hangs_holds_up_no_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each environment has threads of its own."""
    held = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(activity, "THREADS", 1)

    class Hanging(Odd):
        def step(self, action: str) -> StepResult:
            asyncio.run_coroutine_threadsafe(held.wait(), loop).result()
            return super().step(action)

    model = ScriptedAgent(["add[7]", "[answer] 7"])
    async with served(client, model, Hanging, Counting):
        stuck = await start(client, {"environment": "odd"})
        while len(model.calls) < 1:
            await asyncio.sleep(0.02)
        other = await run(client, {"step_timeout_seconds": 5})
        held.set()
        await stuck.cancel()

    assert other.status == "solved"
