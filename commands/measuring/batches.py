"""Find or start a batch of runs, follow it, and read the results of its runs."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import typer
from rich.console import Console
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.language_model import port
from commands.follow import new_id
from commands.session import Exit, fail, say_unserved, unserved
from commands.terminal import print_steps
from connection import TASK_QUEUE
from reflection.batch.loop import Batch
from reflection.batch.request import BatchRequest, Planned, RunType
from reflection.batch.result import BatchProgress, BatchResult, BatchRun, RunResult
from reflection.batch.sheet import sheet
from reflection.critique.result import ReflectOnResultResult
from reflection.run import Record, encoded_size
from reflection.sampling.result import SelfConsistencyResult
from reflection.text import tally_words, terminal_safe

BATCH = "BatchWorkflow"
QUEUES = (TASK_QUEUE, port.TASK_QUEUE)
RESULTS: dict[RunType, type[Record]] = {
    "ReflectOnResultWorkflow": ReflectOnResultResult,
    "SelfConsistencyWorkflow": SelfConsistencyResult,
}
# A batch's id may have 100; a batch that scores answers adds a word and a number to it.
MOST_ID_BYTES = 85
AT_ONCE = 16
LOOK_SECONDS = 1.0
LOOK = timedelta(seconds=10)

Handle: TypeAlias = WorkflowHandle[Any, BatchResult]
Value = TypeVar("Value")
Given = TypeVar("Given")


class Order(NamedTuple):
    """A batch to find or to start; `agreed` is called before anything new is paid for.

    `identity` is the batch's id, and `option` the value of --id that finds it again.
    """

    identity: str
    option: str
    request: BatchRequest
    summary: str
    agreed: Callable[[], bool]
    detach: bool
    as_json: bool


class Read(NamedTuple):
    """A run, its result (None if it has none), and its duration in seconds."""

    run: BatchRun
    result: Any
    seconds: float | None = None


def order(
    command: str,
    file: Path,
    request: BatchRequest,
    agreed: Callable[[], bool],
    identity: str | None,
    detach: bool,
    as_json: bool,
) -> Order:
    """Describe a command's batch, with a readable id if none is given."""
    chosen = identity or new_id(command, file.stem)
    if encoded_size(chosen) > MOST_ID_BYTES:
        said = f"--id: at most {MOST_ID_BYTES} bytes, because the ids of the runs begin with it."
        fail(said, Exit.USAGE)
    summary = terminal_safe(f"{command} {file.name}: {tally_words(request.total, 'run')}", 120)
    return Order(chosen, chosen, request, summary, agreed, detach, as_json)


async def made(client: Client, order: Order) -> tuple[BatchResult, list[Read]]:
    """Return the results of a batch and of its runs; start it unless it exists.

    Raises typer.Exit if it is detached, not agreed to, or has no result.
    """
    handle = await _found(client, order) or await _started(client, order)
    if order.detach:
        said = json.dumps({"id": order.identity}) if order.as_json else order.identity
        sys.stdout.write(f"{said}\n")
        raise typer.Exit(Exit.DONE)
    batch = await _followed(handle, order)
    kinds = {variant.name: RESULTS[variant.workflow] for variant in order.request.variants}
    reads = await _side_by_side(batch.runs, lambda run: _read(client, run, kinds[run.variant]))
    return batch, reads


async def _found(client: Client, order: Order) -> Handle | None:
    """Find the batch with this id that is running or has completed."""
    described = await _described(client, order.identity)
    if described is None:
        return None
    # Another run's results must not be taken for those of this file.
    if described.workflow_type != BATCH:
        fail(f"the id {order.identity} belongs to another run. Choose another id.", Exit.USAGE)
    earlier, wanted = await _request(client, described), order.request
    if earlier is None or (earlier.items, earlier.variants) != (wanted.items, wanted.variants):
        said = f"the batch {order.identity} was started with another file or other options"
        fail(f"{said}. Use the same ones, or choose another --id.", Exit.USAGE)
    finished = described.status is WorkflowExecutionStatus.COMPLETED
    if not finished and described.status is not WorkflowExecutionStatus.RUNNING:
        return None
    said = "has already completed; nothing is paid again" if finished else "is running"
    sys.stderr.write(f"the batch {order.identity} {said}\n")
    return client.get_workflow_handle(order.identity, result_type=BatchResult)


async def _described(client: Client, identity: str) -> WorkflowExecutionDescription | None:
    """Describe a run; None if there is none. A missing namespace is still an error."""
    try:
        return await client.get_workflow_handle(identity).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
            return None
        raise


async def _request(client: Client, described: WorkflowExecutionDescription) -> BatchRequest | None:
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
    carried = await _carried(client, order)
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
        fail(f"the batch {order.identity} was started meanwhile. Try again.", Exit.USAGE)
    Console(stderr=True).print(f"batch {order.identity}", style="dim", markup=False)
    return handle


async def _carried(client: Client, order: Order) -> tuple[BatchRun, ...]:
    """List the runs that an earlier batch with this id has completed."""
    if await _described(client, order.identity) is None:
        return ()
    batch = Batch(order.request, order.identity)

    async def completed(planned: Planned) -> BatchRun | None:
        described = await _described(client, batch.id_of(planned))
        if described is None or described.status is not WorkflowExecutionStatus.COMPLETED:
            return None
        handle = client.get_workflow_handle(batch.id_of(planned), result_type=RunResult)
        return batch.run(planned, "completed", (await handle.result()).usage)

    found = await _side_by_side(batch.waiting, completed)
    return tuple(run for run in found if run is not None)


async def _read(client: Client, run: BatchRun, kind: type[Record]) -> Read:
    described = await _described(client, run.workflow_id) if run.status == "completed" else None
    if described is None:
        gone = {"error": "its result is no longer kept"} if run.status == "completed" else {}
        return Read(run.model_copy(update=gone), None)
    result = await client.get_workflow_handle(run.workflow_id, result_type=kind).result()
    closed = described.close_time
    return Read(run, result, (closed - described.start_time).total_seconds() if closed else None)


async def _side_by_side(
    many: Sequence[Given], one: Callable[[Given], Awaitable[Value]]
) -> list[Value]:
    places = asyncio.Semaphore(AT_ONCE)

    async def bounded(given: Given) -> Value:
        async with places:
            return await one(given)

    return await asyncio.gather(*map(bounded, many))


async def _followed(handle: Handle, order: Order) -> BatchResult:
    """Show a batch's progress, and return its result; Ctrl-C detaches."""
    again = f"the same command with --id {order.option}"
    ending = asyncio.create_task(handle.result())
    try:
        await _show(handle, ending)
        return await ending
    except WorkflowFailureError as error:
        cause, code = error.cause, Exit.FAILED
        status, said = "failed", f"the batch failed: {terminal_safe(str(cause), 500)}"
        if isinstance(cause, CancelledError):
            status, said, code = "cancelled", "the batch was cancelled", Exit.CANCELLED
        elif isinstance(cause, TerminatedError):
            status, said = "terminated", "the batch was terminated"
        if order.as_json:
            document = {"id": order.option, "status": status, "error": said}
            sys.stdout.write(json.dumps(document) + "\n")
        fail(f"{said}. T{again[1:]} continues from the runs that have ended.", code)
    except asyncio.CancelledError:
        sys.stderr.write(f"\nDetached; the batch continues. To see its result, run {again}\n")
        raise


async def _show(handle: Handle, ending: "asyncio.Task[BatchResult]") -> None:
    """Show the progress until the end: on one line in a terminal, otherwise at each tenth."""
    console, shown = Console(stderr=True), 0
    with console.status("making runs") if console.is_terminal else nullcontext() as status:
        while not ending.done():
            await asyncio.wait({ending}, timeout=LOOK_SECONDS)
            if ending.done():
                break
            try:
                progress: BatchProgress = await handle.query(
                    "progress", result_type=BatchProgress, rpc_timeout=LOOK
                )
            except (RPCError, WorkflowQueryFailedError):
                continue
            seen = sheet(progress)
            if status:
                status.update(seen.busy)
            else:
                shown = print_steps(console, seen.steps, shown)
