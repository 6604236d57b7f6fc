"""Starting a batch, or finding the one that was started before."""

import json
import sys
from collections.abc import Callable
from typing import NamedTuple

import typer
from rich.console import Console
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from activities import asking
from commands.measuring.batches.following import Handle, followed
from commands.measuring.batches.reading import carried_runs
from commands.session import Exit, fail, say_unserved, unserved
from connection import TASK_QUEUE
from reflection.batch.request import BatchRequest
from reflection.batch.result import BatchResult

QUEUES = (TASK_QUEUE, asking.TASK_QUEUE)
BATCH = "BatchWorkflow"


class Order(NamedTuple):
    """A batch that a command wants: `agreed` is asked before anything new is paid for.

    `identity` is the batch's id, and `option` what --id takes to find it again.
    """

    identity: str
    option: str
    request: BatchRequest
    summary: str
    agreed: Callable[[], bool]
    detach: bool
    as_json: bool


async def made(client: Client, order: Order) -> BatchResult:
    """Return the result of a batch, which is started only where it was not before.

    Ends with typer.Exit where it is detached, not agreed to, or has no result.
    """
    handle = await _found(client, order) or await _started(client, order)
    if order.detach:
        said = json.dumps({"id": order.identity}) if order.as_json else order.identity
        sys.stdout.write(f"{said}\n")
        raise typer.Exit(Exit.DONE)
    return await followed(handle, order.option, order.as_json)


async def _found(client: Client, order: Order) -> Handle | None:
    described = await _described(client, order.identity)
    if described is None:
        return None
    await _refuse_another(client, described, order)
    finished = described.status is WorkflowExecutionStatus.COMPLETED
    if not finished and described.status is not WorkflowExecutionStatus.RUNNING:
        return None
    said = "was finished before, and nothing is paid again" if finished else "is under way"
    sys.stderr.write(f"the batch {order.identity} {said}\n")
    return client.get_workflow_handle(order.identity, result_type=BatchResult)


async def _described(client: Client, identity: str) -> WorkflowExecutionDescription | None:
    try:
        return await client.get_workflow_handle(identity).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
            return None
        raise


async def _refuse_another(
    client: Client, described: WorkflowExecutionDescription, order: Order
) -> None:
    """End where the id is of something else: its results would be taken for those of this file."""
    if described.workflow_type != BATCH:
        fail(f"the id {order.identity} is of another run. Choose another.", Exit.USAGE)
    earlier = await _request_of(client, described)
    wanted = order.request
    if earlier is None or (earlier.items, earlier.variants) != (wanted.items, wanted.variants):
        said = f"the batch {order.identity} was started with another file or other options"
        fail(f"{said}. Give the same, or choose another --id.", Exit.USAGE)


async def _request_of(
    client: Client, described: WorkflowExecutionDescription
) -> BatchRequest | None:
    handle = client.get_workflow_handle(described.id, run_id=described.run_id)
    async for event in handle.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        try:
            found = await client.data_converter.decode(list(payloads), [BatchRequest])
        except ApplicationError:
            return None
        return found[0] if found else None
    return None


async def _started(client: Client, order: Order) -> Handle:
    missing = await unserved(client, QUEUES)
    if missing:
        say_unserved(missing, "batch", waits=order.detach)
    carried = await carried_runs(client, order.request, order.identity)
    if not order.agreed():
        sys.stderr.write("Nothing was started.\n")
        raise typer.Exit(Exit.CANCELLED)
    try:
        handle: Handle = await client.start_workflow(
            BATCH,
            order.request.model_copy(update={"carried": carried}),
            id=order.identity,
            task_queue=TASK_QUEUE,
            result_type=BatchResult,
            static_summary=order.summary,
        )
    except WorkflowAlreadyStartedError:
        fail(f"the batch {order.identity} has just been started. Try again.", Exit.USAGE)
    Console(stderr=True).print(f"batch {order.identity}", style="dim", markup=False)
    return handle
