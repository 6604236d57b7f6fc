"""`starter.py compare` against a real server and worker process."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Cli
from tests.e2e.measuring.model import NO_KEY, written
from tests.scripted_endpoint import ScriptedEndpoint

QUESTIONS: list[dict[str, str | int]] = [
    {"question": "An easy one: what is 6 times 7?", "gold": 42},
    {"question": "A second look: what is 6 times 7?", "gold": "42"},
    {"question": "Once more, second: what is 6 times 7?", "gold": "42.0"},
    {"question": "Soon spoiled: what is 6 times 7?", "gold": "42"},
]


def compared(cli: Cli, file: str, *arguments: str) -> dict[str, Any]:
    done = cli("compare", file, "--json", "--answers", "number", *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_every_run_of_a_question_has_the_same_seed(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """The first draft is asked for alike by both methods, so that they differ in what follows."""
    file = written(tmp_path / "questions.jsonl", QUESTIONS[0])
    before = len(endpoint.requests)

    compared(cli, file, "--methods", "single,reflect", "--max-revisions", "0", "--seed", "7")

    drafts = [
        each for each in endpoint.requests[before:] if "You judge" not in str(each["messages"])
    ]
    assert [each["seed"] for each in drafts] == [7, 7]
    assert drafts[0]["messages"] == drafts[1]["messages"]
    assert 'End with one line "Answer: "' in drafts[0]["messages"][-1]["content"]


def test_a_run_that_fails_counts_as_wrong(cli: Cli, tmp_path: Path) -> None:
    """Where every run fails the accuracy is 0, the reason is named, and the exit code is 1."""
    file = written(tmp_path / "questions.jsonl", *QUESTIONS)

    done = cli("compare", file, "--model", "anthropic/none", "--methods", "single", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["comparison"]["methods"][0]["accuracy"]["value"] == 0.0
    assert all(each["error"] for each in found["outcomes"])
    assert any("4 runs by single failed, and count as wrong" in each for each in found["warnings"])


def test_each_method_is_held_against_the_right_answers(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """One draft is right on 2 of 4, reflection on 3: two more, and one spoiled; votes on 1.

    A draft, its evaluation, a revision and its evaluation are four times one draft's tokens. The
    same command with the same id shows it again, and pays nothing.
    """
    file = written(tmp_path / "questions.jsonl", *QUESTIONS)
    document = compared(cli, file, "--id", "by-method")
    before = len(endpoint.requests)

    again = cli("compare", file, "--answers", "number", "--id", "by-method")

    found, reflect = document["comparison"], document["comparison"]["paired"][0]
    right = {one["method"]: one["right"] for one in found["methods"]}
    tokens = {one["method"]: one["tokens"]["value"] for one in found["methods"][:2]}
    assert right == {"single": 2, "reflect": 3, "self_consistency": 1}
    assert (reflect["method"], found["baseline"]) == ("reflect", "single")
    assert (reflect["wrong_to_right"], reflect["right_to_wrong"]) == (2, 1)
    assert (tokens, reflect["tokens_change"]) == ({"single": 18.0, "reflect": 72.0}, 300.0)
    assert all(one["seconds"] > 0 for one in document["outcomes"])
    assert (again.returncode, len(endpoint.requests)) == (0, before), again.stderr
    rows = [line.split() for line in again.stdout.splitlines()]
    assert ["single", "4", "50", "%", "15", "to", "85"] in [row[:7] for row in rows]
    assert ["reflect", "+25", "%"] in [row[:3] for row in rows]


def test_a_judge_that_fails_costs_no_answer(cli: Cli, tmp_path: Path) -> None:
    """Reflection then gives its first draft; runs that do not fit a budget are no outcome."""
    file = written(tmp_path / "questions.jsonl", *QUESTIONS)

    found = compared(cli, file, "--methods", "single,reflect", "--judge", NO_KEY)
    short = compared(cli, file, "--methods", "single", "--budget-tokens", "40")

    assert [one["right"] for one in found["comparison"]["methods"]] == [2, 2]
    assert short["comparison"]["methods"][0]["questions"] == short["batch"]["not_started"] == 2
