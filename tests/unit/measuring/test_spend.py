"""The estimate of what a measuring command will cost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands.measuring.plans import price_of
from reflection.critique.criteria import PRESETS
from reflection.critique.prompts import build_judge_prompt
from tests.unit.measuring.commands import run, written

ROOT = Path(__file__).parents[3]
LABELLED = '{"query": "Why?", "draft": "Because.", "label": 1}'
QUESTION = '{"question": "6 times 7?", "gold": "42"}'


def test_the_estimate_is_of_the_very_prompts(tmp_path: Path) -> None:
    """Four characters a token of what the judge is sent, three times, at the listed price."""
    prompt = build_judge_prompt("Why?", "Because.", PRESETS["general"], 0.7)
    tokens = 3 * -(-len(prompt) // 4)
    judge = ("--judge", "openai/gpt-5-mini")

    result = run("calibrate", written(tmp_path, LABELLED), *judge, "--estimate", "--json")

    cost = pytest.approx(tokens * 0.25e-6 + 3 * 350 * 2e-6)
    part = {
        "what": "evaluating",
        "model": "openai/gpt-5-mini",
        "calls": 3,
        "tokens_in": tokens,
        "tokens_out": 1050,
        "cost_usd": cost,
    }
    assert json.loads(result.stdout) == {"calls": 3, "parts": [part], "cost_usd": cost}


@pytest.mark.parametrize(
    ("line", "options", "calls"),
    [
        # A draft is judged twice and once in reverse, unless asked for otherwise.
        (LABELLED, ["--judge", "a"], {"evaluating": 3}),
        (LABELLED, ["--judge", "a", "--no-position"], {"evaluating": 2}),
        (LABELLED, ["--judge", "a", "--repeats", "5", "--no-position"], {"evaluating": 5}),
        # Each revision brings a draft and its evaluation; without gold each answer is scored.
        (
            QUESTION,
            [],
            {
                "single": 1,
                "reflect, writing": 2,
                "reflect, judging": 2,
                "self_consistency": 10,
            },
        ),
        (
            QUESTION,
            ["--methods", "reflect", "--max-revisions", "2"],
            {"reflect, writing": 3, "reflect, judging": 3},
        ),
        (QUESTION, ["--methods", "self_consistency", "--max-responses", "3"],
         {"self_consistency": 3}),
        ('{"question": "q"}', ["--methods", "single"], {"single": 1, "scoring": 1}),
    ],
)  # fmt: skip
def test_the_estimate_has_every_call_that_may_be_made(
    tmp_path: Path, line: str, options: list[str], calls: dict[str, int]
) -> None:
    """What may be asked at most is counted for each part."""
    command = "calibrate" if line == LABELLED else "compare"

    result = run(command, written(tmp_path, line), "--estimate", "--json", *options)

    assert {one["what"]: one["calls"] for one in json.loads(result.stdout)["parts"]} == calls


def test_an_unknown_price_is_called_unknown(tmp_path: Path) -> None:
    """The estimate goes to standard error, and does not make up a price."""
    result = run("calibrate", written(tmp_path, LABELLED), "--judge", "own/model", "--estimate")

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
        "import sys; from commands.measuring.plans import price_of\n"
        "print(price_of('gpt-5-mini') is not None, 'litellm' in sys.modules)"
    )

    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert said.stdout == "True False\n"


def test_the_command_line_starts_without_numpy() -> None:
    """What measures is imported when it is asked for: --help answers in half a second."""
    code = "import sys, starter; print(sorted({'numpy', 'scipy', 'temporalio'} & {*sys.modules}))"

    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert said.stdout == "[]\n"
