"""A worker that is killed outright while code of the agent's runs."""

import asyncio
import os
import signal
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from tests.chaos.runs import lasting, replied
from tests.chaos.working import assert_decided, working
from tests.conftest import Handle, until
from tests.patience import Stopwatch
from tests.sandbox.canaries import descendants
from tests.scripted_endpoint import Body, Scripted
from tests.workflows.multipath.running import TASK, ended, start

# Each run of the code takes a while, in which it can be killed.
SLOW = "import time\n\ntime.sleep(3)\n\n\n"
GOOD = f"{SLOW}def double(n):\n    return 2 * n"
GONE_SECONDS = 1.0
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


def said(request: Body) -> Scripted:
    """Write slow code that is wrong, and repair it."""
    reply = replied(request)
    return replace(reply, text=str(reply.text).replace("def double", f"{SLOW}def double"))


async def until_code_runs(
    handle: Handle, worker: ForkServerProcess, activity: str = "test_code"
) -> set[int]:
    """Wait for the code's processes, and return their ids."""
    assert worker.pid is not None
    pid = worker.pid

    async def running() -> set[int]:
        pending = (await handle.describe()).raw_description.pending_activities
        names = [each.activity_type.name for each in pending if each.state == STARTED]
        return set(descendants(pid)) if names == [activity] else set()

    found: set[int] = await until(running)
    # The first process of a sandbox is there before the code is. Meanwhile the worker stands still,
    # so that it can't tell that the code has ended.
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(1.0)
    return set(descendants(pid)) | found


async def seconds_until_gone(processes: set[int]) -> float:
    watch = Stopwatch()
    await until(lambda: not any(map(alive, processes)))
    return watch.seconds


def alive(process: int) -> bool:
    """Tell whether a process still runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_a_worker_killed_while_code_runs(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """The code is gone within a second, and the run goes on elsewhere and ends alike."""
    monkeypatch.setenv("MULL_SANDBOX", backend)
    async with working(said, tmp_path / "spans") as place:
        expected = await ended(await start(client, prompt=TASK))
        handle = await start(client, prompt=TASK)
        code = await until_code_runs(handle, place.worker)
        place.kill()
        gone = await seconds_until_gone(code)
        place.start()
        result = await ended(handle)
    await assert_decided(client, handle, tmp_path / "spans", result)

    assert code
    assert gone < GONE_SECONDS
    assert lasting(result.model_dump(mode="json")) == lasting(expected.model_dump(mode="json"))
    assert (result.output, result.stop_reason) == (GOOD + "\n", "passed")
    assert [each.report and each.report.attempts for each in result.drafts] == [2, 1]
    assert len(place.requests) == 2 * 4
