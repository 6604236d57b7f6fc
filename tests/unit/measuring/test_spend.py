"""The estimate of what a measuring command will cost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands.plans import price_of
from mull.critique.criteria import PRESETS
from mull.critique.prompts import build_judge_prompt
from tests.unit.measuring.commands import run, written

ROOT = Path(__file__).parents[3]
STARTING = ("ask", "reflect", "agent", "turn", "batch", "reflexion", "retroformer", "train")
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
        "what": "evaluating", "model": "openai/gpt-5-mini", "calls": 3, "tokens_in": tokens,
        "tokens_out": 1050, "cost_usd": cost,
    }  # fmt: skip
    assert json.loads(result.stdout) == {"calls": 3, "parts": [part], "cost_usd": cost}


@pytest.mark.parametrize(
    ("line", "options", "calls"),
    [
        # A draft is judged twice and once in reverse, unless asked for otherwise.
        (LABELLED, ["--judge", "a"], {"evaluating": 3}),
        (LABELLED, ["--judge", "a", "--no-position"], {"evaluating": 2}),
        (LABELLED, ["--judge", "a", "--repeats", "5", "--no-position"], {"evaluating": 5}),
        # Each revision brings a draft and its evaluation.
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
        (QUESTION, ["--methods", "reflect", "--max-revisions", "2"],
         {"reflect, writing": 3, "reflect, judging": 3}),
        (QUESTION, ["--methods", "self_consistency", "--max-responses", "3"],
         {"self_consistency": 3}),
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
    ("model", "price"),
    [
        ("gpt-5-mini", (0.25e-6, 2e-6)),
        ("openai/gpt-5-mini", (0.25e-6, 2e-6)),
        ("embedded/smollm2-135m", (0.0, 0.0)),
        ("own/model", None),
        (None, None),
    ],
)
def test_prices(model: str | None, price: tuple[float, float] | None) -> None:
    """A name is looked for with its provider and without; the embedded model is free."""
    assert price_of(model) == (price and pytest.approx(price))


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"numpy", "scipy", "temporalio", "pydantic"}),
        *(([name, "--help"], {"numpy", "scipy", "temporalio"}) for name in STARTING),
        (["calibrate", "/none.jsonl"], {"numpy", "scipy", "temporalio"}),
        (["compare", "/none.jsonl"], {"numpy", "scipy", "temporalio"}),
    ],
)
def test_a_wrong_usage_does_not_pay_for_what_measures(
    arguments: list[str], absent: set[str]
) -> None:
    """What measures, or talks to the server, is imported once it is needed, and LiteLLM never."""
    code = (
        "import sys, starter; starter.main()\n"
        f"print('absent', not {absent | {'litellm'}} & {{*sys.modules}})"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.endswith("absent True\n")
