"""`reflect` as scripts and people use it, against a real server and worker process."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli, listed
from tests.e2e.model import CUT_OFF, IMPROVES, REVISES_SLOWLY, STAYS_LOW, UNSURE
from tests.patience import patiently

QUERY = "Compare Kafka and Pulsar for an audit log."
ALWAYS = ("--complexity", "1", "--no-guardrails")


def reflect(cli: Cli, seed: int, *more: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return cli("reflect", QUERY, *ALWAYS, "--seed", str(seed), *more, stdin=stdin)


def until_drafted(cli: Cli, run: str) -> None:
    for _ in patiently():
        if "revise " in cli("show", run).stdout:
            return
    pytest.fail("no draft was evaluated")


def test_the_best_draft_alone_is_standard_output(cli: Cli) -> None:
    done = reflect(cli, IMPROVES)

    assert (done.returncode, done.stdout) == (0, "Draft 2, worth 0.75."), done.stderr
    assert "draft 1  0.40 ▇▇▇▁▁▁▁▁  revise: " in done.stderr
    assert "revise: score 0.4 is below 0.7, with 1 revision left" in done.stderr
    assert "stop: score 0.75 reaches 0.7" in done.stderr
    assert "(passed)" in done.stderr
    assert "/namespaces/commands/workflows/reflect-compare-kafka" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_draft_and_sources_are_read_from_files(cli: Cli, tmp_path: Path) -> None:
    """A given draft is judged in the place of a generated one, and sources go to the judge."""
    draft, source = tmp_path / "draft.md", tmp_path / "source.txt"
    draft.write_text("Mine, worth 0.9.")
    source.write_text("Kafka is a log.")

    done = reflect(cli, IMPROVES, "--draft", str(draft), "--source", str(source), "--json")

    result = json.loads(done.stdout)
    assert (result["stop_reason"], result["draft"]) == ("passed", "Mine, worth 0.9.")
    assert result["drafts"][0]["origin"] == "given"


def test_below_the_required_score_is_exit_code_4(cli: Cli) -> None:
    done = reflect(cli, STAYS_LOW, "--require-score", "0.7")

    assert (done.returncode, done.stdout) == (4, "Draft 2, worth 0.45.")
    assert "score 0.45 is below 0.7, which was required" in done.stderr


@pytest.mark.parametrize(
    ("seed", "doubt"),
    [
        (CUT_OFF, "the draft was cut off by its provider: raise max_output_tokens"),
        (UNSURE, "no judge was sure of its score"),
    ],
)
def test_what_is_cut_off_or_a_guess_is_exit_code_4(cli: Cli, seed: int, doubt: str) -> None:
    """At the defaults, for people and scripts alike, when it is shown again, and in a batch."""
    run, asked = f"doubted-{seed}", ("--complexity", "1", "--seed", str(seed))

    done = cli("reflect", QUERY, *asked, "--id", run)
    shown, accepted = cli("show", run, "--json"), cli("show", run, "--accept-any")
    batch = cli("batch", "-", "--command", "reflect", "--yes", "--", *asked, stdin=f'"{QUERY}"\n')

    assert (done.returncode, shown.returncode, accepted.returncode) == (4, 4, 0), done.stderr
    assert f"Not to be built on: {doubt}. With --accept-any the exit code is 0." in done.stderr
    assert f"not to be built on: {doubt}" in " ".join(done.stderr.split())
    assert shown.stderr.startswith(f"Not to be built on: {doubt}.")
    document, row = json.loads(shown.stdout), listed(cli, run)
    assert (document["id"], document["doubt"], document["draft"]) == (run, doubt, done.stdout)
    assert (row["doubt"], f"  not to be built on: {doubt[:30]}" in cli("list").stdout) == (
        doubt,
        True,
    )
    assert (batch.returncode, json.loads(batch.stdout)["doubt"]) == (4, doubt), batch.stderr


def test_a_run_that_does_not_reflect_says_how_it_would(cli: Cli) -> None:
    done = reflect(cli, IMPROVES, "--no-reflect", "--require-score", "0.1")

    assert (done.returncode, done.stdout) == (4, "Draft 1, worth 0.4.")
    assert "(disabled)" in done.stderr
    assert "leave out --no-reflect" in done.stderr
    assert "no score shows that the draft reaches 0.1" in done.stderr


def test_a_cancelled_run_gives_its_best_draft_so_far(cli: Cli) -> None:
    run = reflect(cli, REVISES_SLOWLY, "--detach").stdout.strip()
    until_drafted(cli, run)

    cancelled = cli("cancel", run)
    watched = cli("watch", run)
    shown = cli("show", run, "--json")

    assert cancelled.returncode == 0, cancelled.stderr
    assert (watched.returncode, watched.stdout) == (5, "Draft 1, worth 0.4.")
    assert "The run was cancelled. Its best draft so far is printed." in watched.stderr
    assert shown.returncode == 5
    assert json.loads(shown.stdout) == {
        "id": run,
        "status": "cancelled",
        "error": "The run was cancelled.",
        "draft": "Draft 1, worth 0.4.",
    }


def test_a_person_can_finish_a_run(cli: Cli) -> None:
    run = reflect(cli, REVISES_SLOWLY, "--detach").stdout.strip()
    until_drafted(cli, run)

    added = cli("add", run, "7")
    finished = cli("finish", run, "--author", "ann")
    watched = cli("watch", run, "--json")

    assert (added.returncode, added.stdout) == (2, "")
    assert added.stderr == (
        "Error: only runs of `ask` take answers. For this run, use `mull review`.\n"
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(watched.stdout)["stop_reason"] == "finished_by_person"


def test_a_run_is_shown_and_listed(cli: Cli) -> None:
    reflect(cli, IMPROVES, "--id", "reported-reflect", "--json")

    shown, row = cli("show", "reported-reflect"), listed(cli, "reported-reflect")

    assert shown.stdout == "Draft 2, worth 0.75."
    assert "score 0.75 reaches 0.7" in shown.stderr
    assert (row["workflow"], row["MullScore"]) == ("ReflectOnResultWorkflow", 0.75)
