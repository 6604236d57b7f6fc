"""`mull batch` as a user runs it: lines in, results in their order out, and on where it stood."""

import csv
import io
import json
import signal
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from temporalio.client import Client

from commands import batch
from mull.connection import TASK_QUEUE
from tests.conftest import until
from tests.e2e.conftest import Cli, started
from tests.e2e.model import AGREE, NO_KEY, SLOW

ONE = ("--command", "ask", "--yes")
SINGLE = ("--", "--max-responses", "1")


def written(path: Path, *lines: Any) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def line(name: str, seed: int = AGREE) -> dict[str, Any]:
    return {"id": name, "question": f"What is {name}?", "seed": seed}


def rows(printed: str) -> list[dict[str, Any]]:
    return [json.loads(one) for one in printed.splitlines()]


def test_results_come_in_the_order_of_the_lines(cli: Cli, tmp_path: Path) -> None:
    lines = [line("a"), line("b", NO_KEY), *(line(f"c{place}") for place in range(100))]
    file = written(tmp_path / "q.jsonl", *lines)

    first = cli("batch", file, *ONE, "--id", "ordered", "--max-concurrency", "16", *SINGLE)
    again = cli("batch", file, *ONE, "--id", "ordered", *SINGLE)
    retried = cli("batch", "--retry", "ordered")
    other = cli("batch", written(tmp_path / "o.jsonl", line("z")), *ONE, "--id", "ordered", *SINGLE)

    found = rows(first.stdout)
    assert first.returncode == again.returncode == retried.returncode == 1, first.stderr
    assert [row["id"] for row in found] == [one["id"] for one in lines]
    assert [row["line"] for row in found] == list(range(1, 103))
    assert {row["status"] for row in found if row["id"] != "b"} == {"completed"}
    assert (found[0]["answer"], found[0]["stop_reason"]) == ("129", "max_responses")
    assert (found[0]["confidence"], found[1]["confidence"]) == (1.0, None)
    assert (found[1]["status"], found[1]["answer"]) == ("failed", None)
    assert found[1]["error"].startswith("AuthenticationError")
    assert found[101]["workflow_id"] == "ordered/page-1/1-ask-0"
    assert rows(again.stdout) == found
    assert "nothing is paid again" in again.stderr
    assert "mull batch --retry ordered" in first.stderr
    assert [row["status"] for row in rows(retried.stdout)] == [row["status"] for row in found]
    assert (other.returncode, "another file" in other.stderr) == (2, True)


def test_other_formats(cli: Cli, tmp_path: Path) -> None:
    """CSV in and out, JUnit for a CI, one JSON document, and doubtful answers end with 4.

    The name of a file says the format, unless an option does.
    """
    file = tmp_path / "q.csv"
    file.write_text('id,question,seed\nx,"What is 2, or 3?",0\ny,"Why =1?",0\n')
    out, named = tmp_path / "out.xml", tmp_path / "table.jsonl"
    begin = ("batch", str(file), *ONE, "--id", "formats")

    table = cli(*begin, "--format", "csv", "--out", str(named), *SINGLE)
    junit = cli(*begin, "--out", str(out), *SINGLE, "--require-confidence", "1")
    document = json.loads(cli(*begin, "--json", *SINGLE).stdout)
    shown = cli("show", "formats")

    found = list(csv.DictReader(io.StringIO(named.read_text())))
    assert [(row["id"], row["answer"]) for row in found] == [("x", "129"), ("y", "129")]
    suite = ET.fromstring(out.read_text())  # noqa: S314 - our own
    assert (suite.get("tests"), suite[0].get("name")) == ("2", "x")
    assert (document["completed"], len(document["results"])) == (2, 2)
    assert (table.returncode, junit.returncode) == (0, 0), table.stderr
    assert "all 2 runs have ended" in shown.stdout


async def test_pause_and_going_on(cli: Cli, client: Client, tmp_path: Path) -> None:
    lines = [line("a", SLOW), line("b", SLOW)]
    file = written(tmp_path / "q.jsonl", *lines)
    begun = cli("batch", file, *ONE, "--id", "paused", "--detach", *SINGLE)

    paused = cli("batch", "--pause", "paused")
    seen = await client.get_workflow_handle("paused").query("progress")
    resumed = cli("batch", "--resume", "paused", "--json")
    early = cli("batch", "--retry", "paused")
    cli("finish", "paused", "--author", "ann")
    ended = cli("batch", "--id", "paused")

    assert begun.stdout == "paused\n", begun.stderr
    assert (paused.returncode, seen["paused"]) == (0, True)
    assert json.loads(resumed.stdout) == {"id": "paused", "done": "resume"}
    assert (early.returncode, "goes on" in early.stderr) == (2, True)
    assert ended.returncode in {1, 4}, ended.stderr
    assert {row["status"] for row in rows(ended.stdout)} <= {"cancelled", "not_started"}


async def test_lines_of_a_page_under_way(
    environment: dict[str, str], cli: Cli, client: Client, tmp_path: Path
) -> None:
    """They are counted as they end; of a batch that is cancelled each line has what it came to.

    Who leaves it hears how to come back for the file of the results.
    """
    lines = [line("a"), line("b", NO_KEY), *(line(f"c{place}", SLOW) for place in range(3))]
    file = written(tmp_path / "q.jsonl", *lines)
    cli("batch", file, *ONE, "--id", "stopped", "--detach", "--max-concurrency", "2", *SINGLE)
    page = client.get_workflow_handle("stopped/page-0")
    await until(lambda: page.query("progress"), lambda seen: seen["done"] >= 2)

    seen = json.loads(cli("show", "stopped", "--json").stdout)
    left = interrupted(environment, "40 % of 5", "--id", "stopped", "--out", f"{tmp_path}/r 1.csv")
    cli("cancel", "stopped")
    ended = cli("batch", "--id", "stopped", "--json")

    assert f"run mull batch --out '{tmp_path}/r 1.csv' --id stopped\n" in left
    document = json.loads(ended.stdout)
    states = [row["status"] for row in document["results"]]
    assert (seen["done"], seen["failed"], seen["running"]) == (2, 1, 2)
    assert (seen["tokens"], seen["known_tokens"]) == (None, 18)
    assert states == ["completed", "failed", "cancelled", "cancelled", "not_started"]
    assert document["results"][0]["answer"] == "129"
    assert document["results"][1]["error"].startswith("AuthenticationError")
    assert (document["status"], document["not_started"]) == ("cancelled", 1)
    assert (ended.returncode, "was cancelled" in ended.stderr) == (5, True)


def interrupted(environment: dict[str, str], after: str, *arguments: str) -> str:
    command = ("starter.py", "batch", *arguments)
    with started(*command, environment=environment, stderr=subprocess.PIPE) as sent:
        assert sent.stderr is not None
        while after not in sent.stderr.readline():
            pass
        sent.send_signal(signal.SIGINT)
        said = sent.stderr.read()
    assert sent.returncode == 130, said
    assert "Traceback" not in said
    return said


def test_ctrl_c_while_pages_go_up(environment: dict[str, str], tmp_path: Path) -> None:
    file = written(tmp_path / "q.jsonl", *(line(f"q{place}", SLOW) for place in range(3_000)))
    upload = (file, *ONE, "--id", "uploaded", "--detach", *SINGLE)

    said = interrupted(environment, "batch uploaded", *upload)

    assert "of 30 pages sent. The same command with --id uploaded goes on." in said


async def test_lines_of_a_page_that_never_came(cli: Cli, client: Client, tmp_path: Path) -> None:
    """A batch that was finished meanwhile has a row for each line of the file, and ends with 4.

    With the file, a retry makes them all.
    """
    file = written(tmp_path / "q.jsonl", *(line(f"c{place}") for place in range(3)))
    given, _ = batch._given(file, "ask", SINGLE[1:], {})
    handle = await client.start_workflow(
        "BatchWorkflow", given.request, id="cut-short", task_queue=TASK_QUEUE
    )
    await handle.execute_update("finish_now")

    whole = cli("batch", file, *ONE, "--id", "cut-short", *SINGLE)
    without = cli("batch", "--id", "cut-short")
    alone = cli("batch", "--retry", "cut-short")
    retried = cli("batch", file, *ONE, "--retry", "cut-short", *SINGLE)

    assert (whole.returncode, without.returncode) == (4, 4), whole.stderr
    assert [row["line"] for row in rows(whole.stdout)] == [1, 2, 3]
    assert {row["status"] for row in rows(whole.stdout)} == {"not_started"}
    assert "1 page of the file never came" in without.stderr
    assert (alone.returncode, "give FILE too, beside --retry" in alone.stderr) == (2, True)
    assert (retried.returncode, len(rows(retried.stdout))) == (0, 3), retried.stderr
    assert {row["status"] for row in rows(retried.stdout)} == {"completed"}


def test_the_budget_of_a_retry_replaces_the_earlier_one(cli: Cli, tmp_path: Path) -> None:
    """US dollars that the provider doesn't report stop a batch, and tokens let it go on."""
    file = written(tmp_path / "q.jsonl", line("a"), line("b"))

    first = cli("batch", file, *ONE, "--id", "unpriced", "--budget-usd", "1", *SINGLE)
    retried = cli("batch", "--retry", "unpriced", "--budget-tokens", "1000")

    assert [row["status"] for row in rows(first.stdout)] == ["completed", "not_started"]
    assert "with a higher budget:\n    mull batch --retry unpriced" in first.stderr
    assert retried.returncode == 0, retried.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"fine"\n{"question": " "}\n', "line 2: question: "),
        ('{"question": "x", "colour": 1}', "line 1: colour: no such field"),
        ('"a"\n\n[1]', "line 3: expected {"),
        ('{"question": "x"', "line 1: not valid JSON"),
        ('{"question": "x", "query": "y"}', "line 1: one of question, query, prompt, message"),
        ('{"question": "x", "seed": "7"}', "line 1: seed: "),
        ("\n", "is empty: expected lines like"),
    ],
)
def test_a_line_that_is_wrong_is_named(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(text)

    done = cli("batch", str(file), *ONE)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give FILE, or the --id of a batch"),
        (("-",), "--command: say what is done"),
        (("-", *ONE, "--", "--id", "x"), "give them before --"),
        (("-", "--command", "turn", "--", "--session=x"), "--session can't stand after --"),
        (("-", "--command", "ask", "--", "--help-all"), "--help-all can't stand after --"),
        (("-", "--pause", "x"), "only --retry can have a FILE too"),
        (("--id", "nothing-here"), "no batch has this id"),
    ],
)
def test_what_can_t_be_combined(cli: Cli, arguments: tuple[str, ...], said: str) -> None:
    done = cli("batch", *arguments, stdin='"x"\n')

    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_an_estimate_counts_the_most_calls(cli: Cli) -> None:
    done = cli(
        "batch", "-", *ONE, "--dry-run", "--json", "--", "--max-responses", "7", "--model",
        "openai/gpt-4o-mini", stdin='"x"\n"y"\n',
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert found["calls"] == 14
    assert 0 < found["cost_usd"] < 0.1
