"""A worker that is killed outright while code of the agent's runs."""

import asyncio
import json
import os
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from mull.multipath.result import MultiPathResult
from tests.chaos.rebuilt import assert_whole
from tests.chaos.working import working
from tests.patience import PATIENCE, Stopwatch
from tests.sandbox.canaries import descendants
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint
from tests.workflows.multipath.running import CASES, TASK, Handle, start

# Each run of the code takes a while, in which it can be killed.
SLOW = "import time\n\ntime.sleep(3)\n\n\ndef double(n):\n    return {}"
BAD, GOOD = SLOW.format("n + 2"), SLOW.format("2 * n")
GONE_SECONDS = 1.0
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


def said(request: Body) -> Scripted:
    """Route, write tests, write code that is wrong, and repair it: the request says which."""
    prompt = request["messages"][0]["content"]
    if prompt.startswith("You decide which way"):
        return Scripted(json.dumps({"reason": "it asks for a function", "mode": "code"}))
    if prompt.startswith("You write tests"):
        tests = [{"call": call, "expected": value} for call, value in CASES.items()]
        return Scripted(json.dumps({"reasoning": "by hand", "entry": "double", "tests": tests}))
    return Scripted(f"```python\n{GOOD if 'Repair it' in prompt else BAD}\n```")


def lasting(result: MultiPathResult) -> dict[str, Any]:
    """What must be the same whether a worker was killed or not: all but times and attempts."""
    whole = result.model_dump(mode="json", exclude={"usage"})
    for each in [*whole["drafts"], *whole["decisions"]]:
        for name in ("timestamp", "at", "attempts"):
            each.pop(name, None)
    for each in whole["drafts"]:
        for name in ("wall_seconds", "cpu_seconds", "peak_memory_bytes", "attempts"):
            each["report"].pop(name)
    return whole


async def finished(handle: Handle) -> MultiPathResult:
    return MultiPathResult.model_validate(await asyncio.wait_for(handle.result(), PATIENCE))


async def until_code_runs(
    handle: Handle, worker: ForkServerProcess, activity: str = "test_code"
) -> set[int]:
    """Wait for the code's processes, and return their ids."""
    assert worker.pid is not None
    async with asyncio.timeout(PATIENCE):
        while True:
            pending = (await handle.describe()).raw_description.pending_activities
            names = [each.activity_type.name for each in pending if each.state == STARTED]
            if names == [activity] and (running := set(descendants(worker.pid))):
                # The first process of a sandbox is there before the code is. Meanwhile the worker
                # stands still, so that it can't tell that the code has ended.
                os.kill(worker.pid, signal.SIGSTOP)
                await asyncio.sleep(1.0)
                return running | set(descendants(worker.pid))
            await asyncio.sleep(0.05)


async def seconds_until_gone(processes: set[int]) -> float:
    watch = Stopwatch()
    async with asyncio.timeout(PATIENCE):
        while any(alive(each) for each in processes):
            await asyncio.sleep(0.02)
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
    with ScriptedEndpoint([said] * 30) as endpoint:
        async with working(endpoint, tmp_path / "spans") as working_at:
            worker = working_at()
            expected = await finished(await start(client, prompt=TASK))
            handle = await start(client, prompt=TASK)
            code = await until_code_runs(handle, worker)
            worker.kill()
            worker.join(PATIENCE)
            gone = await seconds_until_gone(code)
            working_at()
            result = await finished(handle)
        asked = len(endpoint.requests)
    [rebuilt] = await assert_whole(client, handle.id, tmp_path / "spans")
    decided = [span for span in rebuilt.spans if span.name == "mull.decision"]

    assert code
    assert gone < GONE_SECONDS
    assert lasting(result) == lasting(expected)
    assert (result.output, result.stop_reason) == (GOOD + "\n", "passed")
    assert [each.report and each.report.attempts for each in result.drafts] == [2, 1]
    assert len(decided) == len(result.decisions)
    assert asked == 2 * 4
