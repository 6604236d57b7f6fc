"""The one path of a command that measures: start or find its batch, collect the runs, print."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import typer
from rich.console import Console
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from commands.command import Exit, fail, place_for, say_unserved, unserved, with_client, write_file
from commands.follow import ended_badly, new_id, show_live
from commands.loops import BATCH, FoundRun, request_of
from commands.measuring.plans import Forecast
from commands.page import page_html
from commands.terminal import print_sheet
from connection import TASK_QUEUE
from reflection.batch.loop import Batch
from reflection.batch.request import BatchRequest, Planned, RunType
from reflection.batch.result import BatchResult, BatchRun, RunResult
from reflection.critique.result import ReflectOnResultResult
from reflection.request import Record
from reflection.sampling.result import SelfConsistencyResult
from reflection.sheet import Sheet
from reflection.text import encoded_size, tally_words, terminal_safe

RESULTS: dict[RunType, type[Record]] = {
    "ReflectOnResultWorkflow": ReflectOnResultResult,
    "SelfConsistencyWorkflow": SelfConsistencyResult,
}
AT_ONCE = 16

Handle: TypeAlias = WorkflowHandle[Any, BatchResult]
Value = TypeVar("Value")
Given = TypeVar("Given")


class Order(NamedTuple):
    """What a command wants measured: its batch, and the options that say how it is started."""

    command: str
    file: Path
    request: BatchRequest
    forecast: Forecast
    workflow_id: str | None
    estimate: bool
    yes: bool
    detach: bool
    as_json: bool


class Read(NamedTuple):
    """A run, its result (None if it has none), and its duration in seconds."""

    run: BatchRun
    result: Any
    seconds: float | None = None


class Findings(NamedTuple):
    """What a command found: a JSON document, a sheet, and whether every run failed."""

    document: dict[str, Any]
    sheet: Sheet
    all_failed: bool


def measure(
    order: Order,
    find: Callable[[str, BatchResult, Sequence[Read]], Findings],
    html: Path | None = None,
) -> NoReturn:
    """Make the batch's runs, unless they exist; print what `find` makes of them, and exit.

    `find` is given the batch's id, its result, and all its runs.
    """
    chosen = order.workflow_id or new_id(order.command, order.file.stem)
    if encoded_size(chosen) > (most := order.request.id_bytes):
        said = f"--id: at most {most} bytes, because the ids of the runs begin with it."
        fail(said, Exit.USAGE)
    page = None if html is None else place_for("--html", html)
    if order.estimate:
        order.forecast.tell(as_json=order.as_json)

    async def measured(client: Client) -> Exit:
        handle = await _found(client, chosen, order.request)
        handle = handle or await _started(client, chosen, order)
        if order.detach:
            said = json.dumps({"id": chosen}) if order.as_json else chosen
            sys.stdout.write(f"{said}\n")
            return Exit.DONE
        batch = await _followed(handle, order)
        found = find(chosen, batch, await _side_by_side(batch.runs, _reader(client, order.request)))
        if order.as_json:
            sys.stdout.write(json.dumps(found.document) + "\n")
        else:
            print_sheet(Console(), found.sheet, label="measured")
        if page is not None:
            write_file(page, page_html(found.sheet))
        return Exit.FAILED if found.all_failed else Exit.DONE

    with_client(measured)


async def _found(client: Client, identity: str, wanted: BatchRequest) -> Handle | None:
    """Find the batch with this id that is running or has completed."""
    described = await _described(client, identity)
    if described is None:
        return None
    # Another run's results must not be taken for those of this file.
    if described.workflow_type != BATCH.workflow:
        fail(f"the id {identity} belongs to another run. Choose another id.", Exit.USAGE)
    handle = client.get_workflow_handle(identity, run_id=described.run_id)
    earlier = await request_of(client, FoundRun(handle, BATCH, described))
    if earlier is None or (earlier.items, earlier.variants) != (wanted.items, wanted.variants):
        said = f"the batch {identity} was started with another file or other options"
        fail(f"{said}. Use the same ones, or choose another --id.", Exit.USAGE)
    finished = described.status is WorkflowExecutionStatus.COMPLETED
    if not finished and described.status is not WorkflowExecutionStatus.RUNNING:
        return None
    said = "has already completed; nothing is paid again" if finished else "is running"
    sys.stderr.write(f"the batch {identity} {said}\n")
    return client.get_workflow_handle(identity, result_type=BatchResult)


async def _described(client: Client, identity: str) -> WorkflowExecutionDescription | None:
    """Describe a run; None if there is none. A missing namespace is still an error."""
    try:
        return await client.get_workflow_handle(identity).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
            return None
        raise


async def _started(client: Client, identity: str, order: Order) -> Handle:
    missing = await unserved(client, BATCH.queues(order.request))
    if missing:
        say_unserved(missing, "batch", waits=order.detach)
    carried = await _carried(client, identity, order.request)
    if not order.forecast.agreed(yes=order.yes):
        sys.stderr.write("Nothing was started.\n")
        raise typer.Exit(Exit.CANCELLED)
    runs = tally_words(order.request.total, "run")
    try:
        handle: Handle = await client.start_workflow(
            BATCH.workflow,
            order.request.model_copy(update={"carried": carried}),
            id=identity,
            task_queue=TASK_QUEUE,
            result_type=BatchResult,
            static_summary=terminal_safe(f"{order.command} {order.file.name}: {runs}", 120),
        )
    except WorkflowAlreadyStartedError:
        fail(f"the batch {identity} was started meanwhile. Try again.", Exit.USAGE)
    Console(stderr=True).print(f"batch {identity}", style="dim", markup=False)
    return handle


async def _carried(client: Client, identity: str, request: BatchRequest) -> tuple[BatchRun, ...]:
    """List the runs that an earlier batch with this id has completed."""
    if await _described(client, identity) is None:
        return ()
    batch = Batch(request, identity)

    async def completed(planned: Planned) -> BatchRun | None:
        described = await _described(client, batch.id_of(planned))
        if described is None or described.status is not WorkflowExecutionStatus.COMPLETED:
            return None
        handle = client.get_workflow_handle(batch.id_of(planned), result_type=RunResult)
        run = batch.run(planned, "completed", (await handle.result()).usage)
        return run.model_copy(update={"workflow_id": ""})

    found = await _side_by_side(batch.waiting, completed)
    return tuple(run for run in found if run is not None)


def _reader(client: Client, request: BatchRequest) -> Callable[[BatchRun], Awaitable[Read]]:
    kinds = {variant.name: RESULTS[variant.workflow] for variant in request.variants}

    async def read(run: BatchRun) -> Read:
        if run.status != "completed":
            return Read(run, None)
        described = await _described(client, run.workflow_id)
        if described is None:
            gone = {"error": "its result is no longer kept"}
            return Read(run.model_copy(update=gone), None)
        handle = client.get_workflow_handle(run.workflow_id, result_type=kinds[run.variant])
        closed, began = described.close_time, described.start_time
        seconds = (closed - began).total_seconds() if closed else None
        return Read(run, await handle.result(), seconds)

    return read


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
    ending = asyncio.create_task(handle.result())
    try:
        await show_live(handle, BATCH, order.request, ending)
        return await ending
    except WorkflowFailureError as error:
        raise typer.Exit(await ended_badly(error, handle, BATCH, order.as_json)) from None
    except asyncio.CancelledError:
        again = f"the same command with --id {handle.id}"
        sys.stderr.write(f"\nDetached; the batch continues. To see its result, run {again}\n")
        raise
