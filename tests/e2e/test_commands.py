"""The command line as scripts and people use it, against a real server and worker process."""

import json
from pathlib import Path

from temporalio.client import Client

from reflection.sampling.rules import Stopping
from tests.e2e.conftest import AGREE, NO_KEY, Cli, listed
from tests.unit.test_calibrated import made as calibration_map

SUM = "What is the sum of the first 10 prime numbers?"


def test_ask_prints_the_answer_and_shows_each_wave(cli: Cli) -> None:
    """The answer goes to standard output, progress and the Web UI's address to standard error."""
    done = cli("ask", SUM, "--seed", str(AGREE))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Final Answer: 129 (Confidence: 1.00, Uncertainty: low)\n")
    assert "wave 1" in done.stderr
    assert "/namespaces/commands/workflows/ask-what-is-the-sum" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_one_document_and_nothing_else(cli: Cli) -> None:
    """A machine reads standard output whole; `-` reads the question from standard input."""
    done = cli("ask", "-", "--seed", str(AGREE), "--json", "--answers", "number", stdin=f"{SUM}\n")

    result = json.loads(done.stdout)
    assert (result["question"], result["final_answer"]) == (SUM, "129")
    assert (result["stop_reason"], result["usage"]["calls"]) == ("rule", 5)


def test_a_failed_run_is_one_line_or_one_document(cli: Cli) -> None:
    """A refused key fails the run at once, with exit code 1, and the key stands nowhere."""
    done = cli("ask", SUM, "--seed", str(NO_KEY))
    document = cli("ask", SUM, "--seed", str(NO_KEY), "--id", "refused-key", "--json")

    said = json.loads(document.stdout)
    assert (done.returncode, done.stdout, document.returncode) == (1, "", 1)
    assert "Error: the run failed. AuthenticationError: " in done.stderr
    assert "`mull doctor` shows the keys that are set" in done.stderr
    assert "Traceback" not in done.stderr
    assert "sk-secret" not in done.stderr
    assert (said["id"], said["status"]) == ("refused-key", "failed")
    assert "AuthenticationError" in said["error"]


async def test_a_run_is_listed_and_reported(cli: Cli, client: Client, tmp_path: Path) -> None:
    """It stands with its stop reason and its question, and its page asks nobody for anything."""
    cli("ask", SUM, "--seed", str(AGREE), "--id", "listed", "--json")
    page = tmp_path / "report.html"

    row = listed(cli, "listed")
    done = cli("report", "listed", "--html", str(page))
    described = await client.get_workflow_handle("listed").describe()

    assert (row["MullStopReason"], row["MullConfidence"]) == ("rule", 1.0)
    assert "listed" in cli("list").stdout
    assert done.returncode == 0, done.stderr
    assert "<svg" in page.read_text()
    assert "129" in page.read_text()
    assert "src=" not in page.read_text()
    assert await described.static_summary() == SUM


def test_a_log_of_one_s_own_runs_is_replayed(cli: Cli, tmp_path: Path) -> None:
    """The answers of a run become a line that `replay` reads, with gold to fill in."""
    log = tmp_path / "log.jsonl"
    cli("ask", SUM, "--seed", str(AGREE), "--id", "logged")

    made = cli("list", "--log", str(log))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    replayed = cli("replay", str(log), "--answers", "number", "--json")
    again = cli("list", "--log", str(log))

    assert (again.returncode, len(log.read_text().splitlines())) == (2, len(lines))
    assert "exists, and may hold gold answers" in again.stderr
    assert (made.returncode, replayed.returncode) == (0, 0), made.stderr + replayed.stderr
    assert (made.stdout, made.stderr.count("\n")) == ("", 1)
    assert f"wrote the answers of {len(lines)} run" in made.stderr
    line = next(line for line in lines if line["answers"] == ["129"] * 5)
    assert (line["gold"], line["temperature"], line["kind"]) == (None, 0.7, "exact")
    assert json.loads(replayed.stdout)["questions"] == len(lines)


def test_a_probability_that_is_required(cli: Cli, tmp_path: Path) -> None:
    """A map by hand gives it; below the bar the exit code is 4, and without a map 2."""
    file = tmp_path / "map.json"
    traits = {"model": None, "prompt_hash": None, "answers": "number"}
    known = calibration_map(**traits, stopping=Stopping(rule="ahead_by"))
    file.write_text(known.model_dump_json())
    asked = ("ask", SUM, "--seed", str(AGREE), "--rule", "ahead_by", "--answers", "number")
    mapped = ("--calibration", str(file), "--require-probability")

    reached, missed = (cli(*asked, *mapped, bar) for bar in ("0.9", "0.95"))
    unknown = cli(*asked, "--require-probability", "0.5")
    broken = cli(*asked, "--calibration", str(tmp_path / "none.json"))

    assert (reached.returncode, missed.returncode) == (0, 4), reached.stderr
    assert "probability right  0.900" in reached.stdout
    assert "did not say model, prompt_hash" in " ".join(reached.stdout.split())
    assert "probability 0.900 is below 0.95, which was required" in missed.stderr
    assert (unknown.returncode, "and the worker has none" in unknown.stderr) == (2, True)
    assert broken.returncode == 2
