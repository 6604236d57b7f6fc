"""A call of one activity by a run that looks like one of Mull's, for workers that take no other."""

import uuid
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from mull.connection import TASK_QUEUE
from tests.patience import PATIENCE


@workflow.defn(name="DoctorWorkflow")
class CallingWorkflow:
    """Calls an activity, so many times side by side."""

    @workflow.run
    async def run(self, name: str, queue: str, task: Any, often: int = 1) -> Any:
        calls = [
            workflow.start_activity(
                name,
                task,
                task_queue=queue,
                start_to_close_timeout=timedelta(seconds=PATIENCE),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
            for _ in range(often)
        ]
        return [await call for call in calls][-1]


def serving(client: Client) -> Worker:
    """Serve Mull's own queue for such runs."""
    return Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[CallingWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def begin(
    client: Client, name: str, queue: str, task: Any, result: type[Any], often: int = 1
) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        "DoctorWorkflow",
        args=[name, queue, task, often],
        id=f"calling-{uuid.uuid4().hex}",
        task_queue=TASK_QUEUE,
        result_type=result,
    )


async def call(
    client: Client, name: str, queue: str, task: Any, result: type[Any], often: int = 1
) -> Any:
    async with serving(client):
        return await (await begin(client, name, queue, task, result, often)).result()
