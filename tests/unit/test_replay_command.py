"""`starter.py replay`: files in, a table or one JSON document out."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from reflection.sampling.rules import Rule
from tests.unit.replaying import UNANIMOUS, run, written

SPLIT = '{"id": 2, "gold": 5, "answers": ["5", "6", "5", "6", "5", "6", null, "5", "6", "6", "5"]}'
JUDGED = '{"id": 3, "gold": null, "answers": ["a", "b", "a"], "ok": [0, 1, 0]}'
UNKNOWN = '{"id": 4, "gold": null, "answers": ["a", "b", "a"]}'


def as_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


def test_json_for_a_machine(tmp_path: Path) -> None:
    """`--json` writes one document with exactly these fields, and nothing to standard error."""
    file = written(tmp_path, UNANIMOUS)

    result = run(file, "--rule", "combined", "--rule", "predictive", "--json")

    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    ends = document["rules"]["combined"].pop("accuracy_ci")
    assert ends == document["rules"]["predictive"].pop("accuracy_ci")
    assert ends == pytest.approx([0.2065, 1.0], abs=1e-4)
    assert document == {
        "questions": 1,
        "rules": {
            "combined": {
                "calls": 5.0,
                "rounds": 1.0,
                "accuracy": 1.0,
                "saved": 0.5,
                "pareto": False,
            },
            "predictive": {
                "calls": 3.0,
                "rounds": 1.0,
                "accuracy": 1.0,
                "saved": 0.7,
                "pareto": True,
            },
        },
    }


def test_every_rule_by_default(tmp_path: Path) -> None:
    """Without `--rule` every rule there is gets replayed."""
    found = as_json(written(tmp_path, UNANIMOUS))

    assert set(found["rules"]) == set(get_args(Rule))


def test_the_recorded_order_first(tmp_path: Path) -> None:
    """One reordering is the recorded order: 5-4 after ten answers, of which one is unreadable."""
    file = written(tmp_path, SPLIT)

    found = as_json(file, "--reorderings", "1", "--rule", "fixed", "--answers", "number")

    assert found["rules"]["fixed"]["accuracy"] == 0.0
    assert found["rules"]["fixed"]["calls"] == 10.0


def test_a_seed_repeats(tmp_path: Path) -> None:
    """The same seed gives the same numbers, and other seeds give others."""
    file = written(tmp_path, SPLIT, UNANIMOUS)

    found = [as_json(file, "--seed", seed) for seed in ("0", "0", "1", "2")]

    assert found[0] == found[1]
    assert found[2] != found[0] or found[3] != found[0]


def test_a_repeated_rule(tmp_path: Path) -> None:
    """A rule that is named twice is replayed once."""
    found = as_json(written(tmp_path, UNANIMOUS), "--rule", "beta", "--rule", "beta")

    assert list(found["rules"]) == ["beta"]


def test_gold_as_a_number(tmp_path: Path) -> None:
    """Gold and answers may be JSON numbers, which keep the digits they are written with."""
    file = written(tmp_path, '{"gold": 0.10, "answers": [0.10, 0.1]}')

    found = as_json(file, "--rule", "fixed", "--reorderings", "1")

    assert found["rules"]["fixed"]["accuracy"] == 1.0


@pytest.mark.parametrize("ok", ["[0, 1, 0]", "[0.0, 1.0, 0.0]", "[false, true, false]"])
def test_ok_in_the_place_of_gold(tmp_path: Path, ok: str) -> None:
    """`ok` says of each answer whether it is right, also as a fraction or a truth value."""
    file = written(tmp_path, JUDGED.replace("[0, 1, 0]", ok))

    found = as_json(file, "--rule", "fixed", "--reorderings", "1")

    assert found["rules"]["fixed"]["accuracy"] == 0.0


def test_nobody_knows_what_is_right(tmp_path: Path) -> None:
    """Without gold and ok the accuracy, its interval and the Pareto front are null."""
    found = as_json(written(tmp_path, UNKNOWN), "--rule", "fixed")

    assert found["rules"]["fixed"] == {
        "calls": 3.0,
        "rounds": 1.0,
        "accuracy": None,
        "accuracy_ci": None,
        "saved": 0.0,
        "pareto": None,
    }


def test_the_table(tmp_path: Path) -> None:
    """The table is sorted by calls, marks the Pareto front, and says what was left out."""
    file = written(tmp_path, UNANIMOUS, UNKNOWN)

    result = run(file, "--rule", "fixed", "--rule", "predictive")

    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert lines[0][:5] == ["rule", "calls", "rounds", "saved", "accuracy"]
    assert lines[2] == [
        "predictive",
        "3.00",
        "1.00",
        "53.8%",
        "100.00%",
        "20.7%",
        "to",
        "100.0%",
        "*",
    ]
    assert lines[3] == ["fixed", "6.50", "1.00", "0.0%", "100.00%", "20.7%", "to", "100.0%"]
    assert "1 have fewer than 10 answers: runs end with these." in result.stdout
    assert "1 have neither gold nor ok, and count for no accuracy." in result.stdout
    assert result.stderr == ""


def test_no_colour_without_a_terminal(tmp_path: Path) -> None:
    """Where standard output is no terminal there is no escape sequence in it."""
    result = run(written(tmp_path, UNANIMOUS))

    assert "\x1b" not in result.stdout


def test_help_has_examples() -> None:
    """The help shows how the command is used."""
    result = run("--help")

    assert result.exit_code == 0
    assert "starter.py replay answers.jsonl --answers number" in result.stdout
