"""`starter.py calibrate` against a real server and worker process: its numbers."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Cli
from tests.e2e.measuring.model import (
    ALONE,
    EXAMPLES,
    FIRST_LIKED,
    JUDGE,
    NO_KEY,
    calibrated,
    written,
)
from tests.scripted_endpoint import ScriptedEndpoint


def test_a_judge_that_agrees_with_the_labels(cli: Cli, tmp_path: Path) -> None:
    """Its order is theirs, a threshold between 0.3 and 0.6 tells passes from fails."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)

    found = calibrated(cli, file, "--judge", JUDGE, "--no-guardrails")

    judge = found["judges"][0]
    assert (judge["judge"], judge["evaluated"], judge["failed_evaluations"]) == (JUDGE, 6, 0)
    assert (judge["auc"]["value"], judge["recommended"]["accuracy"]) == (1.0, 1.0)
    assert judge["recommended"]["threshold"] == pytest.approx(0.45)
    assert judge["at_source"]["accuracy"] == pytest.approx(5 / 6)
    assert judge["repeatability"] == {
        "examples": 6,
        "threshold": pytest.approx(0.45),
        "deviation": 0.0,
        "same_verdict": 1.0,
    }
    assert judge["self_preference"]["value"] is not None


def test_each_draft_is_judged_as_often_as_asked(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """Twice in order and once in reverse is the default: 18 calls for 6 drafts, all in the JSON."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    before = len(endpoint.requests)

    found = calibrated(cli, file, "--judge", JUDGE)

    assert len(endpoint.requests) - before == 18
    rows = [(each["example"], each["repeat"], each["reversed"]) for each in found["evaluations"]]
    assert sorted(rows) == sorted(
        (place, *kind) for place in range(6) for kind in [(0, False), (1, False), (0, True)]
    )
    assert {each["label"] for each in found["evaluations"]} == {0.0, 0.1, 1.0}


def test_position_bias_is_found(cli: Cli, tmp_path: Path) -> None:
    """A judge that gives the first criterion 0.1 more favours earlier criteria by 0.1."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[1:])

    found = calibrated(cli, file, "--judge", FIRST_LIKED, "--judge", JUDGE, "--no-guardrails")

    bias = [each["position_bias"]["value"] for each in found["judges"]]
    assert [each["judge"] for each in found["judges"]] == [FIRST_LIKED, JUDGE]
    assert bias == [pytest.approx(0.1), 0.0]


def test_guardrails_cap_scores_as_in_the_loop(cli: Cli, tmp_path: Path) -> None:
    """A high score of a short draft is capped, and the judge's own is beside it."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[:2])

    found = calibrated(cli, file, "--judge", JUDGE, "--no-position", "--repeats", "1")

    first = found["evaluations"][0]
    assert (first["score"], first["judged"], first["guardrails"]) == (0.5, 0.9, ["too_short"])
    assert any("Guardrails (too_short) capped" in each for each in found["warnings"])


def test_an_unreadable_judge_is_no_score(cli: Cli, tmp_path: Path) -> None:
    """An evaluation that fails is counted, and makes no number."""
    unread = {"query": "Why?", "draft": "Because.", "label": 1}
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES, unread)

    found = calibrated(cli, file, "--judge", JUDGE, *ALONE)

    judge = found["judges"][0]
    assert (judge["evaluated"], judge["failed"], judge["failed_evaluations"]) == (6, 1, 1)
    assert found["evaluations"][-1]["score"] is None
    assert found["evaluations"][-1]["error"]


def test_where_every_evaluation_fails_the_exit_code_is_1(cli: Cli, tmp_path: Path) -> None:
    """A key that is refused leaves no score; the table says why, and the key stands nowhere."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[:2])

    done = cli("calibrate", file, "--judge", NO_KEY, *ALONE)

    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "2 evaluations by openai/no-key failed: openai/no-key: AuthenticationError" in said
    assert "sk-secret" not in done.stdout + done.stderr


def test_what_a_budget_leaves_out_is_said(cli: Cli, tmp_path: Path) -> None:
    """With room for three evaluations of 18 tokens, three are not made."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)

    found = calibrated(cli, file, "--judge", JUDGE, "--budget-tokens", "60", *ALONE)

    assert (found["batch"]["completed"], found["batch"]["not_started"]) == (3, 3)
    assert any("3 evaluations not made: " in each for each in found["warnings"])
    assert found["judges"][0]["examples"] == 3


def test_the_table_and_the_page(cli: Cli, tmp_path: Path) -> None:
    """Results go to standard output, the estimate to standard error, the diagram to the page."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    page = tmp_path / "page.html"

    done = cli("calibrate", file, "--judge", JUDGE, "--html", str(page), *ALONE)

    assert done.returncode == 0, done.stderr
    assert "Spearman's rank correlation" in done.stdout
    assert "6 scored examples, of 6, are few" in done.stdout
    assert "estimate: evaluating: 6 calls of openai/judge, about " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    text = page.read_text()
    assert '<title id="reliability-1">The reliability of openai/judge</title>' in text
    assert "Because" not in text


def test_without_a_server_the_exit_code_is_3(cli: Cli, tmp_path: Path) -> None:
    """It says so in two lines, and how to get one."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)

    done = cli("calibrate", file, "--judge", JUDGE, TEMPORAL_ADDRESS="127.0.0.1:9")

    assert (done.returncode, done.stdout) == (3, "")
    assert "no Temporal server answers at 127.0.0.1:9" in done.stderr
