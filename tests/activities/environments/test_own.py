from collections.abc import Iterable
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.environments.activity import (
    EpisodeTask,
    Evaluator,
    Executor,
    LiveEnvironments,
    Setting,
    digest_of,
)
from activities.environments.port import (
    Evaluation,
    Named,
    StepResult,
    TaskRef,
    environments_in,
)

TASK = TaskRef(environment="number", task="10", seed=3)


@pytest.fixture
def found(root: Path) -> list[Named]:
    """The environments of the example's file."""
    return list(environments_in(str(root / "examples" / "own_environment.py")))


async def step(live: LiveEnvironments, action: str, *before: str, seen: str = "") -> StepResult:
    task = EpisodeTask(task=TASK, key="1", actions=before, action=action, seen=seen)
    result = await ActivityEnvironment().run(Executor(live).execute_action, task)
    return StepResult.model_validate(result)


async def setting_of(live: LiveEnvironments, task: TaskRef) -> Setting:
    found = await ActivityEnvironment().run(
        Executor(live).begin_task, EpisodeTask(task=task, key="1")
    )
    return Setting.model_validate(found)


async def play(workers: Iterable[LiveEnvironments]) -> list[StepResult]:
    """Guess from 1 on, each guess on the next worker, until the number is found."""
    steps: list[StepResult] = []
    guesses = [f"guess {number}" for number in range(1, 11)]
    for live, guess in zip(workers, guesses, strict=False):
        before = guesses[: len(steps)]
        seen = digest_of(given.observation for given in steps)
        steps.append(await step(live, guess, *before, seen=seen))
        if steps[-1].done:
            break
    return steps


async def test_own_file(found: list[Named]) -> None:
    """A file with one class is an environment, with a setting for the agent."""
    setting = await setting_of(LiveEnvironments(found), TASK)

    assert [name for name, _ in found] == ["number"]
    assert setting.task == "Find the number from 1 to 10."
    assert setting.allowed_actions == ("guess N",)
    assert setting.planner_examples
    assert setting.reflector_examples
    assert not setting.verifies


async def test_own_episode(found: list[Named]) -> None:
    """An episode is played to its end, and what it is worth is told."""
    live = LiveEnvironments(found)

    steps = await play([live] * 10)
    actions = tuple(f"guess {number}" for number in range(1, len(steps) + 1))
    end = EpisodeTask(task=TASK, key="1", actions=actions, answer=steps[-1].answer)
    told = await ActivityEnvironment().run(Evaluator(live).evaluate_episode, end)

    assert {given.observation for given in steps[:-1]} == {"The number is larger."}
    assert steps[-1] == StepResult(observation="That is it.", done=True, answer=str(len(steps)))
    assert Evaluation.model_validate(told) == Evaluation(reward=1.0, correct=True)


async def test_own_episode_moves(found: list[Named]) -> None:
    """Each step on another worker gives what all steps on one worker give."""
    one = LiveEnvironments(found)

    moved = await play(LiveEnvironments(found) for _ in range(10))

    assert moved == await play([one] * 10)


async def test_own_odd_action(found: list[Named]) -> None:
    """An action that can't be read is an observation."""
    result = await step(LiveEnvironments(found), "I would rather not")

    assert result == StepResult(observation="That is no number. Write: guess N")


async def test_unknown_environment(found: list[Named]) -> None:
    """A task of an environment that the worker lacks fails for good, and names those it has."""
    with pytest.raises(ApplicationError, match="no environment 'chess'; it has number") as caught:
        await setting_of(LiveEnvironments(found), TaskRef(environment="chess", task="1"))

    assert caught.value.non_retryable
