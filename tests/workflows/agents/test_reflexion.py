"""Reflexion on a real server: the order of its calls, what is shown to whom, and why it stops."""

import asyncio
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import CancelledError
from temporalio.testing import ActivityEnvironment

from activities.environments.activity import EpisodeTask, Executor, LiveEnvironments
from activities.environments.port import Evaluation, Named, StepResult, TaskRef
from activities.language_model.port import ModelError, PermanentModelError
from tests.conftest import activities_of, failure, payloads_of, until_asked
from tests.scripted import Said, ScriptedModel, kind_of
from tests.workflows.agents.running import Counting, ended, run, served, solve, start

SOLVED: list[Said] = ["Thought: up. add[7]", "[answer] 7"]
FAILED: list[Said] = ["[answer] 5"]


async def waits(_: Any) -> str:
    await asyncio.sleep(30)
    return "too late"


def reflections(count: int) -> list[Said]:
    return [f"Plan {number}: count up to seven." for number in range(1, count + 1)]


async def test_the_order_of_calls_is_the_source_s(client: Client) -> None:
    """Initialise; then solve, evaluate, and reflect after a failure, until it is correct."""
    model = ScriptedModel(plan=[*FAILED, *SOLVED], reflect=["I did not count. Next time I add 7."])
    async with served(client, model):
        handle = await start(client)
        result = await ended(handle)
        calls = await activities_of(handle)

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
    model = ScriptedModel(plan=[*FAILED * failures, *SOLVED], reflect=reflections(failures))
    result = await solve(client, model)

    held = [reflection.text for reflection in result.reflections]
    assert held == reflections(failures)[-3:]
    assert [episode.reflections for episode in result.episodes] == [
        min(3, number) for number in range(failures + 1)
    ]
    assert len(model.calls) == 2 * failures + 2
    for number, prompt in enumerate(model.prompts("plan")[: failures + 1]):
        shown = [text in prompt for text in map(str, reflections(failures))]
        assert shown == [number - 3 <= place < number for place in range(failures)]


NO_KEY = PermanentModelError("no key", "AuthenticationError")
Ends = tuple[dict[str, list[Said]], dict[str, Any], dict[str, Any], list[dict[str, Any]]]
# What is planned and reflected, what is asked for, and what has come in the end: fields of the
# result, of its reflections their number, and of each episode.
ENDS: dict[str, Ends] = {
    "exhausted, the best episode": (
        {"plan": ["add[7]", "[answer] 5", "[answer] 4", "[answer] 3"]}, {"episode_limit": 3},
        {"status": "exhausted", "stop_reason": "episode_limit", "best": 1, "best_return": 0.5,
         "answer": "5"}, [{}] * 3,
    ),
    "three actions alike, in two episodes": (
        {"plan": ["look"] * 6}, {}, {"stop_reason": "repeated_action", "status": "no_answer"},
        [{"ended": "repeated_action", "steps": 3}] * 2,
    ),
    "a repeated reflection": (
        {"plan": FAILED * 2, "reflect": ["The same plan."] * 2}, {},
        {"stop_reason": "repeated_reflection", "reflections": 1}, [{}] * 2,
    ),
    "a plateau": (
        {"plan": ["add[7]", "[answer] 5", *FAILED * 2]}, {"plateau_episodes": 2},
        {"stop_reason": "plateau", "reflections": 2}, [{}] * 3,
    ),
    "the hidden test is run on the best answer and not on the last": (
        {"plan": ["add[9]", "[answer] 7", "add[8]", "[answer] 8"]},
        {"environment": "hidden", "task": "9", "episode_limit": 2},
        {"best": 1, "answer": "7", "hidden_passed": True}, [{}] * 2,
    ),
    "a judge who can't be read": (
        {"plan": FAILED, "verdict": ["no", "yes"]}, {"judge": "openai/judge"},
        {"stop_reason": "evaluation_failed"}, [{"correct": None}],
    ),
    "a failed reflection goes on": (
        {"plan": [*FAILED, *SOLVED], "reflect": [ModelError("lost")]}, {}, {"status": "solved"},
        [{}] * 2,
    ),
    "a planner that fails later": (
        {"plan": [*FAILED, NO_KEY]}, {}, {"stop_reason": "generation_failed", "answer": "5"},
        [{}],
    ),
    "a budget": (
        {"plan": FAILED * 5}, {"budget_tokens": 350, "max_output_tokens": 1},
        {"stop_reason": "budget", "answer": "5"}, [{}] * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_how_a_run_ends(client: Client, end: Any) -> None:
    script, request, fields, episodes = end
    model = ScriptedModel(**{"reflect": reflections(5), **script})
    result = await solve(client, model, request)

    assert fields.items() <= (dict(result) | {"reflections": len(result.reflections)}).items()
    for expected, episode in zip(episodes, result.episodes, strict=True):
        assert expected.items() <= dict(episode).items()
    assert bool(result.doubt) == (result.status != "solved")
    unreflected = any("was not reflected on" in warning for warning in result.warnings)
    assert unreflected == any(isinstance(said, ModelError) for said in script.get("reflect", ()))
    assert len(model.asked("reflect")) == 3 or fields.get("stop_reason") != "episode_limit"
    assert result.usage.tokens is not None
    assert result.usage.tokens <= request.get("budget_tokens", 10_000)
    kept = [reflection.text for reflection in result.reflections]
    assert len(set(kept)) == len(kept)


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
    model = ScriptedModel(plan=[*FAILED, *SOLVED], reflect=reflections(1))
    result = await solve(client, model, {"strategy": strategy})

    second = model.prompts("plan")[1]
    assert ("Plan 1" in second, "Action 1: [answer] 5" in second) == (reflects, reads_last)
    assert len(model.prompts("reflect")) == reflects
    assert result.status == "solved"


async def test_a_hidden_test_runs_once_at_the_end_and_nobody_is_shown_it(client: Client) -> None:
    model = ScriptedModel(plan=[*FAILED, "add[8]", "[answer] 8"], reflect=reflections(1))
    async with served(client, model):
        handle = await start(client, {"environment": "hidden", "task": "8"})
        result = await ended(handle)
        calls = await activities_of(handle)

    assert calls.count("verify_answer") == 1
    assert calls[-1] == "verify_answer"
    assert (result.status, result.hidden_passed) == ("solved", False)
    assert "hidden test fails" in result.doubt


@pytest.mark.parametrize(("seed", "seeds"), [(40, [40, 41, 42]), (None, [None] * 3)])
async def test_each_episode_is_planned_by_another_seed(
    client: Client, seed: int | None, seeds: list[int | None]
) -> None:
    """By the same one a planner at temperature 0 would do again what failed."""
    model = ScriptedModel(plan=FAILED * 3, reflect=reflections(3))
    await solve(client, model, {"seed": seed, "episode_limit": 3})

    assert [call.seed for call in model.calls if kind_of(call) == "plan"] == seeds


async def test_a_judge_is_asked_at_temperature_0_whatever_the_planner_s_is(client: Client) -> None:
    """Each seed gives the same verdict."""
    wrong = '{"reasoning": "seen", "correct": false}'
    model = ScriptedModel(plan=FAILED, reflect=reflections(1), verdict=["I think so", wrong])
    request = {"judge": "openai/judge", "temperature": 1.5, "episode_limit": 1}
    await solve(client, model, request)

    heat = [(kind_of(call), call.temperature) for call in model.calls]
    assert heat == [("plan", 1.5), ("verdict", 0.0), ("verdict", 0.0), ("reflect", 1.5)]


async def test_a_judge_stands_in_for_the_environment_and_is_said_to(client: Client) -> None:
    wrong, right = (f'{{"reasoning": "seen", "correct": {word}}}' for word in ("false", "true"))
    model = ScriptedModel(
        plan=[*FAILED, *FAILED], reflect=reflections(1), verdict=["I think so", wrong, right]
    )
    async with served(client, model):
        handle = await start(client, {"judge": "openai/judge"})
        result = await ended(handle)
        calls = await activities_of(handle)

    assert "evaluate_episode" not in calls
    assert (result.judged, result.status, len(result.episodes)) == (True, "solved", 2)
    assert "only a model" in result.doubt
    assert [call.model for call in model.calls if call.model] == ["openai/judge"] * 3
    assert result.usage.parts["evaluating"].calls == 3


async def test_a_planner_that_fails_at_first_fails_the_run(client: Client) -> None:
    async with served(client, ScriptedModel(plan=[NO_KEY])):
        failed = await failure(await start(client))

    assert failed.type == "AuthenticationError"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            {"environment": "nowhere"},
            "unknown environment 'nowhere'; the worker has code",
        ),
        ({"task": "many"}, "'many' is no number"),
    ],
)
async def test_a_task_that_is_not_there_fails_the_run_in_words(
    client: Client, request_: dict[str, Any], said: str
) -> None:
    """Before any model is called."""
    model = ScriptedModel()
    async with served(client, model):
        failed = await failure(await start(client, request_))

    assert (failed.type, model.calls) == ("TaskError", [])
    assert said in failed.message


class Breaking(Counting):
    name = "breaking"

    def step(self, action: str) -> StepResult:
        raise OSError(f"no {action}")


class Changing(Counting):
    """It leads elsewhere each time that it is made anew."""

    name = "changing"
    lives = 0

    def step(self, action: str) -> StepResult:
        return StepResult(observation=f"{self.lives}: {super().step(action).observation}")

    def reset(self, seed: int) -> str:
        type(self).lives += 1
        self.lives = type(self).lives
        return super().reset(seed)


async def test_an_environment_that_fails_or_is_not_repeatable_ends_the_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before stays; a state that can't be rebuilt is not gone on with."""
    model = ScriptedModel(plan=["add[1]"])
    broken = await solve(client, model, {"environment": "breaking"}, Breaking)
    monkeypatch.setattr("worker.LiveEnvironments", partial(LiveEnvironments, live=0))
    model = ScriptedModel(plan=["add[1]", "add[2]"])
    changed = await solve(client, model, {"environment": "changing"}, Changing)

    assert (broken.stop_reason, broken.episodes[0].ended) == ("environment_failed", "cut_short")
    assert "OSError: no add[1]" in broken.stop_explanation
    assert changed.stop_reason == "environment_failed"
    assert "not repeatable" in changed.stop_explanation


async def test_every_worker_rebuilds_an_episode_from_its_actions(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.LiveEnvironments", partial(LiveEnvironments, live=0))
    Counting.made.clear()
    model = ScriptedModel(plan=["add[3]", "add[4]", "[answer] 7"])
    result = await solve(client, model)

    assert (result.status, result.best_return) == ("solved", 1.0)
    assert [made.taken for made in Counting.made] == [
        [], ["add[3]"], ["add[3]", "add[4]"], ["add[3]", "add[4]"],
    ]  # fmt: skip


async def test_a_worker_goes_on_with_its_live_episode(client: Client) -> None:
    """It is made once for the task, once for the episode, and each action is taken once."""
    Counting.made.clear()
    model = ScriptedModel(plan=["add[3]", "add[2]", "add[2]", "[answer] 7"])
    result = await solve(client, model)

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


async def test_a_person_ends_a_run_with_its_best_episode(client: Client) -> None:
    model = ScriptedModel(plan=[*FAILED, "add[1]", waits], reflect=reflections(1))
    async with served(client, model):
        handle = await start(client)
        await until_asked(model, 4)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.stop_reason, result.answer) == ("finished_by_person", "5")
    assert [episode.ended for episode in result.episodes] == ["answered", "cut_short"]
    assert result.decisions[-1].author == "ann"


async def test_a_deadline_and_a_cancellation_end_a_run(client: Client) -> None:
    model = ScriptedModel(plan=[*FAILED, waits, waits], reflect=reflections(1))
    async with served(client, model):
        late = await run(client, {"budget_seconds": 2})
        handle = await start(client)
        await until_asked(model, 4)
        await handle.cancel()
        await failure(handle, CancelledError)

    assert (late.stop_reason, late.answer) == ("deadline", "5")


class Gold(Counting):
    """An environment whose evaluation is worth nothing but the metrics."""

    name = "gold"

    def evaluate(self, answer: str | None) -> Evaluation:
        right = answer == "7"
        return Evaluation(reward=right, correct=right, metrics={"em": right, "f1": 0.4})


async def test_queries_show_the_episode_under_way(client: Client) -> None:
    held = asyncio.Event()

    async def answer(_: Any) -> str:
        await held.wait()
        return "[answer] 7"

    model = ScriptedModel(plan=["add[3]", answer])
    async with served(client, model, Gold):
        handle = await start(client, {"environment": "gold"})
        await until_asked(model, 2)
        seen = await handle.query("progress")
        held.set()
        result = await ended(handle)

    assert [item["content"] for item in seen["trajectory"]["items"]] == ["add[3]", "The sum is 3."]
    assert (seen["step"], seen["in_flight"]) == ("episode 1, step 2: plan", 1)
    assert result.episodes[0].metrics == {"em": 1.0, "f1": 0.4}


async def test_no_payload_has_what_an_answer_is_compared_with(client: Client) -> None:
    """A request names its task: what lies with the worker stays there."""
    model = ScriptedModel(plan=FAILED * 2, reflect=reflections(2))
    async with served(client, model, Secretive):
        handle = await start(client, {"environment": "secretive", "episode_limit": 2})
        await ended(handle)
        history = await handle.fetch_history()

    said = b"".join(payload.data for event in history.events for payload in payloads_of(event))
    assert b"It is wrong." in said
    assert Secretive.secret.encode() not in said


class Secretive(Counting):
    name = "secretive"
    secret = "the gold answer"

    def evaluate(self, answer: str | None) -> Evaluation:
        return Evaluation(reward=0, correct=answer == self.secret, feedback="It is wrong.")
