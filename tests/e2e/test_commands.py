"""The command line as scripts and people use it, against a real server and worker process."""

import json
import subprocess
import sys
from pathlib import Path

from temporalio.client import Client

from tests.e2e.conftest import AGREE, BUSY, NO_KEY, ROOT, Cli

SUM = "What is the sum of the first 10 prime numbers?"


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


def test_a_run_that_was_cut_short_meets_no_bar(cli: Cli) -> None:
    """One answer of at least five is sure of nothing: it is said, and no bar is met."""
    request = ["ask", SUM, "--seed", str(AGREE), "--budget-tokens", "20"]

    done = cli(*request, "--require-confidence", "0.9")

    assert done.returncode == 4
    assert "cut short: only 1 of at least 5 readable answers" in done.stdout
    assert "a run that was cut short can't show a confidence of 0.9" in done.stderr


def test_a_failed_run_is_one_document_for_a_machine(cli: Cli) -> None:
    """With `--json` a failure is a document too, with the run's id."""
    done = cli("ask", SUM, "--seed", str(NO_KEY), "--id", "refused-key", "--json")

    said = json.loads(done.stdout)
    assert (done.returncode, said["id"], said["status"]) == (1, "refused-key", "failed")
    assert "AuthenticationError" in said["error"]


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


async def test_a_run_s_summary_is_its_question(cli: Cli, client: Client) -> None:
    """Temporal's list shows the question of a run that the command line started."""
    cli("ask", SUM, "--seed", str(AGREE), "--id", "summarised", "--json")

    description = await client.get_workflow_handle("summarised").describe()

    assert await description.static_summary() == SUM
