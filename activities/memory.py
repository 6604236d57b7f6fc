"""Activities that read and add to the memory that runs share, which is a workflow of its own."""

from typing import Any

from temporalio import activity
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import QueryRejectCondition, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from mull.agents.memory import Reflection, SemanticMemory, SharedMemory
from mull.agents.request import MemoryRequest
from mull.connection import TASK_QUEUE, heartbeating
from mull.request import Record

WORKFLOW = "MemoryWorkflow"


def memory_id(name: str) -> str:
    """Name the workflow of a memory."""
    return f"memory-{name}"


# The server's error for an update that workers did not look at.
UNPROCESSED = "UnprocessedUpdate"


class MemoryTask(Record):
    """A memory by its name, and a scope of it."""

    name: str
    scope: str


class RememberTask(MemoryTask):
    """A reflection to add to a scope."""

    reflection: Reflection


class MemoryActivities:
    """Reads a shared memory, and adds to it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn
    async def recall_reflections(self, task: MemoryTask) -> SemanticMemory:
        """Return the memory of a scope, which is empty until something is added."""
        handle: Any = self._client.get_workflow_handle(memory_id(task.name))
        try:
            async with heartbeating():
                held: SharedMemory = await handle.query(
                    "memory",
                    result_type=SharedMemory,
                    # A terminated memory still answers, but the next reflection begins a new one.
                    reject_condition=QueryRejectCondition.NOT_OPEN,
                )
        except (WorkflowQueryRejectedError, RPCError) as error:
            if isinstance(error, RPCError) and error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return SemanticMemory()
        return held.of(task.scope)

    @activity.defn
    async def remember_reflection(self, task: RememberTask) -> SemanticMemory:
        """Add a reflection, once, starting its memory if needed; return its scope's memory."""
        begun = WithStartWorkflowOperation[Any, Any](
            WORKFLOW,
            MemoryRequest(name=task.name),
            id=memory_id(task.name),
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        try:
            async with heartbeating():
                held: SemanticMemory = await self._client.execute_update_with_start_workflow(
                    "remember",
                    task,
                    start_workflow_operation=begun,
                    result_type=SemanticMemory,
                )
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type == UNPROCESSED:
                # Its worker was too busy to look at it in time, or is gone: it was not refused.
                raise ApplicationError(error.cause.message, type=UNPROCESSED) from None
            # Its cause says why it was refused.
            raise error.cause from None
        return held
