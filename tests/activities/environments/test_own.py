from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.environments.activity import LiveEnvironments
from activities.environments.port import Evaluation, Named, StepResult, TaskRef, environments_in
from tests.activities.environments.episodes import Episode

TASK = TaskRef(environment="number", task="10", seed=3)


@pytest.fixture
def found(root: Path) -> Named:
    """The environment of the example's file."""
    [only] = environments_in(str(root / "examples" / "own_environment.py"))
    return only


@pytest.fixture
def episode(found: Named) -> Episode:
    return Episode(found.make, TASK)


async def play(episode: Episode, *, moves: bool = False) -> list[StepResult]:
    """Guess from 1 on until the number is found, each guess on another worker if it moves."""
    steps: list[StepResult] = []
    while not (steps and steps[-1].done):
        episode = episode.moved() if moves else episode
        steps.append(await episode.act(f"guess {len(steps) + 1}"))
    return steps


async def test_own_file(found: Named, episode: Episode) -> None:
    """A file with one class is an environment, with a setting for the agent."""
    setting = await episode.begin()

    assert (found.name, setting.task) == ("number", "Find the number from 1 to 10.")
    assert setting.allowed_actions == ("guess N",)
    assert setting.planner_examples
    assert setting.reflector_examples
    assert not setting.verifies


async def test_own_episode(episode: Episode) -> None:
    """An episode is played to its end, and what it is worth is told."""
    steps = await play(episode)
    told = await episode.evaluate(steps[-1].answer)

    assert {given.observation for given in steps[:-1]} == {"The number is larger."}
    assert steps[-1] == StepResult(observation="That is it.", done=True, answer=str(len(steps)))
    assert told == Evaluation(reward=1.0, correct=True)


async def test_own_episode_moves(found: Named, episode: Episode) -> None:
    """Each step on another worker gives what all steps on one worker give."""
    assert await play(episode, moves=True) == await play(Episode(found.make, TASK))


async def test_own_odd_action(episode: Episode) -> None:
    """An action that can't be read is an observation."""
    result = await episode.act("I would rather not")

    assert result == StepResult(observation="That is no number. Write: guess N")


async def test_unknown_environment(found: Named) -> None:
    """A task of an environment that the worker lacks fails for good, and names those it has."""
    episode = Episode(found.make, TaskRef(environment="chess", task="1"))
    episode.live = LiveEnvironments([found])

    with pytest.raises(
        ApplicationError, match="unknown environment 'chess'; the worker has code, number"
    ) as caught:
        await episode.begin()

    assert caught.value.non_retryable
