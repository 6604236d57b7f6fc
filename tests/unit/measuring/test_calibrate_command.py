"""`starter.py calibrate` before anything is started: files, options and the estimate."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands.measuring.batches.spend import price_of
from commands.measuring.judges.labelled import read_examples
from reflection.critique.criteria import PRESETS
from reflection.critique.prompts import build_judge_prompt
from tests.unit.measuring.commands import run

ROOT = Path(__file__).parents[3]
LINE = '{"query": "Why?", "draft": "secret", "label": 1}'


def written(folder: Path, *lines: str) -> str:
    file = folder / "labelled.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("label", "read"),
    [("0.25", 0.25), ("1", 1.0), ("true", 1.0), ("false", 0.0), ('"pass"', 1.0), ('"Fail"', 0.0)],
)
def test_labels(tmp_path: Path, label: str, read: float) -> None:
    """A label is a number from 0 to 1, a truth value, or pass or fail."""
    file = written(tmp_path, f'{{"query": "q", "draft": "d", "label": {label}, "id": 7}}')

    assert [each.label for each in read_examples(Path(file))] == [read]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{secret", "not JSON; each line is one JSON object"),
        ("[" * 100_000, "not JSON"),
        ('["secret"]', "not a JSON object"),
        ('{"draft": "secret", "label": 1}', '"query" is missing'),
        ('{"query": "secret", "draft": "  ", "label": 1}', '"draft" is missing'),
        ('{"query": "q", "draft": "secret"}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": 1.01}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": NaN}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": "good"}', '"label" is not 0 to 1'),
        ('{"query": "q", "draft": "secret", "label": 1, "writer": 3}', '"writer" is missing'),
        (f'{{"query": "q", "draft": "{"secret" * 20_000}", "label": 1}}', "at most 92,857"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(tmp_path: Path, line: str, said: str) -> None:
    """The message says which line and why, and never what stands in it."""
    result = run("calibrate", written(tmp_path, LINE, "", line), "--judge", "a/b")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "line 3: " in result.stderr
    assert said in result.stderr
    assert "secret" not in result.stderr


def test_an_empty_file_is_told_what_to_hold(tmp_path: Path) -> None:
    """The form of a line is shown."""
    result = run("calibrate", written(tmp_path, ""), "--judge", "a/b")

    assert (result.exit_code, "is empty: give it lines like" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name who judges: --judge MODEL"),
        (["--judge", "a", "--judge", "a"], "two of them are the same model"),
        (["--judge", "a", "--criteria", "taste"], "--criteria: one of general"),
        (["--judge", "a", "--html", "/none/such/page.html"], "there is no folder /none/such"),
        (["--judge", "a", "--budget-usd", "0"], "budget_usd: should be greater than 0"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], said: str) -> None:
    """What is wrong is one line and exit code 2, before anything is paid for."""
    result = run("calibrate", written(tmp_path, LINE), *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_too_many_evaluations_are_refused(tmp_path: Path) -> None:
    """501 drafts, each four times, would be more runs than a batch takes."""
    file = written(tmp_path, *[LINE] * 501)

    result = run("calibrate", file, "--judge", "a", "--repeats", "3")

    assert (result.exit_code, "2,004 runs, and at most 2,000" in result.stderr) == (2, True)


def test_the_estimate_is_of_the_very_prompts(tmp_path: Path) -> None:
    """Four characters a token of what the judge is sent, three times, at the listed price."""
    prompt = build_judge_prompt("Why?", "secret", PRESETS["general"], 0.7)
    tokens = 3 * -(-len(prompt) // 4)

    result = run(
        "calibrate", written(tmp_path, LINE), "--judge", "openai/gpt-5-mini", "--estimate", "--json"
    )

    cost = pytest.approx(tokens * 0.25e-6 + 3 * 350 * 2e-6)
    assert json.loads(result.stdout) == {
        "calls": 3,
        "parts": [
            {
                "what": "evaluating",
                "model": "openai/gpt-5-mini",
                "calls": 3,
                "tokens_in": tokens,
                "tokens_out": 1050,
                "cost_usd": cost,
            }
        ],
        "cost_usd": cost,
    }


@pytest.mark.parametrize(
    ("options", "calls"),
    [([], 3), (["--no-position"], 2), (["--repeats", "5", "--no-position"], 5)],
)
def test_how_often_a_draft_is_judged(tmp_path: Path, options: list[str], calls: int) -> None:
    """Twice and once in reverse, unless asked for otherwise."""
    file = written(tmp_path, LINE)

    result = run("calibrate", file, "--judge", "a", "--estimate", "--json", *options)

    assert json.loads(result.stdout)["calls"] == calls


def test_an_unknown_price_is_called_unknown(tmp_path: Path) -> None:
    """The estimate goes to standard error, and does not make up a price."""
    result = run("calibrate", written(tmp_path, LINE), "--judge", "own/model", "--estimate")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "3 calls of own/model, about " in result.stderr
    assert "cost unknown" in result.stderr


@pytest.mark.parametrize(
    ("model", "free", "known"),
    [
        ("gpt-5-mini", False, True),
        ("openai/gpt-5-mini", False, True),
        ("embedded/smollm2-135m", True, True),
        ("own/model", False, False),
        (None, False, False),
    ],
)
def test_prices(model: str | None, free: bool, known: bool) -> None:
    """A name is looked for with its provider and without; the embedded model is free."""
    price = price_of(model)

    assert (price is not None) == known
    assert (price == (0.0, 0.0)) == free


def test_a_price_is_found_without_litellm() -> None:
    """Its packaged list is read as a file: importing it would take seconds."""
    code = (
        "import sys; from commands.measuring.batches.spend import price_of\n"
        "print(price_of('gpt-5-mini') is not None, 'litellm' in sys.modules)"
    )

    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert said.stdout == "True False\n"
