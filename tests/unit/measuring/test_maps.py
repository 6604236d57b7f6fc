"""`replay --calibrate`: a map fitted on half of a log's questions, and measured on the others."""

import json
import re
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from bench.simulated_logs import FAMILIES, log_lines
from commands.measuring.maps import ended_runs, fit_knots, fit_map, least_probability
from commands.measuring.replay import read_recording
from mull.sampling.probability import CalibrationMap, Measured, Setup, Target
from mull.sampling.prompts import hash_prompt
from mull.sampling.replay import recorded
from mull.sampling.rules import Stopping
from tests.unit.measuring.commands import replayed, run, written

THRIFTY = Stopping(preset="thrifty")


@cache
def measured(family: str, questions: int) -> list[Measured]:
    """What maps show on the other halves, of as many random ones."""
    lines = log_lines(FAMILIES[family], questions)
    recordings = [read_recording("number", json.loads(line)) for line in lines]
    runs = ended_runs(recordings, THRIFTY, 10, Random(0))
    setup = Setup(answers="number", stopping=THRIFTY)
    return [fit_map(family, setup, runs, [0.9], seed)[0].measured for seed in range(10)]


LOGS = {"science": 198, "hard": 500, "medicine": 600, "easy": 1_000}


@pytest.mark.parametrize(("family", "questions"), LOGS.items())
def test_a_map_is_better_than_the_share_of_votes(family: str, questions: int) -> None:
    """On questions that were held out it is nearer to being right, by either measure."""
    found = measured(family, questions)

    method = "platt" if questions < 400 else "isotonic"
    sizes = {(one.method, one.questions, one.held_out) for one in found}
    assert sizes == {(method, questions, questions // 2)}
    assert fmean(one.ece for one in found) < 0.7 * fmean(one.ece_raw for one in found)
    assert fmean(one.brier for one in found) < fmean(one.brier_raw for one in found)


def test_a_map_is_calibrated() -> None:
    """Little more than noise is left, and it is small where many questions are held out."""
    found = [one for family, questions in LOGS.items() for one in measured(family, questions)]

    assert fmean(one.ece - one.ece_floor for one in found) <= 0.01
    assert fmean(one.ece for one in found if one.held_out >= 500) <= 0.03


@pytest.mark.parametrize(
    ("groups", "target", "expected"),
    [
        # With 95 % certainty: 58 of 58 are at least 0.9497, and 59 of 59 at least 0.9505.
        ([(0.99, 58, 58)], 0.95, Target()),
        ([(0.99, 59, 59)], 0.95, Target(at_least=0.99, coverage=1.0, accuracy=1.0)),
        # A cut with too few questions to show anything is passed over, and does not end the test.
        ([(0.99, 9, 9), (0.9, 91, 91)], 0.95, Target(at_least=0.9, coverage=1.0, accuracy=1.0)),
        # The first cut that fails ends it, though a lower one would pass.
        ([(0.99, 60, 55), (0.9, 900, 900)], 0.95, Target()),
        ([(0.99, 100, 100), (0.8, 100, 60)], 0.95,
         Target(at_least=0.99, coverage=0.5, accuracy=1.0)),
        # 98 of 100 are at least 0.9385.
        ([(0.99, 100, 98)], 0.938, Target(at_least=0.99, coverage=1.0, accuracy=0.98)),
        ([(0.99, 100, 98)], 0.939, Target()),
    ],
)  # fmt: skip
def test_targets(groups: list[tuple[float, int, int]], target: float, expected: Target) -> None:
    """Cuts are tested from the top down, each for all answers above it."""
    answers = [(chance, place < ok) for chance, size, ok in groups for place in range(size)]

    chances, right = np.array(answers, dtype=float).T

    assert least_probability(chances, right, target) == expected


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("questions", [50, 200])
def test_no_map_says_0_or_1(questions: int, right: bool) -> None:
    """Where all that was seen is right, or wrong, the probability is as sure as the number."""
    knots = fit_knots(np.array([[(3, 3, right)]] * questions, dtype=float))

    assert [knot.share for knot in knots] == [pytest.approx(0.875)]
    missed = 1 - knots[0].probability if right else knots[0].probability
    assert missed == pytest.approx(1 / (questions + 2), rel=0.01)


@pytest.mark.parametrize("questions", [50, 250])
def test_a_map_never_falls(questions: int) -> None:
    """More agreement is never less likely right, though the log says so."""
    runs = np.array([[(3, 3, False)], [(2, 4, True)]] * (questions // 2), dtype=float)

    knots = fit_knots(runs)

    assert {round(knot.probability, 3) for knot in knots} == {0.5}


def test_every_question_weighs_the_same() -> None:
    """An ordering without a readable answer is replaced; unlabelled questions are left out."""
    half = recorded("exact", ["a", *[None] * 9], "a")
    unlabelled, unreadable = recorded("exact", ["a"]), recorded("exact", [None], "a")
    stopping = Stopping(rule="fixed", max_responses=1)

    runs = ended_runs([half, unlabelled, unreadable], stopping, 40, Random(0))

    assert runs.tolist() == [[[1, 1, 1]] * 40]


def test_the_file_and_the_document(tmp_path: Path) -> None:
    """The file keeps what a run must have in common with the log; the document is the numbers."""
    lines = list(log_lines(FAMILIES["easy"], 120))
    lines[0] = lines[0].replace("{", '{"model": "a/b", "temperature": 0.7, ', 1)
    prompt, file = tmp_path / "prompt.txt", tmp_path / "small.json"
    prompt.write_text("Think: {question}", encoding="utf-8")

    options = "--rule predictive --epsilon 0.02 --max-responses 12 --reorderings 4 --target 0.8"
    document = replayed(
        written(tmp_path, *lines), "--calibrate", str(file), "--answers", "number",
        *options.split(), "--target", "0.999", "--prompt-template", str(prompt),
    )  # fmt: skip

    made = CalibrationMap.model_validate_json(file.read_text("utf-8"))
    assert made.measured == Measured.model_validate(document)
    names = "method questions held_out ece ece_raw ece_floor brier brier_raw targets"
    assert list(document) == names.split()
    assert (document["method"], document["questions"], document["held_out"]) == ("platt", 120, 60)
    assert document["targets"]["0.8"]["accuracy"] > 0.8
    assert document["targets"]["0.999"] == {"at_least": None, "coverage": 0.0, "accuracy": None}
    assert (made.name, made.model, made.temperature) == ("small", "a/b", 0.7)
    assert made.prompt_hash == hash_prompt("Think: {question}", "number")
    assert made.answers == "number"
    assert made.stopping == Stopping(rule="predictive", epsilon=0.02, max_responses=12)


def test_the_sheet_and_the_page(tmp_path: Path) -> None:
    """Terminal and page show both numbers beside their floor, and how reliable each bin is."""
    page, file = tmp_path / "page.html", str(tmp_path / "map.json")
    log = written(tmp_path, *log_lines(FAMILIES["easy"], 120))
    options = ("--calibrate", file, "--answers", "number", "--html", str(page), "--target", "0.999")

    result = run("replay", log, *options)

    assert result.exit_code == 0, result.output
    said = "a curve fitted by Platt's method (under 200 questions), of 60 questions, tested on 60"
    assert said in " ".join(result.stdout.split())
    for shown in (
        *("combined, at most 10 answers", "noise alone makes", "99.9 % right", "▇"),
        "not shown for any probability on this map (with 95 % certainty)",
    ):
        assert shown in result.stdout
    assert re.search(r"\d%", result.stdout) is None
    assert "options say model, temperature, prompt_hash" in " ".join(result.stdout.split())
    assert "Reliability of map" in page.read_text("utf-8")


@pytest.mark.parametrize(("tokens", "warned"), [([5] * 16, False), (None, True)])
def test_a_map_of_fixed_in_a_hurry(tmp_path: Path, tokens: list[int] | None, warned: bool) -> None:
    """It counts what comes first, which lines without tokens do not tell: it is said."""
    lines = [json.loads(line) | {"tokens": tokens} for line in log_lines(FAMILIES["easy"], 120)]
    log, file = written(tmp_path, *map(json.dumps, lines)), str(tmp_path / "map.json")

    result = run("replay", log, "--calibrate", file, "--rule", "fixed", "--hurry", "1")

    assert result.exit_code == 0, result.output
    assert ("Without tokens, --hurry counts" in result.stdout) == warned


FIRST = '{"gold": "1", "model": "a/b", "answers": ["1"]}'


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ([FIRST] * 99, ("--calibrate", "map.json"), "a map needs 100 questions"),
        ([FIRST], ("--calibrate", "map.json", "--rule", "beta", "--rule", "fixed"), "one --rule"),
        ([FIRST], ("--calibrate", "map.json", "--model", "c/d"),
         "one model; options and lines say a/b and c/d"),
        ([FIRST], ("--calibrate", "none/map.json"), "there is no folder"),
        ([FIRST], ("--target", "0.9"), "no effect without --calibrate"),
    ],
)  # fmt: skip
def test_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], options: Any, said: str
) -> None:
    """What no map can be made of is said, and nothing is written."""
    file = written(tmp_path, *lines)
    monkeypatch.chdir(tmp_path)

    result = run("replay", file, *options)

    assert (result.exit_code, Path("map.json").exists()) == (2, False)
    assert said in " ".join(result.stderr.split())
