"""A calibration that is left, broken off or asked for again: nothing is paid for twice."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
    JUDGE,
    calibrated,
    written,
)
from tests.scripted_endpoint import ScriptedEndpoint


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


def test_the_same_id_pays_nothing_twice(
    cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """Once finished, the same command reads the results and asks nobody."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    first = calibrated(cli, file, "--judge", JUDGE, "--id", "twice", *ALONE)
    before = len(endpoint.requests)

    second = calibrated(cli, file, "--judge", JUDGE, "--id", "twice", *ALONE)

    assert second == first
    assert len(endpoint.requests) == before


def test_another_file_under_the_same_id_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Its labels would be held against scores of other drafts."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)
    calibrated(cli, file, "--judge", JUDGE, "--id", "other-file", *ALONE)
    other = written(tmp_path / "other.jsonl", *EXAMPLES[::-1])

    done = cli("calibrate", other, "--judge", JUDGE, "--id", "other-file", *ALONE)

    assert (done.returncode, done.stdout) == (2, "")
    assert "was started with another file or other options" in done.stderr


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
    client.communicate(timeout=10)

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
    async with asyncio.timeout(30):
        while (await handle.query("progress"))["done"] < 2:
            await asyncio.sleep(0.1)
    await handle.cancel()
    async with asyncio.timeout(30):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(0.1)

    again = cli(*command, "--detach")
    async with asyncio.timeout(30):
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
    async with asyncio.timeout(30):
        while not await running(handle):
            await asyncio.sleep(0.2)

    await handle.cancel()
    said, more = await asyncio.to_thread(waiting.communicate, timeout=30)

    document = {"id": "stopped", "status": "cancelled", "error": "the batch was cancelled"}
    assert (waiting.returncode, json.loads(said)) == (5, document)
    assert "--id stopped goes on from the runs that have ended" in more


def test_ctrl_c_detaches(
    environment: dict[str, str], cli: Cli, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """The batch goes on, and the message says how to see what comes of it."""
    file = written(tmp_path / "labelled.jsonl", *(EXAMPLES * 5))
    command = ["calibrate", file, "--judge", JUDGE, "--id", "left-alone", "--json", *ALONE]
    before = len(endpoint.requests)
    client = started(environment, *command)
    while len(endpoint.requests) == before:
        time.sleep(0.01)
    client.send_signal(signal.SIGINT)
    said, more = client.communicate(timeout=30)

    assert (client.returncode, said) == (130, "")
    assert "Detached; the batch goes on: the same command with --id left-alone" in more
    assert json.loads(cli(*command).stdout)["judges"][0]["evaluated"] == 30


def test_detached_it_returns_the_id(cli: Cli, tmp_path: Path) -> None:
    """The id comes at once, and the same command with it shows the result."""
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)

    done = cli("calibrate", file, "--judge", JUDGE, "--id", "left", "--detach", "--json", *ALONE)
    found = calibrated(cli, file, "--judge", JUDGE, "--id", "left", *ALONE)

    assert (done.returncode, json.loads(done.stdout)) == (0, {"id": "left"})
    assert (found["id"], found["judges"][0]["evaluated"]) == ("left", 6)


def test_an_id_of_another_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    """A run that is no batch is never taken for one."""
    cli("ask", "easy?", "--id", "a-question", "--seed", "0", "--max-responses", "1", "--json")
    file = written(tmp_path / "labelled.jsonl", *EXAMPLES)

    done = cli("calibrate", file, "--judge", JUDGE, "--id", "a-question")

    assert (done.returncode, done.stdout) == (2, "")
    assert "is of another run" in done.stderr
