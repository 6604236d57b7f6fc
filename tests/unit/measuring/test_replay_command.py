"""`starter.py replay`: files in, a sheet or one JSON document out."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from commands.measuring.replay import sheet_of
from mull.sampling.rules import Rule
from tests.unit.measuring.commands import replayed, run, written

UNANIMOUS = '{"id": 1, "gold": "4", "answers": ["4", "4", "4", "4", "4", "4", "4", "4", "4", "4"]}'
SPLIT = '{"id": 2, "gold": 5, "answers": ["5", "6", "5", "6", "5", "6", null, "5", "6", "6", "5"]}'
JUDGED = '{"id": 3, "gold": null, "answers": ["a", "b", "a"], "ok": [0, 1, 0]}'
UNKNOWN = '{"id": 4, "gold": null, "answers": ["a", "b", "a"]}'


def test_json_for_a_machine(tmp_path: Path) -> None:
    """`--json` writes one document with exactly these fields."""
    document = replayed(written(tmp_path, UNANIMOUS), "--rule", "combined", "--rule", "predictive")

    ends = document["rules"]["combined"].pop("accuracy_ci")
    assert ends == document["rules"]["predictive"].pop("accuracy_ci")
    assert ends == pytest.approx([0.2065, 1.0], abs=1e-4)
    known = {"rounds": 1.0, "accuracy": 1.0, "tokens": None, "latency": None}
    assert document == {
        "questions": 1,
        "rules": {
            "combined": {"calls": 5.0, "saved": 0.5, "pareto": False, **known},
            "predictive": {"calls": 3.0, "saved": 0.7, "pareto": True, **known},
        },
    }


@pytest.mark.parametrize(
    ("line", "kind", "accuracy"),
    [
        # The recorded order: 5-4 after ten answers, of which one is unreadable.
        (SPLIT, "number", 0.0),
        # Gold and answers may be JSON numbers, which keep the digits they are written with.
        ('{"gold": 0.10, "answers": [0.10, 0.1]}', "exact", 1.0),
        # `ok` says of each answer whether it is right, also as a fraction or a truth value.
        (JUDGED, "exact", 0.0),
        (JUDGED.replace("[0, 1, 0]", "[0.0, 1.0, 0.0]"), "exact", 0.0),
        (JUDGED.replace("[0, 1, 0]", "[false, true, false]"), "exact", 0.0),
    ],
)
def test_what_is_right(tmp_path: Path, line: str, kind: str, accuracy: float) -> None:
    """One ordering of all answers is right or wrong, by gold or by `ok`."""
    options = ("--rule", "fixed", "--reorderings", "1", "--answers", kind)

    assert replayed(written(tmp_path, line), *options)["rules"]["fixed"]["accuracy"] == accuracy


def test_the_document_alone_makes_the_sheet(tmp_path: Path) -> None:
    """With its remarks, and a curve of what calls buy where there are three rules or more."""
    document = replayed(written(tmp_path, UNANIMOUS, UNKNOWN), "--answers", "text")

    sheet = sheet_of(json.loads(json.dumps(document)))

    assert [table.title for table in sheet.tables] == ["Rules"]
    assert len(sheet.tables[0].rows) == len(get_args(Rule))
    assert sheet.flags[-1] == "1 have neither gold nor ok, and do not count for the accuracy."
    accuracy, saved = sheet.charts[0].curves
    assert len(accuracy.points) == len(saved.points) == len(get_args(Rule))
    assert sheet.charts[0].places == tuple(row[0] for row in sheet.tables[0].rows)


NUMBERS = '{"gold": "4", "answers": ["$4.00", "4", "5"], "kind": "number"}'
TEXTS = '{"gold": "Paris", "answers": ["PARIS", "paris", "Rome"], "kind": "text"}'


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ([NUMBERS], [], 1.0),
        ([NUMBERS], ["--answers", "exact"], 0.0),
        ([NUMBERS.replace("number", "llm")], [], "number, choice (llm needs a model)"),
        ([NUMBERS, TEXTS], [], "expected one kind of answers, or --answers; options and lines"),
        ([NUMBERS, TEXTS], ["--answers", "text"], 0.5),
        ([NUMBERS, NUMBERS.replace(', "kind": "number"', "")], [], 1.0),
    ],
)
def test_lines_say_how_answers_are_compared(
    tmp_path: Path, lines: list[str], options: list[str], said: Any
) -> None:
    """An option that is given wins; several kinds in one file are refused."""
    chosen = ("--rule", "fixed", "--reorderings", "1", *options)
    file = written(tmp_path, *lines)

    if isinstance(said, float):
        assert replayed(file, *chosen)["rules"]["fixed"]["accuracy"] == said
    else:
        result = run("replay", file, *chosen)
        assert (result.exit_code, said in result.stderr) == (2, True)


def test_the_table(tmp_path: Path) -> None:
    """The table is sorted by calls, marks the Pareto front, and says what was left out."""
    file = written(tmp_path, UNANIMOUS, UNKNOWN)

    result = run("replay", file, "--rule", "fixed", "--rule", "predictive")

    rows = [line.split() for line in result.stdout.splitlines() if line.strip()]
    ranked = [row for row in rows if row[0] in {"predictive", "fixed"}]
    shares = ["100.00", "%", "20.7", "to", "100.0"]
    assert ranked[0] == ["predictive", "3.00", "1.00", "53.8", "%", *shares, "*"]
    assert ranked[1] == ["fixed", "6.50", "1.00", "0.0", "%", *shares]
    assert "1 have fewer than 10 answers: their runs end early." in result.stdout
    assert "1 have neither gold nor ok, and do not count for the accuracy." in result.stdout
    assert "a round is up to 16 calls at once" in result.stdout
    assert (result.stderr, "\x1b" in result.stdout) == ("", False)


@pytest.mark.parametrize(
    ("options", "rules"),
    [([], set(get_args(Rule))), (["--rule", "beta", "--rule", "beta"], {"beta"})],
)
def test_rules(tmp_path: Path, options: list[str], rules: set[str]) -> None:
    """Every rule is replayed by default, and one that is named twice once."""
    found = replayed(written(tmp_path, UNKNOWN), *options)["rules"]

    assert set(found) == rules
    assert {one["accuracy"] for one in found.values()} == {None}


def test_lengths_of_answers(tmp_path: Path) -> None:
    """Where lines carry tokens, the table has tokens and latency; a wrong number is refused."""
    line = '{"gold": "1", "answers": ["1", "1", "1"], "tokens": [10, 30, 20]}'
    file = written(tmp_path, line)

    table = run("replay", file, "--rule", "predictive").stdout
    short = run("replay", written(tmp_path, line.replace("[10, ", "[")))

    assert "tokens" in table
    assert "latency" in table
    assert [cell for cell in table.split() if cell in {"60", "30"}] == ["60", "30"]
    assert (short.exit_code, "2 values in tokens for 3 answers" in short.stderr) == (2, True)


def test_a_cascade_of_two_models(tmp_path: Path) -> None:
    """Where three answers of one model agree they are taken, and else the other model is asked."""
    small = (["4", "4", "4"], ["5", "5", "5"], ["4", "5", "4"], ["4", None, "4"])
    large = (["4", "4", "4"], ["4", "4", "4"], ["4", "4", "4"], ["5", "5", "5"])
    lines = [
        {"id": at, "model": model, "gold": "4", "answers": said, "tokens": [tokens] * 3}
        for model, tokens, asked in (("small", 10, small), ("large", 100, large))
        for at, said in enumerate(asked)
    ]
    file = written(tmp_path, *map(json.dumps, lines))

    document = replayed(file, "--rule", "fixed", "--max-responses", "3", "--reorderings", "1")
    shown = run("replay", file, "--rule", "fixed", "--max-responses", "3").stdout

    found, other = document["cascades"]
    assert (found["first"], found["second"], found["questions"]) == ("small", "large", 4)
    assert (found["passed_on"], found["lost"]) == (0.5, 0.25)
    assert found["lost_ci"] == pytest.approx([0.25 - 0.49, 0.25 + 0.49], abs=1e-3)
    assert [found["cascade"][name] for name in ("calls", "tokens", "accuracy")] == [4.5, 180, 0.5]
    assert [found["alone"][name] for name in ("calls", "tokens", "accuracy")] == [3, 300, 0.75]
    assert (other["first"], other["passed_on"], other["lost"]) == ("large", 0.0, 0.0)
    assert "4.5 / 3" in shown


def test_a_log_of_one_model_has_no_cascade(tmp_path: Path) -> None:
    """Nor has one whose models answered other questions."""
    lines = [UNANIMOUS, SPLIT]
    named = [json.dumps(json.loads(line) | {"model": f"m{at}"}) for at, line in enumerate(lines)]

    assert "cascades" not in replayed(written(tmp_path, *lines))
    assert "cascades" not in replayed(written(tmp_path, *named))
