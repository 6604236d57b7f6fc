"""Reviewing a result that waits for a person, from the command line."""

import json

import pytest

from tests.e2e.conftest import Cli, until_waiting
from tests.e2e.model import REVISES_SLOWLY, SPLIT, STAYS_LOW
from tests.patience import patiently

QUERY = "Compare Kafka and Pulsar for an audit log."
LOW = ("--complexity", "1", "--no-guardrails", "--seed", str(STAYS_LOW), "--review-below", "0.6")


@pytest.fixture
def run(cli: Cli) -> str:
    started = cli("reflect", QUERY, *LOW, "--detach")
    assert started.returncode == 0, started.stderr
    chosen = started.stdout.strip()
    until_waiting(cli, chosen)
    return chosen


def test_what_waits_is_shown_and_marked_in_the_list(cli: Cli, run: str) -> None:
    shown, standing = cli("review", run), cli("show", run)
    document = json.loads(cli("review", run, "--json").stdout)

    assert "Draft 2, worth 0.45." in shown.stdout
    assert "Say which release is meant." in shown.stdout
    assert "It waits without a time limit." in shown.stderr
    assert f"mull review {run} --accept" in shown.stderr
    assert standing.stderr == f"To look at it and decide:\n    mull review {run}\n"
    assert (document["id"], document["review_until"]) == (run, None)
    assert document["draft"]["text"] == "Draft 2, worth 0.45."
    assert document["actions"] == ["accept", "revise", "replace", "score"]
    for _ in patiently():
        rows = json.loads(cli("list", "--json").stdout)["runs"]
        row = next((each for each in rows if each["id"] == run), None)
        if row and row["MullNeedsReview"]:
            break
    assert row is not None
    assert row["MullNeedsReview"] is True
    assert "needs review" in cli("list").stdout
    assert cli("cancel", run).returncode == 0


@pytest.mark.parametrize(
    ("options", "reason", "draft"),
    [
        (["--accept"], "accepted_by_person", "Draft 2, worth 0.45."),
        (["--score", "0.8"], "scored_by_person", "Draft 2, worth 0.45."),
        (["--replace", "-"], "replaced_by_person", "Mine."),
    ],
)
def test_a_person_decides(cli: Cli, run: str, options: list[str], reason: str, draft: str) -> None:
    said = cli("review", run, *options, "--author", "ann", stdin="Mine.")
    result = json.loads(cli("watch", run, "--json").stdout)

    assert said.returncode == 0, said.stderr
    assert (result["stop_reason"], result["draft"]) == (reason, draft)
    assert result["decisions"][-1]["author"] == "ann"


def test_a_person_asks_for_a_revision(cli: Cli, run: str) -> None:
    said = cli("review", run, "--revise", "Name the license of each.")
    for _ in patiently():
        waits = cli("review", run, "--json")
        if waits.returncode == 0 and "Draft 3" in waits.stdout:
            break

    assert said.returncode == 0, said.stderr
    assert json.loads(waits.stdout)["draft"]["text"] == "Draft 3, worth 0.5."
    assert cli("finish", run).returncode == 0


def test_whoever_follows_is_told_the_command(cli: Cli) -> None:
    done = cli("reflect", QUERY, *LOW, "--review-timeout", "3", "--id", "timed")

    assert (done.returncode, done.stdout) == (0, "Draft 2, worth 0.45.")
    assert "waits for a person until 2" in done.stderr
    assert "UTC:\n    mull review timed\n" in done.stderr
    assert "(review_timeout)" in done.stderr


def test_a_run_that_does_not_wait_says_so(cli: Cli) -> None:
    known = ("--complexity", "1", "--no-guardrails", "--seed", str(REVISES_SLOWLY))
    run = cli("reflect", QUERY, *known, "--detach").stdout.strip()

    shown, said = cli("review", run), cli("review", run, "--accept")
    standing = cli("show", run)
    cli("cancel", run)
    cli("watch", run)
    ended = cli("review", run, "--accept")

    assert shown.returncode == said.returncode == ended.returncode == 2
    assert "the run is not waiting for a review" in shown.stderr
    assert "mull review" not in standing.stderr
    assert "refused: the run is not waiting for a review" in said.stderr
    assert "the run has already ended (cancelled" in ended.stderr


@pytest.mark.parametrize(
    ("options", "reason", "answer"),
    [
        (["--accept"], "accepted_by_person", "1000"),
        (["--replace", "-"], "replaced_by_person", "129"),
    ],
)
def test_an_uncertain_answer_is_accepted_or_replaced(
    cli: Cli, options: list[str], reason: str, answer: str
) -> None:
    """`ask --review-when high` waits for a person too, who can't score or revise an answer."""
    asked = ("How much?", "--seed", str(SPLIT), "--review-when", "high")
    run = cli("ask", *asked, "--detach").stdout.strip()
    waits = until_waiting(cli, run)
    shown = waits.stdout + waits.stderr

    refused = cli("review", run, "--score", "0.5")
    said = cli("review", run, *options, "--author", "ann", stdin="129\n")
    watched = cli("watch", run, "--json")

    assert "1000 " in shown
    assert "--accept" in shown
    assert "--score" not in shown
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "refused: an answer can only be accepted or replaced" in refused.stderr
    assert said.returncode == watched.returncode == 0, said.stderr
    result = json.loads(watched.stdout)
    assert (result["stop_reason"], result["final_answer"]) == (reason, answer)
