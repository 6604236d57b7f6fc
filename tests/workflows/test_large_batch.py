"""A batch beside other work, and a large one: who is served first, and what grows."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError

import worker
from activities.language_model.layers import PacedModel
from adapters import QUEUES
from bench.batch import InstantModel
from mull.connection import TASK_QUEUE, connect
from tests.conftest import begin
from tests.patience import PATIENCE

RATE = 2.0


async def test_a_question_does_not_wait_behind_a_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where 64 calls of a batch wait, two a second, the two of a question are among the next 32.

    Behind them they would be the last. The pace is that of the worker and of its queue, in a
    namespace of its own, since the server remembers it.
    """
    del client  # for its server
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "paced")
    beside, instant = await connect(), InstantModel()
    model = PacedModel(instant, "scripted", RATE)
    options = {"max_responses": 2, "rule": "fixed"}
    variant = {"name": "ask", "workflow": "SelfConsistencyWorkflow", "request": options}
    request = {"variants": [variant], "pages": 1, "max_concurrency": 32}
    items = [{"question": f"What is half of {number}?"} for number in range(100)]
    async with AsyncExitStack() as stack:
        for serving in worker.build(beside, QUEUES, model, calls_per_second=RATE):
            await stack.enter_async_context(serving)
        batch = await beside.start_workflow(
            "BatchWorkflow", request, id="beside", task_queue=TASK_QUEUE
        )
        await batch.execute_update("add_page", {"number": 0, "items": items})
        async with asyncio.timeout(PATIENCE):
            while instant.calls < 8:
                await asyncio.sleep(0.1)

        before = instant.calls
        question = await begin(beside, {"question": "How much?", **options})
        await question.result()
        between = instant.calls - before
        stands = await batch.query("progress")
        await batch.cancel()
        page = beside.get_workflow_handle("beside/page-0")
        with pytest.raises(WorkflowFailureError):
            await page.result()

    assert stands["running"] == 100
    assert between < 32


def test_two_thousand_lines() -> None:
    """Every line is answered once, in histories that stay small, and memory does not grow.

    The worker has a process of its own, with no memory but its own.
    """
    command = [sys.executable, "-m", "bench.batch", "--lines", "2000"]
    kept: dict[str, Any] = {"capture_output": True, "text": True}
    # On a busy machine a worker may be silent for longer than by default, and is not lost.
    kept["env"] = {**os.environ, "MULL_HEARTBEAT_SECONDS": "120"}
    printed = subprocess.run(command, check=True, **kept)
    found = json.loads(printed.stdout)
    print(found)

    assert (found["completed"], found["calls"]) == (2_000, 2_000)
    assert found["most_events"] < 1_500
    assert found["most_bytes"] < 1_000_000
    assert found["memory_mb_at_the_end"] < found["memory_mb_after_a_tenth"] + 60
