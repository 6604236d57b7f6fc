"""`ask` as scripts and people use it, and steering a run while it goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from temporalio.client import Client

from mull.sampling.rules import Stopping
from tests.e2e.conftest import ROOT, Cli, listed, started
from tests.e2e.model import AGREE, NO_KEY, SLOW
from tests.patience import PATIENCE
from tests.unit.test_calibrated import made as calibration_map

SUM = "What is the sum of the first 10 prime numbers?"


def test_ask_prints_the_answer_and_shows_each_wave(cli: Cli) -> None:
    done = cli("ask", SUM, "--seed", str(AGREE))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Final Answer: 129 (Confidence: 1.00, Uncertainty: low)\n")
    assert "wave 1" in done.stderr
    assert "/namespaces/commands/workflows/ask-what-is-the-sum" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_ask_prints_what_matters_in_five_lines(cli: Cli) -> None:
    asked = ("ask", SUM, "--seed", str(AGREE), "--id", "five-lines")

    short, whole, shown = cli(*asked), cli(*asked, "--details"), cli("show", "five-lines")

    assert [line.split()[0] for line in short.stdout.splitlines()] == [
        "Final",
        "agreement",
        "spent",
    ]
    assert short.stderr.splitlines()[-1].startswith("Web UI: ")
    assert "stopping rule  combined" in whole.stdout
    assert "\nVotes\n" in whole.stdout
    assert "\nDecisions\n" in shown.stdout


async def test_the_web_ui_shows_what_was_asked(cli: Cli, client: Client) -> None:
    cli("ask", SUM, "--seed", str(AGREE), "--system", "LICENSE", "--id", "given", "--json")
    handle = client.get_workflow_handle("given")
    history = [event async for event in handle.fetch_history_events()]
    started = history[0].workflow_execution_started_event_attributes.input.payloads[0]
    ended = history[-1].workflow_execution_completed_event_attributes.result.payloads[0]

    asked, result = json.loads(started.data), json.loads(ended.data)
    assert list(asked) == ["question", "system", "seed"]
    assert "calibration" not in result
    assert not {"author", "error", "left_out"} & result["responses"][0].keys()


async def test_a_history_has_values_that_a_file_set(
    cli: Cli, client: Client, tmp_path: Path
) -> None:
    """And no name that only the file explains."""
    file = tmp_path / "mull.toml"
    file.write_text(
        'preset = "mine"\nseed = 7\n[presets.mine]\nrule = "fixed"\nmax_responses = 2\n'
        "[profiles.two]\nquorum = 2\n"
    )

    done = cli("ask", SUM, "--profile", "two", "--id", "set", MULL_SETTINGS=str(file))
    handle = client.get_workflow_handle("set")
    history = [event async for event in handle.fetch_history_events()]

    given = history[0].workflow_execution_started_event_attributes.input.payloads[0]
    asked = json.loads(given.data)
    assert done.stderr.startswith(f"settings of {file}, profile two: preset mine, seed 7, quorum 2")
    assert asked == {
        "question": SUM, "seed": 7, "quorum": 2, "rule": "fixed", "max_responses": 2,
        "min_responses": 1,
    }  # fmt: skip


async def test_a_list_has_the_question(cli: Cli, client: Client) -> None:
    """Whoever started it, and while it goes on; of bytes, or of nothing, none. The newest first."""
    cli("ask", SUM, "--seed", str(SLOW), "--id", "by-command", "--detach")
    asked = {"question": f"{SUM} Really?", "seed": SLOW}
    for run, given in (("by-client", asked), ("of-bytes", b"no request")):
        await client.start_workflow("SelfConsistencyWorkflow", given, id=run, task_queue="mull")
    await client.start_workflow("ToolTurnWorkflow", id="of-nothing", task_queue="mull")

    rows = json.loads(cli("list", "--json").stdout)["runs"]
    listed_runs = cli("list", "--limit", "4")
    looked = [cli(command, "of-nothing").returncode for command in ("watch", "traces")]
    ended = [cli("cancel", run).returncode for run in ("by-command", "by-client")]

    found = {row["id"]: row["asked"] for row in rows}
    assert (found["by-command"], found["by-client"]) == (SUM, f"{SUM} Really?")
    assert found["of-bytes"] is found["of-nothing"] is None
    assert looked == [1, 0]
    assert f"\n  {SUM}\n" in listed_runs.stdout
    assert listed_runs.stderr == "There may be more: --limit lists more than 4.\n"
    started = [row["started"] for row in rows]
    assert started == sorted(started, reverse=True)
    assert ended == [0, 0]


@pytest.mark.parametrize(
    "command", ["show piped", "show piped --json", "list", "list --json", "--help", "doctor --json"]
)
def test_a_reader_that_has_gone_is_no_error(
    cli: Cli, environment: dict[str, str], command: str
) -> None:
    """As `head` does, which closes its end: the command says nothing, and ends as by SIGPIPE."""
    assert cli("ask", SUM, "--seed", str(AGREE), "--id", "piped").returncode == 0
    reader, writer = os.pipe()
    os.close(reader)

    ended = subprocess.run(
        [sys.executable, "starter.py", *command.split()],
        cwd=ROOT, env=environment, stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)

    said = [line for line in ended.stderr.splitlines() if not line.startswith("Web UI: ")]
    assert (ended.returncode, said) == (141, [])


def test_json_is_one_document_and_nothing_else(cli: Cli) -> None:
    """A machine reads standard output whole; `-` reads the question from standard input."""
    done = cli("ask", "-", "--seed", str(AGREE), "--json", "--answers", "number", stdin=f"{SUM}\n")

    result = json.loads(done.stdout)
    assert (result["question"], result["final_answer"]) == (SUM, "129")
    assert (result["stop_reason"], result["usage"]["calls"]) == ("rule", 5)


def test_a_failed_run_is_one_line_or_one_document(cli: Cli) -> None:
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
    assert "top_p" not in page.read_text()
    assert await described.static_summary() == SUM


def test_a_report_of_a_failed_run_says_why_first(cli: Cli, tmp_path: Path) -> None:
    """Then what to do; the file is made as that of any other run."""
    cli("ask", SUM, "--seed", str(NO_KEY), "--id", "reported-failure")
    page = tmp_path / "report.html"

    done = cli("report", "reported-failure", "--html", str(page))

    head = page.read_text().partition('<header class="head"')[2].partition("</header>")[0]
    assert done.returncode == 0, done.stderr
    assert 'class="verdict bad failed">the run failed. AuthenticationError: ' in head
    assert "`mull doctor` shows the keys that are set" in head.partition("failed. ")[2]


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


def detached(cli: Cli, seed: int) -> str:
    started = cli("ask", SUM, "--seed", str(seed), "--detach")
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


def test_a_run_can_be_shown_steered_and_finished(cli: Cli) -> None:
    run = detached(cli, SLOW)

    standing = cli("show", run)
    added = cli("add", run, "7", "--author", "ann")
    finished = cli("finish", run, "--author", "ann")
    watched = cli("watch", run, "--json")
    too_late = cli("add", run, "8")

    assert "5 calls in flight" in standing.stdout, standing.stdout
    assert (added.returncode, finished.returncode) == (0, 0), added.stderr + finished.stderr
    assert (
        f"the run ends with what it has. To see its result:\n    mull show {run}" in finished.stderr
    )
    assert json.loads(watched.stdout)["final_answer"] == "7"
    assert json.loads(watched.stdout)["stop_reason"] == "finished_by_person"
    assert (too_late.returncode, too_late.stderr) == (
        2,
        "Error: the run has already ended (completed).\n",
    )


def test_ctrl_c_detaches_and_never_cancels(cli: Cli, environment: dict[str, str]) -> None:
    command = ("starter.py", "ask", SUM, "--seed", str(SLOW), "--id", "interrupted")
    asked = started(*command, environment=environment, stderr=subprocess.PIPE)
    assert asked.stderr is not None
    assert "run interrupted" in asked.stderr.readline()
    time.sleep(1)
    asked.send_signal(signal.SIGINT)
    _, said = asked.communicate(timeout=PATIENCE)

    assert asked.returncode == 130
    assert "mull watch interrupted" in said
    assert "Traceback" not in said
    assert cli("cancel", "interrupted").returncode == 0
    assert cli("watch", "interrupted").returncode == 5
    shown = cli("show", "interrupted")
    assert (shown.returncode, shown.stdout) == (5, "")
    assert "The run was cancelled." in shown.stderr
    assert "stood at" in shown.stderr


INTERRUPTED = """
import importlib, sys

def interrupted(name):
    raise KeyboardInterrupt

importlib.import_module, sys.argv = interrupted, ["mull", "ask"]
import starter
"""


def test_ctrl_c_says_nothing_while_modules_are_imported() -> None:
    """That takes a second on a busy machine."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (130, "")


def test_an_id_in_use_is_that_run_or_is_refused(cli: Cli) -> None:
    """The same request is the same run; another one, or one anew, is refused."""
    asked = ("ask", SUM, "--seed", str(SLOW), "--id", "chosen", "--detach")
    first, second = cli(*asked), cli(*asked)
    other, anew = cli(*asked, "--max-responses", "9"), cli(*asked, "--again")
    cli("cancel", "chosen")

    assert [(one.returncode, one.stdout) for one in (first, second)] == [(0, "chosen\n")] * 2
    assert "This run goes on already, by the same request." in second.stderr
    assert (other.returncode, anew.returncode) == (2, 2)
    assert "the run with the id chosen goes on, and had another request" in other.stderr
    assert "goes on, so it can't be started anew" in anew.stderr


def test_an_id_that_is_done_is_not_paid_again(cli: Cli) -> None:
    """The same request gets the earlier result, another one is refused, --again starts anew."""
    asked = ("--seed", str(AGREE), "--id", "nightly", "--json")
    first, second = cli("ask", SUM, *asked), cli("ask", SUM, *asked)
    other = cli("ask", SUM, *asked, "--max-responses", "9")
    anew = cli("ask", SUM, *asked, "--again")

    paid = json.loads(first.stdout)["responses"][0]["timestamp"]
    assert (second.returncode, second.stdout) == (0, first.stdout)
    assert "nothing is paid again; --again starts it anew" in second.stderr
    assert (other.returncode, other.stdout) == (2, "")
    assert "the run with the id nightly is done, and had another request" in other.stderr
    assert "--again" in other.stderr
    assert anew.returncode == 0
    assert json.loads(anew.stdout)["responses"][0]["timestamp"] != paid


def test_an_id_whose_run_failed_is_started_anew(cli: Cli) -> None:
    refused = cli("ask", SUM, "--seed", str(NO_KEY), "--id", "mended")
    mended = cli("ask", SUM, "--seed", str(AGREE), "--id", "mended")

    assert (refused.returncode, mended.returncode) == (1, 0), mended.stderr
