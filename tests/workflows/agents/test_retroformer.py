"""Retroformer on a real server: rewards in turn, the best of several reflections, and rollouts."""

from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.environments.port import Evaluation
from activities.training.port import ScoreTask
from mull.agents.memory import Action, Observation, RetroformerTrajectory, Reward
from mull.agents.result import ReflexionResult
from mull.agents.retroformer import RolloutResult
from tests.conftest import activities_of, begin
from tests.scripted import ScriptedModel
from tests.workflows.agents.running import Counting, ended, served, start
from tests.workflows.agents.scripted_training import Scored, ScriptedTraining, trains

FAILED = ["add[6]", "[answer] 5"]
SOLVED = ["add[7]", "[answer] 7"]
TEXTS = ["Guess again.", "Add seven.", "Add six."]


async def tried(
    client: Client, scores: list[Scored], model: ScriptedModel | None = None, **fields: Any
) -> tuple[ReflexionResult, ScriptedModel, list[ScoreTask], list[str]]:
    """Run an agent; return its result, its model, what was scored, and its calls."""
    model = model or ScriptedModel(plan=[*FAILED, *SOLVED], reflect=TEXTS)
    training = ScriptedTraining(scores)
    async with served(client, model), trains(client, training):
        fields = {"reward_model": "first/reward_model", **fields}
        handle = await start(client, fields, "RetroformerWorkflow")
        return await ended(handle), model, training.scored, await activities_of(handle)


async def roll_out(client: Client, **fields: Any) -> tuple[RolloutResult, list[str]]:
    known: dict[str, Any] = {"environment": "counting", "task": "7", "training": "first"}
    known |= {"execution": "1", "rollout": 2, "seed": 10, **fields}
    handle = await begin(client, known, "RetroformerRolloutWorkflow")
    result = RolloutResult.model_validate(await handle.result())
    return result, await activities_of(handle)


async def test_the_order_of_calls_is_the_source_s(client: Client) -> None:
    result, model, scored, calls = await tried(client, [(0.1, 0.3, 0.1 + 0.2)])

    assert calls == [
        "begin_task",
        "plan_action", "execute_action", "plan_action", "evaluate_episode",
        "reflect_on_episode", "reflect_on_episode", "reflect_on_episode", "score_reflections",
        "plan_action", "execute_action", "plan_action", "evaluate_episode",
    ]  # fmt: skip
    assert (result.status, result.episodes[0].scores) == ("solved", (0.1, 0.3, 0.1 + 0.2))
    # The first of equals: only a strictly higher score replaces the best so far.
    best = result.episodes[0].reflection
    assert best == scored[0].reflections[1]
    assert [held.text for held in result.reflections] == [best]
    assert f"- {best}" in model.prompts("plan")[-1]


async def test_each_reflection_has_a_seed_and_is_scored_with_its_prompt(client: Client) -> None:
    """They come side by side from one prompt, warmer than the planner's, each with its seed."""
    _, model, scored, _ = await tried(client, [(0.3, 0.2, 0.1)], seed=100)

    reflecting = model.asked("reflect")
    assert {call.seed for call in reflecting} == {100, 101, 102}
    assert {call.temperature for call in reflecting} == {0.9}
    assert {call.prompt for call in reflecting} == {scored[0].prompt}
    assert scored[0].reward_model == "first/reward_model"
    assert {call.temperature for call in model.asked("plan")} == {0.0}


async def test_a_trajectory_has_a_reward_for_each_step(client: Client) -> None:
    """Equations 7 and 8: Action, Observation, Reward, in turn; the return adds the outcome."""
    model = ScriptedModel(plan=["add[7]", "[answer] 5", *SOLVED], reflect=TEXTS)
    result, _, scored, _ = await tried(client, [(1.0, 0.0, 0.0)], model)

    first = result.episodes[0]
    assert isinstance(first.trajectory, RetroformerTrajectory)
    assert [type(item) for item in first.trajectory.items] == [Action, Observation, Reward, Action]
    assert [item.content for item in first.trajectory.items[2:3]] == [0.5]
    assert (first.episode_return, result.best_return) == (0.5, 1.0)
    assert "Reward 1: 0.5" in scored[0].prompt


@pytest.mark.parametrize(
    ("scores", "stop_reason", "warned"),
    [
        ([(None, None, None)], "solved", "no reflection on episode 1 has a score"),
        ([(None, -5.0, None)], "solved", ""),
        (
            [ApplicationError("there is no folder x", type="WeightsError", non_retryable=True)],
            "evaluation_failed",
            "",
        ),
    ],
)
async def test_a_score_that_is_no_number_loses(
    client: Client, scores: list[Scored], stop_reason: str, warned: str
) -> None:
    """With none at all there is no reflection; a reward model that can't be asked ends the run."""
    result, *_ = await tried(client, scores)

    assert result.stop_reason == stop_reason
    assert (warned in result.warnings) == bool(warned)
    assert len(result.reflections) == (stop_reason == "solved" and not warned)


async def test_a_best_reflection_is_the_best_of_its_own_choice(client: Client) -> None:
    """Where the next choice has no score at all, the one before it does not stand in again."""
    model = ScriptedModel(
        plan=[*FAILED, *FAILED, *SOLVED], reflect=[*TEXTS, "More.", "Less.", "Other."]
    )
    result, *_ = await tried(client, [(0.1, 0.3, 0.2), (None, None, None)], model)

    assert (result.stop_reason, len(result.episodes)) == ("solved", 3)
    assert result.episodes[1].reflection is None
    assert "no reflection on episode 2 has a score" in result.warnings
    assert [held.text for held in result.reflections] == [result.episodes[0].reflection]


async def test_a_budget_bounds_the_reflections(client: Client) -> None:
    result, _, scored, _ = await tried(client, [(1.0,)], budget_usd=0.0035)

    assert (len(scored[0].reflections), result.stop_reason) == (1, "budget")
    assert result.usage.cost_usd == pytest.approx(0.003)


async def test_a_rollout_tries_two_reflections_on_one_failure(client: Client) -> None:
    """Each is read alone, from the same prompt, and rated by what the next episode gains."""
    plans = [*FAILED, *SOLVED, "add[7]", "[answer] 3"]
    model = ScriptedModel(plan=plans, reflect=["Good advice.", "Poor advice."])
    training = ScriptedTraining()
    async with served(client, model), trains(client, training):
        result, calls = await roll_out(client)

    assert calls == [
        "begin_task",
        "plan_action", "execute_action", "plan_action", "evaluate_episode",
        "reflect_on_episode", "reflect_on_episode",
        "plan_action", "execute_action", "plan_action", "evaluate_episode",
        "plan_action", "execute_action", "plan_action", "evaluate_episode",
        "keep_pair",
    ]  # fmt: skip
    assert (result.gains, result.helped) == ((1.0, 0.5), (True, False))
    pair = training.pairs[0]
    first, second = (item.reflection for item in pair.tried)
    shown = [(first in prompt, second in prompt) for prompt in model.prompts("plan")]
    assert shown == [(False, False)] * 2 + [(True, False)] * 2 + [(False, True)] * 2
    assert {first, second} == {"Good advice.", "Poor advice."}
    assert pair.tried[0].prompt == pair.tried[1].prompt == model.prompts("reflect")[0]
    assert (pair.rollout, pair.seeds, pair.first_return) == (2, (10, 11), 0.0)
    # Both trials are planned by one seed, and the failed episode by another.
    planned = [call.seed for call in model.asked("plan")]
    assert planned == [10, 10, 11, 11, 11, 11]


class Scripted(Counting):
    def evaluate(self, answer: str | None) -> Evaluation:
        return super().evaluate(answer).model_copy(update={"verified_by": "script"})


@pytest.mark.parametrize("kept", [False, True])
async def test_a_pair_that_code_could_have_forged_is_kept_only_if_asked_for(
    client: Client, kept: bool
) -> None:
    """Nothing is learned from tests beside the code, unless an option says so."""
    model = ScriptedModel(
        plan=[*FAILED, *SOLVED, "add[7]", "[answer] 3"], reflect=["Good.", "Poor."]
    )
    training = ScriptedTraining()
    async with served(client, model, Scripted), trains(client, training):
        result, calls = await roll_out(client, **({"keep_script_verdicts": True} if kept else {}))

    assert result.gains == (1.0, 0.5)
    assert len(training.pairs) == calls.count("keep_pair") == kept
    assert any("a pair was left out" in warning for warning in result.warnings) != kept


async def test_a_rollout_that_succeeds_at_once_has_no_pair(client: Client) -> None:
    training = ScriptedTraining()
    async with served(client, ScriptedModel(plan=SOLVED)), trains(client, training):
        result, _ = await roll_out(client)

    assert (result.solved, result.gains, training.pairs) == (True, (), [])
