"""The command line as scripts and people use it, against a real server and worker process."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import AGREE, BUSY, NO_KEY, ROOT, SLOW, SPLIT, Cli

SUM = "What is the sum of the first 10 prime numbers?"


def detached(cli: Cli, seed: int) -> str:
    started = cli("ask", SUM, "--seed", str(seed), "--detach")
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


def test_ask_prints_the_answer_and_shows_each_wave(cli: Cli) -> None:
    """The answer goes to standard output, progress and the Web UI's address to standard error."""
    done = cli("ask", SUM, "--seed", str(AGREE))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Final Answer: 129 (Confidence: 1.00, Uncertainty: low)\n")
    assert "wave 1" in done.stderr
    assert "/namespaces/default/workflows/ask-what-is-the-sum" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_one_document_and_nothing_else(cli: Cli) -> None:
    """A machine reads standard output whole."""
    done = cli("ask", SUM, "--seed", str(AGREE), "--json", "--answers", "number")

    result = json.loads(done.stdout)
    assert (result["final_answer"], result["stop_reason"]) == ("129", "rule")
    assert result["usage"]["calls"] == 5


def test_standard_input_can_be_the_question(cli: Cli) -> None:
    """`-` reads the question."""
    done = cli("ask", "-", "--seed", str(AGREE), "--json", stdin=f"{SUM}\n")

    assert json.loads(done.stdout)["question"] == SUM


def test_below_the_bar_is_exit_code_4(cli: Cli) -> None:
    """A confidence under what was required ends with 4, and the answer is printed all the same."""
    done = cli("ask", SUM, "--seed", str(SPLIT), "--require-confidence", "0.5")

    assert done.returncode == 4
    assert done.stdout.startswith("Final Answer: 1000 (Confidence: 0.10")
    assert "confidence 0.10 is below 0.5, which was required" in done.stderr


def test_answers_that_never_agree_end_early_when_futile(cli: Cli) -> None:
    """`--futility` ends a hopeless run with no consensus, exit code 4, after five answers."""
    done = cli("ask", SUM, "--seed", str(SPLIT), "--futility", "0.05", "--json")

    result = json.loads(done.stdout)
    assert (done.returncode, result["stop_reason"]) == (4, "no_consensus")
    assert result["total_responses"] == 5


def test_a_failed_run_is_one_line_and_exit_code_1(cli: Cli) -> None:
    """A refused key fails the run at once, and the key stands nowhere."""
    done = cli("ask", SUM, "--seed", str(NO_KEY))

    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: the run failed. AuthenticationError: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "sk-secret" not in done.stderr


def test_an_endpoint_that_is_down_ends_in_no_consensus(cli: Cli) -> None:
    """Samples whose retries are exhausted are no votes, and the reason is shown."""
    done = cli("ask", SUM, "--seed", str(BUSY), "--max-attempts", "1")

    assert done.returncode == 4
    assert "ServiceUnavailableError" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", ""], "question: "),
        (["ask", SUM, "--min-responses", "6", "--max-responses", "5"], "min_responses (6)"),
        (["ask", SUM, "--confidence-threshold", "1.5"], "confidence_threshold: "),
        (["ask", SUM, "--rule", "luck"], "rule: "),
        (["ask", SUM, "--budget-usd", "nan"], "budget_usd: "),
        (["ask", SUM, "--prompt-template", "/nowhere"], "can't be read"),
        (["show", "no-such-run"], "no run with this id"),
        (["watch", "no-such-run"], "no run with this id"),
        (["finish", "no-such-run"], "no run with this id"),
        (["cancel", "no-such-run"], "no run with this id"),
        (["add", "no-such-run", "7"], "no run with this id"),
        (["report", "no-such-run", "--html", "x.html"], "no run with this id"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Cli, arguments: list[str], said: str) -> None:
    """Each mistake is named on standard error, without a traceback."""
    done = cli(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_question_of_5_mb_is_refused(cli: Cli) -> None:
    """The size and the bound are said, and no run is started."""
    done = cli("ask", "-", stdin="a" * 5_000_000)

    assert done.returncode == 2
    assert done.stderr == "Error: question: 5,000,000 bytes, and at most 100,000 are taken.\n"


def test_no_server_is_two_lines_and_exit_code_3(cli: Cli) -> None:
    """A command that reaches nobody says where it looked and how to get a server."""
    done = cli("ask", SUM, TEMPORAL_ADDRESS="127.0.0.1:9")

    assert done.returncode == 3
    assert done.stderr == (
        "Error: no Temporal server answers at 127.0.0.1:9.\n"
        "Start one with `starter.py dev`, or set TEMPORAL_ADDRESS.\n"
    )


def test_a_run_can_be_shown_steered_and_finished(cli: Cli) -> None:
    """A detached run takes an answer, is finished by a person, and then takes nothing more."""
    run = detached(cli, SLOW)

    standing = cli("show", run)
    added = cli("add", run, "7", "--author", "ann")
    finished = cli("finish", run, "--author", "ann")
    watched = cli("watch", run, "--json")
    too_late = cli("add", run, "8")

    assert "5 in flight" in standing.stdout, standing.stdout
    assert (added.returncode, finished.returncode) == (0, 0), added.stderr + finished.stderr
    assert json.loads(watched.stdout)["final_answer"] == "7"
    assert json.loads(watched.stdout)["stop_reason"] == "finished_by_person"
    assert (too_late.returncode, too_late.stderr) == (
        2,
        "Error: the run has ended already (completed).\n",
    )


def test_a_cancelled_run_is_exit_code_5(cli: Cli) -> None:
    """Cancelling ends the run as cancelled, and whoever watches learns it."""
    run = detached(cli, SLOW)

    cancelled = cli("cancel", run)
    watched = cli("watch", run)

    assert cancelled.returncode == 0
    assert (watched.returncode, watched.stdout) == (5, "")
    assert "The run was cancelled." in watched.stderr


def test_ctrl_c_detaches_and_never_cancels(cli: Cli, environment: dict[str, str]) -> None:
    """An interrupted `ask` ends with 130, says how to go on watching, and the run goes on."""
    asked = subprocess.Popen(
        [sys.executable, "starter.py", "ask", SUM, "--seed", str(SLOW), "--id", "interrupted"],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=20)

    assert asked.returncode == 130
    assert "starter.py watch interrupted" in said
    assert "Traceback" not in said
    assert cli("cancel", "interrupted").returncode == 0


def test_an_id_in_use_is_refused(cli: Cli) -> None:
    """A second run under the id of a running one is refused, and the first goes on."""
    first = cli("ask", SUM, "--seed", str(SLOW), "--id", "chosen", "--detach")
    second = cli("ask", SUM, "--seed", str(SLOW), "--id", "chosen", "--detach")
    cli("cancel", "chosen")

    assert (first.returncode, first.stdout) == (0, "chosen\n")
    assert second.returncode == 2
    assert "a run with the id chosen is under way" in second.stderr


def test_list_shows_runs_and_why_they_stopped(cli: Cli) -> None:
    """The newest runs stand with their stop reason, also for a machine."""
    run = json.loads(cli("ask", SUM, "--seed", str(AGREE), "--id", "listed", "--json").stdout)
    for _ in range(20):
        listed = json.loads(cli("list", "--json").stdout)["runs"]
        row = next((each for each in listed if each["id"] == "listed"), None)
        if row and row["status"] == "completed":
            break

    assert run["stop_reason"] == "rule"
    assert row is not None
    assert (row["MullStopReason"], row["MullConfidence"]) == ("rule", 1.0)
    assert "listed" in cli("list").stdout


def test_a_report_is_one_self_contained_page(cli: Cli, tmp_path: Path) -> None:
    """The page has the curves, the votes and the decisions, and asks nobody for anything."""
    cli("ask", SUM, "--seed", str(AGREE), "--id", "reported", "--json")
    page = tmp_path / "report.html"

    done = cli("report", "reported", "--html", str(page))

    text = page.read_text()
    assert done.returncode == 0, done.stderr
    assert "<svg" in text
    assert "129" in text
    assert "src=" not in text


def test_help_answers_at_once(cli: Cli) -> None:
    """`--help` imports neither Temporal nor LiteLLM nor pydantic."""
    code = (
        "import sys, starter\n"
        "heavy = {'temporalio', 'litellm', 'pydantic', 'opentelemetry'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert loaded.stdout == "[]\n"
    assert cli("--help").returncode == 0
