import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from activities.environments.activity import (
    ActionTask,
    AnswerTask,
    EpisodeTask,
    LiveEnvironments,
    digest_of,
)
from activities.environments.port import Named, TaskError, TaskRef
from activities.environments.textworld_games import TextWorldGames

pytestmark = pytest.mark.filterwarnings("ignore")

TASKS = (
    "simple",
    "simple:goal=none,rewards=sparse",
    "coin_collector:4",
    "treasure_hunter:12",
    "cooking:recipe=2,take=1,go=6,open,cook,cut",
    "custom:3,6,3",
)
SHOW = """
from tests.environments.test_textworld_games import transcript
print(*transcript("simple", 5), *transcript("cooking", 5), sep="\\n")
"""


def game(task: str, seed: int = 5) -> tuple[TextWorldGames, str]:
    made = TextWorldGames(TaskRef(environment="textworld", task=task, seed=seed))
    return made, made.reset(seed)


def transcript(task: str, seed: int) -> list[str]:
    """Play a game by its walkthrough, and return all that it says."""
    made, begin = game(task, seed)
    said = [begin, *(made.step(command).observation for command in made.walkthrough)]
    made.close()
    return said


@pytest.mark.parametrize("task", TASKS)
def test_walkthrough_wins(task: str) -> None:
    """A game that is played by its own walkthrough is won, and all its points make 1."""
    made, begin = game(task)

    *steps, last = [made.step(f"Action 1: {command}") for command in made.walkthrough]
    found = made.evaluate(None)

    assert "-= " in begin
    assert "$$" not in begin
    assert not any(step.done for step in steps)
    assert last.done
    assert "*** The End ***" in last.observation
    assert "RESTART" not in last.observation
    assert not any("=-" in step.observation.splitlines()[-1] for step in steps)
    assert sum(step.reward for step in (*steps, last)) == 1.0
    assert (found.reward, found.correct) == (0.0, True)
    assert found.feedback.startswith("The game was won, with ")
    assert made.step("look").observation == "The game is over."
    made.close()


def test_seeds() -> None:
    """A seed makes the same game in any process, and another seed another game."""
    shown = transcript("simple", 5) + transcript("cooking", 5)

    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "\n".join(shown) + "\n"
    assert transcript("cooking", 6) != transcript("cooking", 5)


async def test_rebuilt_by_replay() -> None:
    """Each step on a worker that never saw the game gives what one worker gives."""
    made, _ = game("simple")
    task = TaskRef(environment="textworld", task="simple", seed=5)
    commands = ("look", *made.walkthrough[:3], "inventory")
    once = [made.step(command).observation for command in commands]

    moved = LiveEnvironments([Named("textworld", TextWorldGames)], live=0)
    seen: list[str] = []
    for number, command in enumerate(commands):
        step = ActionTask(
            task=task, key="1", actions=commands[:number], seen=digest_of(seen), action=command
        )
        rebuilt = await moved.take(step)
        seen.append(rebuilt.step(command).observation)  # type: ignore[union-attr]

    assert seen == once
    made.close()


async def test_games_side_by_side() -> None:
    """Games that are made and played at once are those that are made alone."""
    tasks = [("simple", 5), ("simple", 6), ("coin", 5), ("custom:2,3,2", 5)]
    alone = [transcript(*task) for task in tasks]

    together = await asyncio.gather(*(asyncio.to_thread(transcript, *task) for task in tasks))

    assert together == alone


def test_not_won() -> None:
    """A game that is not finished is not won, and its points are told."""
    made, _ = game("simple")

    step = made.step(made.walkthrough[0])
    found = made.evaluate("I think I won")

    assert 0 < step.reward < 1
    assert (found.reward, found.correct) == (0.0, False)
    assert found.feedback == "The game was not finished, with 1 of 7 points."
    made.close()


def test_lost() -> None:
    """A game that is lost is over, and not won."""
    made, _ = game("cooking")
    recipe = made.step("examine cookbook").observation
    fridge = made.step("look").observation
    wanted = recipe.partition("Ingredients:")[2].split("\n\n")[0].strip().lower()
    assert wanted

    made.step(f"take {wanted}")
    made.step("open fridge")
    made.step(f"take {wanted} from fridge")
    last = made.step(f"eat {wanted}")

    assert last.done, (recipe, fridge, last)
    assert not made.evaluate(None).correct
    assert made.evaluate(None).feedback.startswith("The game was lost")
    made.close()


@pytest.mark.parametrize(
    "command",
    ["", "xyzzy", "☃ naïve", "x" * 5_000, "take", "go nowhere", "\x00", "((((", "[answer]"],
)
def test_odd_commands(command: str) -> None:
    """What a game can't do is an observation, and the game goes on."""
    made, _ = game("coin")

    step = made.step(command)

    assert step.observation
    assert (step.reward, step.done) == (0.0, False)
    assert made.step("take coin").done
    made.close()


def test_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game writes no file but its own, which is gone when it is closed."""
    (tmp_path / "work").mkdir()
    (tmp_path / "temp").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    made, _ = game("coin")

    for command in ("save", "SCRIPT", "look. save", "transcript on", "restart", "y", "quit", "y"):
        assert not made.step(command).done
    held = list((tmp_path / "temp").iterdir())
    made.close()

    assert len(held) == 1
    assert not list((tmp_path / "temp").iterdir())
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize(
    ("task", "message"),
    [("coin:301", r"within \[1-300\]"), ("treasure:0", "within"), ("cooking:go=7", "can't make")],
)
def test_impossible_games(task: str, message: str) -> None:
    """A game that TextWorld can't make is refused in its words."""
    with pytest.raises(TaskError, match=message):
        game(task)


async def test_activities_play() -> None:
    """An episode through a worker's cache is evaluated as it was played."""
    live = LiveEnvironments([Named("textworld", TextWorldGames)])
    task = TaskRef(environment="textworld", task="coin:2", seed=1)
    made, begin = await live.make(task)
    assert isinstance(made, TextWorldGames)
    ended = AnswerTask(task=task, key="1", actions=made.walkthrough, answer=None)

    found = (await live.take(ended)).evaluate(None)

    assert "coin" in begin
    assert found.correct  # type: ignore[union-attr]
    with pytest.raises(TaskError, match="not repeatable"):
        await live.take(EpisodeTask(task=task, key="1", actions=("look",), seen="0"))
