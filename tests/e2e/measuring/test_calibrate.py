"""`starter.py calibrate` against a real server: its numbers, left, broken off or asked again."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError

from tests.e2e.conftest import ROOT, Cli
from tests.e2e.measuring.model import (
    ALONE,
    EXAMPLES,
    FIRST_LIKED,
    JUDGE,
    NO_KEY,
    calibrated,
    written,
)
from tests.patience import PATIENCE
from tests.scripted_endpoint import ScriptedEndpoint


def test_where_every_evaluation_fails_the_exit_code_is_1(cli: Cli, tmp_path: Path) -> None:
    """A key that is refused leaves no score; the table says why, and the key stands nowhere."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[:2])

    done = cli("calibrate", file, "--judge", NO_KEY, *ALONE)

    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "2 evaluations by openai/no-key failed: openai/no-key: AuthenticationError" in said
    assert "sk-secret" not in done.stdout + done.stderr


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
    assert "<h2>Reliability of openai/judge</h2>" in text
    assert "Because" not in text


def started(environment: dict[str, str], *command: str) -> "subprocess.Popen[str]":
    """Start a command that a test stops."""
    return subprocess.Popen(
        [sys.executable, "starter.py", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def running(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        return bool((await handle.query("progress"))["running"])
    except (RPCError, WorkflowQueryFailedError):
        return False


def test_a_killed_client_loses_nothing(
    environment: dict[str, str], cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """The batch goes on without it, and the same command with the same id picks it up."""
    file = written(tmp_path / "labelled.jsonl", *(EXAMPLES * 5))
    command = ["calibrate", file, "--judge", JUDGE, "--id", "killed", "--json", *ALONE]
    before = len(endpoint.requests)
    client = started(environment, *command)
    while len(endpoint.requests) == before:
        time.sleep(0.01)
    client.send_signal(signal.SIGKILL)
    client.communicate(timeout=PATIENCE)

    done = cli(*command)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["judges"][0]["evaluated"] == 30
    assert len(endpoint.requests) - before == 30


async def test_a_cancelled_batch_goes_on_from_where_it_was(
    cli: Cli, client: Client, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """What was judged before it was cancelled is not judged again."""
    slow = {**EXAMPLES[2], "draft": "slow, worth 0.6"}
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES[:2], slow)
    command = ("calibrate", file, "--judge", JUDGE, "--id", "broken-off", *ALONE)
    before = len(endpoint.requests)
    cli(*command, "--detach")
    handle = client.get_workflow_handle("broken-off")
    async with asyncio.timeout(PATIENCE):
        while (await handle.query("progress"))["done"] < 2:
            await asyncio.sleep(0.1)
    await handle.cancel()
    async with asyncio.timeout(PATIENCE):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(0.1)

    again = cli(*command, "--detach")
    async with asyncio.timeout(PATIENCE):
        while len(endpoint.requests) < before + 4:
            await asyncio.sleep(0.1)
    seen = await handle.query("progress")
    await handle.execute_update("finish_now")

    assert again.stdout == "broken-off\n"
    assert (seen["done"], seen["running"], len(endpoint.requests) - before) == (2, 1, 4)


async def test_a_batch_that_is_cancelled_is_exit_code_5(
    environment: dict[str, str], client: Client, tmp_path: Path
) -> None:
    """Who waits for it is told so, and how to go on; a machine by a document."""
    file = written(tmp_path / "labelled.jsonl", {**EXAMPLES[2], "draft": "slow, worth 0.6"})
    command = ["calibrate", file, "--judge", JUDGE, "--id", "stopped", "--json", *ALONE]
    waiting = started(environment, *command)
    handle = client.get_workflow_handle("stopped")
    async with asyncio.timeout(PATIENCE):
        while not await running(handle):
            await asyncio.sleep(0.2)

    await handle.cancel()
    said, more = await asyncio.to_thread(waiting.communicate, timeout=PATIENCE)

    document = {"id": "stopped", "status": "cancelled", "error": "The run was cancelled."}
    assert (waiting.returncode, json.loads(said)) == (5, document)
    assert "repeat the calibrate or compare command with --id stopped." in " ".join(more.split())


def test_two_judges(cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    """The order of one is the labels'; the other gives the first criterion 0.1 more.

    Each draft is judged twice in order and once in reverse by default.
    """
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    before = len(endpoint.requests)

    found = calibrated(cli, file, "--judge", JUDGE, "--judge", FIRST_LIKED, "--no-guardrails")

    judge, biased = found["judges"]
    assert (judge["judge"], judge["evaluated"], judge["failed_evaluations"]) == (JUDGE, 6, 0)
    assert (judge["auc"]["value"], judge["recommended"]["accuracy"]) == (1.0, 1.0)
    assert judge["recommended"]["threshold"] == pytest.approx(0.45)
    assert judge["at_source"]["accuracy"] == pytest.approx(5 / 6)
    assert (judge["repeatability"]["examples"], judge["repeatability"]["same_verdict"]) == (6, 1.0)
    assert judge["self_preference"]["value"] is not None
    assert (judge["position_bias"]["value"], biased["judge"]) == (0.0, FIRST_LIKED)
    assert biased["position_bias"]["value"] == pytest.approx(0.1)
    assert len(endpoint.requests) - before == 36
    listed = [one for one in found["evaluations"] if one["judge"] == JUDGE]
    rows = [(one["example"], one["repeat"], one["reversed"]) for one in listed]
    assert sorted(rows) == sorted(
        (place, *kind) for place in range(6) for kind in [(0, False), (1, False), (0, True)]
    )
    assert {one["label"] for one in listed} == {0.0, 0.1, 1.0}


def test_the_same_id_pays_nothing_twice(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """The same command with it shows the result; another file, or a run that is no batch, fails."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    other = written(tmp_path / "other.jsonl", *EXAMPLES[::-1])
    command = (file, "--judge", JUDGE, "--id", "twice", *ALONE)
    begun = cli("calibrate", *command, "--detach", "--json")
    first = calibrated(cli, *command)
    before = len(endpoint.requests)

    second = calibrated(cli, *command)
    reversed_ = cli("calibrate", other, *command[1:])

    assert (begun.returncode, json.loads(begun.stdout)) == (0, {"id": "twice"})
    assert (first["id"], first["judges"][0]["evaluated"]) == ("twice", 6)
    assert (second, len(endpoint.requests)) == (first, before)
    assert (reversed_.returncode, reversed_.stdout) == (2, "")
    assert "was started with another file or other options" in reversed_.stderr
    cli("ask", "easy?", "--id", "a-question", "--seed", "0", "--max-responses", "1", "--json")
    taken = cli("calibrate", file, "--judge", JUDGE, "--id", "a-question")
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "belongs to another run" in taken.stderr
