"""What `bench.training` is measured with, and what it prints."""

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import training
from bench.tiny_llama import Turned, is_good, rated_pairs


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


def test_it_prints_quartiles(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the seeds, for each method and way; what learns nothing where it should is told."""

    async def learn(*_: Any) -> tuple[Path, float]:
        return base, 2.0

    monkeypatch.setattr(training, "learn", learn)
    (tmp_path / "base").symlink_to(base)
    asked = argparse.Namespace(
        methods=["rloo"], turned=["none", "random half"], rounds=2, busy=False
    )
    missed = training.compare(tmp_path, asked)

    share, printed = r"0\.\d\d \(quartiles 0\.\d\d to 0\.\d\d\)", capsys.readouterr().out
    for turned in asked.turned:
        assert len(re.findall(rf"rloo +{turned} +[01] +0\.\d\d +0\.\d\d +2\n", printed)) == 2
        assert re.search(rf"rloo +{turned} +after {share}, seconds 2.00 \(", printed)
    assert len(missed) == 2
