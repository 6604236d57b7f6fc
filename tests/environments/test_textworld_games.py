import asyncio
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest

from activities.environments.port import Evaluation, StepResult, TaskError, TaskRef
from activities.environments.process import Apart
from activities.environments.textworld_games import TextWorldGames
from tests.activities.environments.episodes import Episode

pytestmark = pytest.mark.filterwarnings("ignore")

COIN = "coin_collector:2"
COOKING = "cooking:take=1,open,cook,cut"
CUSTOM = "custom:2,3,2"
TASKS = ("simple", COIN, COOKING, CUSTOM)


class Played(NamedTuple):
    """A game that was played by its walkthrough."""

    walkthrough: tuple[str, ...]
    begin: str
    steps: tuple[StepResult, ...]
    found: Evaluation

    @property
    def said(self) -> list[str]:
        return [self.begin, *(step.observation for step in self.steps)]


@cache
def played(task: str) -> Played:
    """Play a game of seed 5 in this process, once."""
    made = TextWorldGames(ref(task))
    begin = made.reset(5)
    steps = tuple(made.step(f"Action 1: {command}") for command in made.walkthrough)
    assert made.step("look").observation == "The game is over."
    return Played(made.walkthrough, begin, steps, made.evaluate(None))


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inform keeps files in the home folder, if there is one: have none, as in a game's process."""
    monkeypatch.delenv("HOME", raising=False)


def ref(task: str, seed: int = 5) -> TaskRef:
    return TaskRef(environment="textworld", task=task, seed=seed)


def apart(task: str, seed: int = 5) -> tuple[Apart, str]:
    made = Apart(TextWorldGames, ref(task, seed))
    return made, made.reset(seed)


def transcript(task: str) -> list[str]:
    """Play a game by its walkthrough in a process of its own, and return all that it says."""
    made, begin = apart(task)
    said = [begin, *(made.step(command).observation for command in played(task).walkthrough)]
    made.close()
    return said


@pytest.mark.parametrize("task", TASKS)
def test_walkthrough_wins(task: str) -> None:
    """A game that is played by its own walkthrough is won, and all its points make 1."""
    _, begin, (*steps, last), found = played(task)

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


async def test_side_by_side() -> None:
    """A seed makes the same game in any process, with others beside it."""
    tasks = (COIN, CUSTOM)
    alone = [played(task).said for task in tasks]

    together = await asyncio.gather(*(asyncio.to_thread(transcript, task) for task in tasks))

    assert together == alone


async def test_rebuilt_by_replay() -> None:
    """Each step on a worker that never saw the game gives what one worker gives."""
    episode = Episode(partial(Apart, TextWorldGames), ref(COIN))
    seen: list[str] = []

    for command in played(COIN).walkthrough:
        episode = episode.moved()
        seen += await episode.see(command)
    found = await episode.evaluate(None)

    assert seen == played(COIN).said[1:]
    assert found.correct


def test_another_seed() -> None:
    """Another seed makes another game."""
    assert TextWorldGames(ref(CUSTOM)).reset(6) != played(CUSTOM).begin


def test_lost() -> None:
    """A game that is lost is over, and not won."""
    made = TextWorldGames(ref(COOKING))
    made.reset(5)
    take = next(command for command in played(COOKING).walkthrough if command.startswith("take"))

    taken = made.step(take)
    last = made.step(f"eat {take.split()[1]}")
    found = made.evaluate(None)

    assert 0 < taken.reward < 1
    assert last.done
    assert not found.correct
    assert found.feedback.startswith("The game was lost, with 1 of ")


def test_odd_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a game can't do is an observation, and it goes on; it leaves no file anywhere."""
    (tmp_path / "work").mkdir()
    (tmp_path / "temp").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    made, _ = apart(COIN)
    odd = ["", "xyzzy", "☃ naïve", "x" * 5_000, "take", "go nowhere", "\x00", "((((", "[answer]"]
    of_interpreter = ["save", "SCRIPT", "look. save", "transcript on", "restart", "quit", "y"]

    for command in (*odd, *of_interpreter):
        step = made.step(command)
        assert step.observation
        assert (step.reward, step.done) == (0.0, False)
    found = made.evaluate("I think I won")
    *_, last = [made.step(command) for command in played(COIN).walkthrough]

    assert "take THING" in made.allowed_actions
    assert (found.reward, found.correct) == (0.0, False)
    assert found.feedback == "The game was not finished, with 0 of 1 points."
    assert last.done
    assert not list(tmp_path.glob("*/*"))
    made.close()


@pytest.mark.parametrize(
    ("task", "message"),
    [("coin:301", r"within \[1-300\]"), ("treasure:0", "within"), ("cooking:go=7", "can't make")],
)
def test_impossible_games(task: str, message: str) -> None:
    """A game that TextWorld can't make is refused in its words."""
    with pytest.raises(TaskError, match=message):
        TextWorldGames(ref(task)).reset(5)
