"""Reflexion on a real server: the order of its calls, what is shown to whom, and why it stops."""

import asyncio
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from activities.environments.activity import EpisodeTask, Executor, LiveEnvironments
from activities.environments.port import Evaluation, Named, StepResult, TaskRef
from activities.language_model.port import ModelError, PermanentModelError
from mull.agents.result import ReflexionResult
from tests.conftest import payloads_of
from tests.patience import PATIENCE
from tests.workflows.agents.running import (
    Counting,
    Handle,
    Said,
    ScriptedAgent,
    calls_of,
    kind_of,
    run,
    served,
    start,
)

SOLVED: list[Said] = ["Thought: up. add[7]", "[answer] 7"]
FAILED: list[Said] = ["[answer] 5"]
SLOW = 30


def reflections(count: int) -> list[Said]:
    """As many reflections, each another one."""
    return [f"Plan {number}: count up to seven." for number in range(1, count + 1)]


async def until(condition: Any) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.02)


async def ended(handle: Handle) -> ReflexionResult:
    """Return the result of a run."""
    return ReflexionResult.model_validate(await asyncio.wait_for(handle.result(), PATIENCE))


async def test_the_order_of_calls_is_the_source_s(client: Client) -> None:
    """Initialise; then solve, evaluate, and reflect after a failure, until it is correct."""
    model = ScriptedAgent([*FAILED, *SOLVED], ["I did not count. Next time I add 7."])
    async with served(client, model):
        handle = await start(client, {})
        result = await ended(handle)
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


@pytest.mark.parametrize("failures", [1, 3, 4])
async def test_memory_holds_the_last_three_reflections(client: Client, failures: int) -> None:
    """The oldest is dropped first; each episode's planner reads what is held by then."""
    model = ScriptedAgent([*FAILED * failures, *SOLVED], reflections(failures))
    async with served(client, model):
        result = await run(client, {})

    held = [reflection.text for reflection in result.reflections]
    assert held == reflections(failures)[-3:]
    assert [episode.reflections for episode in result.episodes] == [
        min(3, number) for number in range(failures + 1)
    ]
    assert len(model.calls) == 2 * failures + 2
    for number, prompt in enumerate(model.prompts("plan")[: failures + 1]):
        shown = [text in prompt for text in map(str, reflections(failures))]
        assert shown == [number - 3 <= place < number for place in range(failures)]


async def test_an_exhausted_run_keeps_its_best_episode(client: Client) -> None:
    """The highest return counts, not the last one, and the last failure is reflected on too."""
    model = ScriptedAgent(["add[7]", "[answer] 5", "[answer] 4", "[answer] 3"], reflections(3))
    async with served(client, model):
        result = await run(client, {"episode_limit": 3})

    assert (result.status, result.stop_reason) == ("exhausted", "episode_limit")
    assert (result.best, result.best_return, result.answer) == (1, 0.5, "5")
    assert len(model.prompts("reflect")) == 3
    assert result.doubt


@pytest.mark.parametrize(
    ("strategy", "reflects", "reads_last"),
    [
        ("none", False, False),
        ("last_episode", False, True),
        ("reflexion", True, False),
        ("last_episode_and_reflexion", True, True),
    ],
)
async def test_a_strategy_is_what_the_next_planner_reads(
    client: Client, strategy: str, reflects: bool, reads_last: bool
) -> None:
    """Nothing, the last episode, the reflections, or both; without reflections none is made."""
    model = ScriptedAgent([*FAILED, *SOLVED], reflections(1))
    async with served(client, model):
        result = await run(client, {"strategy": strategy})

    second = model.prompts("plan")[1]
    assert ("Plan 1" in second, "Action 1: [answer] 5" in second) == (reflects, reads_last)
    assert len(model.prompts("reflect")) == reflects
    assert result.status == "solved"


async def test_three_actions_alike_end_an_episode_and_two_such_episodes_the_run(
    client: Client,
) -> None:
    """The planner is not let go round in circles up to the limit of steps."""
    model = ScriptedAgent(["look"] * 6, reflections(2))
    async with served(client, model):
        result = await run(client, {})

    assert [(one.ended, one.steps) for one in result.episodes] == [("repeated_action", 3)] * 2
    assert (result.stop_reason, result.status) == ("repeated_action", "no_answer")


async def test_a_repeated_reflection_and_a_plateau_stop_the_run(client: Client) -> None:
    """What was said before is not held twice; episodes without gain over a return are no use."""
    again = ScriptedAgent(FAILED * 2, ["The same plan."] * 2)
    async with served(client, again):
        repeated = await run(client, {})
    flat = ScriptedAgent(["add[7]", "[answer] 5", *FAILED * 2], reflections(3))
    async with served(client, flat):
        plateau = await run(client, {"plateau_episodes": 2})

    assert (repeated.stop_reason, len(repeated.reflections)) == ("repeated_reflection", 1)
    assert (plateau.stop_reason, len(plateau.episodes)) == ("plateau", 3)


async def test_a_hidden_test_runs_once_at_the_end_and_nobody_is_shown_it(client: Client) -> None:
    """Its verdict is in the result alone; a solution that fails it is not to be built on."""
    model = ScriptedAgent([*FAILED, "add[8]", "[answer] 8"], reflections(1))
    async with served(client, model):
        handle = await start(client, {"environment": "hidden", "task": "8"})
        result = await ended(handle)
        calls = await calls_of(handle)

    assert calls.count("verify_answer") == 1
    assert calls[-1] == "verify_answer"
    assert (result.status, result.hidden_passed) == ("solved", False)
    assert "hidden test fails" in result.doubt


async def test_the_hidden_test_is_run_on_the_best_answer_and_not_on_the_last(
    client: Client,
) -> None:
    """An earlier episode that earned more is the result, and what is verified."""
    model = ScriptedAgent(["add[9]", "[answer] 7", "add[8]", "[answer] 8"], reflections(2))
    async with served(client, model):
        result = await run(client, {"environment": "hidden", "task": "9", "episode_limit": 2})

    assert (result.best, result.answer, len(result.episodes)) == (1, "7", 2)
    assert result.hidden_passed


@pytest.mark.parametrize(("seed", "seeds"), [(40, [40, 41, 42]), (None, [None] * 3)])
async def test_each_episode_is_planned_by_another_seed(
    client: Client, seed: int | None, seeds: list[int | None]
) -> None:
    """By the same one a planner at temperature 0 would do again what failed."""
    model = ScriptedAgent(FAILED * 3, reflections(3))
    async with served(client, model):
        await run(client, {"seed": seed, "episode_limit": 3})

    assert [call.seed for call in model.calls if kind_of(call) == "plan"] == seeds


async def test_a_judge_is_asked_at_temperature_0_whatever_the_planner_s_is(client: Client) -> None:
    """Each seed gives the same verdict."""
    wrong = '{"reasoning": "seen", "correct": false}'
    model = ScriptedAgent(FAILED, reflections(1), ["I think so", wrong])
    async with served(client, model):
        await run(client, {"judge": "openai/judge", "temperature": 1.5, "episode_limit": 1})

    heat = [(kind_of(call), call.temperature) for call in model.calls]
    assert heat == [("plan", 1.5), ("judge", 0.0), ("judge", 0.0), ("reflect", 1.5)]


async def test_a_judge_stands_in_for_the_environment_and_is_said_to(client: Client) -> None:
    """A judge is asked for a verdict, at most twice an episode, and the result says so."""
    wrong, right = (f'{{"reasoning": "seen", "correct": {word}}}' for word in ("false", "true"))
    model = ScriptedAgent([*FAILED, *FAILED], reflections(1), ["I think so", wrong, right])
    async with served(client, model):
        handle = await start(client, {"judge": "openai/judge"})
        result = await ended(handle)
        calls = await calls_of(handle)

    assert "evaluate_episode" not in calls
    assert (result.judged, result.status, len(result.episodes)) == (True, "solved", 2)
    assert "only a model" in result.doubt
    assert [call.model for call in model.calls if call.model] == ["openai/judge"] * 3
    assert result.usage.parts["evaluating"].calls == 3


async def test_a_judge_who_can_t_be_read_ends_the_run(client: Client) -> None:
    """What can't be read is no verdict, and no number."""
    model = ScriptedAgent(FAILED, [], ["no", "yes"])
    async with served(client, model):
        result = await run(client, {"judge": "openai/judge"})

    assert (result.stop_reason, result.episodes[0].correct) == ("evaluation_failed", None)


async def test_a_failed_reflection_is_a_warning_and_the_next_episode_goes_on(
    client: Client,
) -> None:
    """Reflecting may fail; trying again is still worth something."""
    model = ScriptedAgent([*FAILED, *SOLVED], [ModelError("lost")])
    async with served(client, model):
        result = await run(client, {})

    assert result.status == "solved"
    assert any("was not reflected on" in warning for warning in result.warnings)


async def test_a_planner_that_fails_at_first_fails_the_run_and_later_ends_it(
    client: Client,
) -> None:
    """Without any reply there is nothing to keep; with one, the best episode is."""
    no_key = PermanentModelError("no key", "AuthenticationError")
    async with served(client, ScriptedAgent([no_key])):
        handle = await start(client, {})
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    async with served(client, ScriptedAgent([*FAILED, no_key], reflections(1))):
        result = await run(client, {})

    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "AuthenticationError"
    assert (result.stop_reason, result.answer) == ("generation_failed", "5")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"environment": "nowhere"}, "no environment 'nowhere'; it has counting, hidden"),
        ({"task": "many"}, "'many' is no number"),
    ],
)
async def test_a_task_that_is_not_there_fails_the_run_in_words(
    client: Client, request_: dict[str, Any], said: str
) -> None:
    """Before any model is called."""
    model = ScriptedAgent()
    async with served(client, model):
        handle = await start(client, request_)
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert isinstance(failed.value.cause, ApplicationError)
    assert (failed.value.cause.type, model.calls) == ("TaskError", [])
    assert said in failed.value.cause.message


class Breaking(Counting):
    """Its steps fail."""

    name = "breaking"

    def step(self, action: str) -> StepResult:
        """Fail."""
        raise OSError(f"no {action}")


class Changing(Counting):
    """It leads elsewhere each time that it is made anew."""

    name = "changing"
    lives = 0

    def step(self, action: str) -> StepResult:
        """Count the lives, too."""
        return StepResult(observation=f"{self.lives}: {super().step(action).observation}")

    def reset(self, seed: int) -> str:
        """Begin another life."""
        type(self).lives += 1
        self.lives = type(self).lives
        return super().reset(seed)


async def test_an_environment_that_fails_or_is_not_repeatable_ends_the_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before stays; a state that can't be rebuilt is not gone on with."""
    async with served(client, ScriptedAgent(["add[1]"]), Breaking):
        broken = await run(client, {"environment": "breaking"})
    monkeypatch.setattr("worker.LiveEnvironments", partial(LiveEnvironments, live=0))
    async with served(client, ScriptedAgent(["add[1]", "add[2]"]), Changing):
        changed = await run(client, {"environment": "changing"})

    assert (broken.stop_reason, broken.episodes[0].ended) == ("environment_failed", "cut_short")
    assert "OSError: no add[1]" in broken.stop_explanation
    assert changed.stop_reason == "environment_failed"
    assert "not repeatable" in changed.stop_explanation


async def test_every_worker_rebuilds_an_episode_from_its_actions(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a live environment each step replays those before it, with the same end."""
    monkeypatch.setattr("worker.LiveEnvironments", partial(LiveEnvironments, live=0))
    Counting.made.clear()
    model = ScriptedAgent(["add[3]", "add[4]", "[answer] 7"])
    async with served(client, model):
        result = await run(client, {})

    assert (result.status, result.best_return) == ("solved", 1.0)
    assert [made.taken for made in Counting.made] == [
        [], ["add[3]"], ["add[3]", "add[4]"], ["add[3]", "add[4]"],
    ]  # fmt: skip


async def test_a_worker_goes_on_with_its_live_episode(client: Client) -> None:
    """It is made once for the task, once for the episode, and each action is taken once."""
    Counting.made.clear()
    model = ScriptedAgent(["add[3]", "add[2]", "add[2]", "[answer] 7"])
    async with served(client, model):
        result = await run(client, {})

    assert result.best_return == 1.0
    assert [made.taken for made in Counting.made] == [[], ["add[3]", "add[2]", "add[2]"]]


async def test_an_action_that_is_tried_again_is_taken_from_where_it_was() -> None:
    """A live episode that has it already, since its result was lost, is made anew."""
    maker: Any = Counting
    live = LiveEnvironments([Named("counting", maker)])
    known: dict[str, Any] = {"task": TaskRef(environment="counting", task="7"), "key": "1"}
    second = EpisodeTask(**known, actions=("add[3]",), action="add[4]")

    said = [
        (await ActivityEnvironment().run(Executor(live).execute_action, task)).observation
        for task in (EpisodeTask(**known, action="add[3]"), second, second)
    ]

    assert said == ["The sum is 3.", "The sum is 7.", "The sum is 7."]


async def test_budgets_end_a_run_between_calls(client: Client) -> None:
    """A token budget stops it before the call that would not fit; the best episode is kept."""
    model = ScriptedAgent(FAILED * 5, reflections(5))
    async with served(client, model):
        result = await run(client, {"budget_tokens": 350, "max_output_tokens": 1})

    assert (result.stop_reason, result.answer) == ("budget", "5")
    assert result.usage.tokens is not None
    assert result.usage.tokens <= 350


async def test_a_person_ends_a_run_with_its_best_episode(client: Client) -> None:
    """The call in flight is cancelled, and the episode under way is kept as far as it came."""

    async def waits(_: Any) -> str:
        await asyncio.sleep(SLOW)
        return "too late"

    model = ScriptedAgent([*FAILED, "add[1]", waits], reflections(1))
    async with served(client, model):
        handle = await start(client, {})
        await until(lambda: len(model.calls) == 4)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.stop_reason, result.answer) == ("finished_by_person", "5")
    assert [episode.ended for episode in result.episodes] == ["answered", "cut_short"]
    assert result.decisions[-1].author == "ann"


async def test_a_deadline_and_a_cancellation_end_a_run(client: Client) -> None:
    """A deadline keeps what there is; a cancelled run has no result."""

    async def waits(_: Any) -> str:
        await asyncio.sleep(SLOW)
        return "too late"

    model = ScriptedAgent([*FAILED, waits, waits], reflections(1))
    async with served(client, model):
        late = await run(client, {"budget_seconds": 2})
        handle = await start(client, {})
        await until(lambda: len(model.calls) == 4)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as cancelled:
            await handle.result()

    assert (late.stop_reason, late.answer) == ("deadline", "5")
    assert isinstance(cancelled.value.cause, CancelledError)


class Gold(Counting):
    """An environment whose evaluation is worth nothing but the metrics."""

    name = "gold"

    def evaluate(self, answer: str | None) -> Evaluation:
        """Compare in two ways."""
        right = answer == "7"
        return Evaluation(reward=right, correct=right, metrics={"em": right, "f1": 0.4})


async def test_queries_show_the_episode_under_way(client: Client) -> None:
    """Progress has the trajectory so far; a query never changes the run."""
    held = asyncio.Event()

    async def waits(_: Any) -> str:
        await held.wait()
        return "[answer] 7"

    model = ScriptedAgent(["add[3]", waits])
    async with served(client, model, Gold):
        handle = await start(client, {"environment": "gold"})
        await until(lambda: len(model.calls) == 2)
        seen = await handle.query("progress")
        held.set()
        result = await ended(handle)

    assert [item["content"] for item in seen["trajectory"]["items"]] == ["add[3]", "The sum is 3."]
    assert (seen["step"], seen["in_flight"]) == ("episode 1, step 2: plan", 1)
    assert result.episodes[0].metrics == {"em": 1.0, "f1": 0.4}


async def test_no_payload_has_what_an_answer_is_compared_with(client: Client) -> None:
    """A request names its task: what lies with the worker stays there."""
    async with served(client, ScriptedAgent(["[answer] 5"] * 2, reflections(2)), Secretive):
        handle = await start(client, {"environment": "secretive", "episode_limit": 2})
        await ended(handle)
        history = await handle.fetch_history()

    said = b"".join(payload.data for event in history.events for payload in payloads_of(event))
    assert b"It is wrong." in said
    assert Secretive.secret.encode() not in said


class Secretive(Counting):
    """It has a secret, which its evaluation looks at."""

    name = "secretive"
    secret = "the gold answer"

    def evaluate(self, answer: str | None) -> Evaluation:
        """Compare with the secret."""
        return Evaluation(reward=0, correct=answer == self.secret, feedback="It is wrong.")
