"""What a worker does with runs that it can't read, and with one that it can't evict."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from temporalio.client import WorkflowHandle

from commands.embedded import Place
from mull.connection import connect
from mull.sampling.request import SelfConsistencyRequest

STUBBORN = '''
import time, worker
from temporalio import workflow

@workflow.defn
class Stubborn:
    """Hold its thread, whatever interrupts it."""

    @workflow.run
    async def run(self) -> None:
        while True:
            try:
                while True:
                    time.sleep(0.05)
            except BaseException:
                pass

worker.HELPERS.append(Stubborn)
worker.GRACE = dict.fromkeys(worker.GRACE, 1)
worker.LAST_SECONDS = 1.0
worker.run()
'''
UNREADABLE = 50


@pytest.fixture
def environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a worker in a namespace that no other one serves."""
    for name, value in (("ADDRESS", place.address), ("NAMESPACE", "floods")):
        monkeypatch.setenv(f"TEMPORAL_{name}", value)
    return dict(os.environ)


def started(
    program: list[str], environment: dict[str, str], root: Path, log: Path
) -> "subprocess.Popen[bytes]":
    """Start a program that is a worker; its standard error is the log."""
    command = [sys.executable, *program, "--queues", "mull"]
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=root, env=environment, stderr=output)


async def until_said(log: Path, words: str, count: int = 1) -> None:
    """Wait until a log says this so often."""
    while log.read_text().count(words) < count:
        await asyncio.sleep(0.1)


async def test_a_run_that_cannot_be_evicted_does_not_keep_a_worker(
    environment: dict[str, str], root: Path, tmp_path: Path
) -> None:
    """It ends soon after its longest grace, as a worker does that was told to."""
    log = tmp_path / "log"
    worker = started(["-c", STUBBORN], environment, root, log)
    client = await connect()
    try:
        await until_said(log, "serving mull")
        stuck = await client.start_workflow("Stubborn", id=uuid.uuid4().hex, task_queue="mull")
        await until_said(log, "Failed handling activation")
        await stuck.terminate()
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.wait, 60)
    finally:
        worker.kill()
        worker.wait()

    assert worker.returncode == 0
    assert "something can't be evicted or closed" in log.read_text()


async def attempts(run: WorkflowHandle[object, object]) -> int:
    """Count the attempts at a run's task."""
    return (await run.describe()).raw_description.pending_workflow_task.attempt


async def test_runs_that_wait_for_a_key_are_a_line_each(
    environment: dict[str, str], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of fifty, whose tasks fail again and again, the log has fifty lines and no traceback."""
    log, key = tmp_path / "log", base64.b64encode(b"k" * 32).decode()
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", f"main-1:{key}")
    client, request = await connect(), SelfConsistencyRequest(question="Is 91 prime?")
    runs: list[WorkflowHandle[object, object]] = [
        await client.start_workflow(
            "SelfConsistencyWorkflow", request, id=f"unreadable-{number}", task_queue="mull"
        )
        for number in range(UNREADABLE)
    ]
    worker = started(["worker.py"], environment, root, log)
    try:
        await until_said(log, "encrypted with the key", UNREADABLE)
        while min([await attempts(run) for run in runs]) < 3:
            await asyncio.sleep(0.1)
    finally:
        for run in runs:
            await run.terminate()
        worker.kill()
        worker.wait()

    lines = log.read_text().splitlines()
    told = [line for line in lines if "encrypted with the key 'main-1'" in line]
    assert (len(told), "Traceback" in log.read_text()) == (UNREADABLE, False)
    assert len({line.rpartition("run ID ")[2] for line in told}) == UNREADABLE
    assert len(lines) < UNREADABLE + 5
