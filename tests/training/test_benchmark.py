"""What `bench.training` is measured with, and what it prints."""

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import training
from bench.hints import puzzle
from bench.tiny_llama import Turned, is_good, rated_pairs
from bench.training import Learned, measured
from mull.agents.training_result import StageResult


@pytest.mark.parametrize(
    ("turned", "count"), [("none", 0), ("every other", 95), ("random half", 96)]
)
def test_it_says_whose_gains_are_turned(turned: Turned, count: int) -> None:
    """Half at random leave some words right more often than wrong; every other pair leaves none."""
    begun, wrong = Counter[str](), Counter[str]()
    for pair in rated_pairs(192, 0, turned=turned):
        words = " ".join(sorted(item.reflection.split()[0] for item in pair.tried))
        begun[words] += 1
        wrong[words] += [item.rewards for item in pair.tried if is_good(item.reflection)] == [0.0]

    assert wrong.total() == count
    even = all(wrong[words] == whole // 2 for words, whole in begun.items())
    assert even == (turned == "every other")


def test_gains_are_turned_among_pairs_held_out_too() -> None:
    """Of the pairs held out, and of the others, half of those with the same words, but for one."""
    held, wrong, begun = range(0, 240, 5), Counter[tuple[bool, str]](), Counter[tuple[bool, str]]()
    for number, pair in enumerate(rated_pairs(240, 0, turned="every other", held_out=held)):
        assert pair.held_out == (number in held)
        words = " ".join(sorted(item.reflection.split()[0] for item in pair.tried))
        begun[pair.held_out, words] += 1
        right = [item.rewards for item in pair.tried if is_good(item.reflection)]
        wrong[pair.held_out, words] += right == [0.0]

    assert {held for held, _ in begun} == {True, False}
    assert all(wrong[alike] == count // 2 for alike, count in begun.items())


def test_tasks_of_a_file_are_split_in_its_order(tmp_path: Path) -> None:
    """It learns from the first fifty, and is measured on the rest three times each."""
    file, tasks = tmp_path / "tasks.jsonl", [puzzle(f"task-{number}") for number in range(60)]
    lines = [json.dumps(task._asdict()) for task in tasks]
    puzzles = training.Puzzles(file, None, "ordered")
    file.write_text("\n".join(lines))

    learned, others = training.to_learn(puzzles)

    assert [task.told for task in learned.values()] == [task.told for task in tasks[:50]]
    assert [task.told for task in others["others"]] == 3 * [task.told for task in tasks[50:]]
    file.write_text("\n".join(lines[:59]))
    with pytest.raises(SystemExit, match="has 59 tasks: give 60 or more"):
        training.to_learn(puzzles)


def test_it_prints_quartiles(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the seeds, for each method and way; what learns nothing where it should is told."""

    async def learn(*_: Any) -> Learned:
        return Learned(base, 2.0, {})

    monkeypatch.setattr(training, "learn", learn)
    (tmp_path / "base").symlink_to(base)
    asked = argparse.Namespace(
        methods=["rloo"], turned=["none", "random half"], rounds=2, busy=False
    )
    missed = training.compare(tmp_path, asked)

    share, printed = r"0\.\d\d \(quartiles 0\.\d\d to 0\.\d\d\)", capsys.readouterr().out
    for turned in asked.turned:
        row = rf"rloo +{turned} +[01] +0\.\d\d +0\.\d\d +no_signal +2\n"
        assert len(re.findall(row, printed)) == 2
        assert re.search(rf"rloo +{turned} +after {share}, seconds 2.00 \(", printed)
    assert len(missed) == 2


@pytest.mark.parametrize(
    ("after", "right", "ended"),
    [(0.6, 40, "trained"), (0.6, 27, "no_signal"), (0.52, 40, "no_signal")],
)
def test_it_says_how_a_training_ends(after: float, right: int, ended: str) -> None:
    """Without a signal where the gain is within its error, or the reward model near chance."""
    rewarding = StageResult(
        folder="r", steps=1, examples=1, seconds=1, device="CPU", tested=48, right=right
    )
    learned = Learned(Path("r"), 2.0, {"reward_model": rewarding})

    assert training.ending(measured(0.5, 400), measured(after, 400), learned) == ended


def test_it_counts_kills(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stage that is killed at a random moment has the same weights, whatever it did then."""
    monkeypatch.setattr(training, "PAIRS", 48)
    missed = training.kill(tmp_path, base, argparse.Namespace(methods=[], kills=1))

    assert missed == []
    assert re.search(r"reward_model +1 +[01] +[01] +0\n", capsys.readouterr().out)
