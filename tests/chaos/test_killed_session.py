"""A worker that is killed outright while a session answers, and while it waits for a message."""

import asyncio
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateStage
from temporalio.common import WorkflowIDConflictPolicy

from mull.connection import TASK_QUEUE
from tests.chaos.rebuilt import assert_whole
from tests.chaos.working import working
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

HANGS = 100


class Model:
    """Say back what was said last; hang the first time that it is `b`."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Body) -> Scripted:
        said = str(request["messages"][-1]["content"])
        self.asked[said] += 1
        return Scripted(f"re {said}", delay=HANGS if self.asked == {"a": 1, "b": 1} else 0)


async def send(client: Client, session: str, message: str) -> Any:
    """Send a message, with the start of the session if there is none; return what awaits it."""
    begun = WithStartWorkflowOperation[Any, Any](
        "SessionWorkflow",
        {"tools": [], "turns_per_execution": 2, "budget_seconds": 300.0},
        id=session,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    return await client.start_update_with_start_workflow(
        "send",
        {"message": message},
        id=f"message-{message}",
        start_workflow_operation=begun,
        wait_for_stage=WorkflowUpdateStage.ACCEPTED,
    )


async def tasks_lost(client: Client, workflow_id: str, run_id: str) -> int:
    """Count the workflow tasks that nobody took, since they were offered to a dead worker."""
    run = client.get_workflow_handle(workflow_id, run_id=run_id)
    kinds = [event.event_type async for event in run.fetch_history_events()]
    return kinds.count(EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)


async def test_a_killed_worker_loses_no_message(client: Client, tmp_path: Path) -> None:
    """Each is answered once and in order, also in a new history; only a hung call is paid twice.

    No task waits for the dead worker: neither the turn's after its call, nor then the session's.
    """
    session, model = f"session-{uuid.uuid4().hex}", Model()
    with ScriptedEndpoint([model] * 20) as endpoint:
        async with working(endpoint, tmp_path / "traces") as start:
            process = start()
            first = await (await send(client, session, "a")).result()
            taken = await send(client, session, "b")
            async with asyncio.timeout(PATIENCE):
                while not model.asked["b"]:
                    await asyncio.sleep(0.1)
            process.kill()
            process.join(PATIENCE)
            start()
            second = await asyncio.wait_for(taken.result(), PATIENCE)
            third = await asyncio.wait_for((await send(client, session, "c")).result(), PATIENCE)
            again = await asyncio.wait_for((await send(client, session, "b")).result(), PATIENCE)

    found = await assert_whole(client, session, tmp_path / "traces")
    assert [await tasks_lost(client, one.workflow_id, one.run_id) for one in found] == [0] * 5
    assert [len(one.children) for one in found if one.workflow_id == session] == [2, 1]
    answers = [(one["number"], one["answer"]) for one in (first, second, third, again)]
    assert answers == [(1, "re a"), (2, "re b"), (3, "re c"), (2, "re b")]
    assert model.asked == {"a": 1, "b": 2, "c": 1}
