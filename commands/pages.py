"""A batch on the server: it is started or found, its pages go up, and it is followed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import typer
from rich.console import Console
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from commands.command import Exit, fail, need_workers, tell
from commands.follow import ended_badly, show_live
from commands.lines import Chosen, Given, Page
from mull.batch.loop import Batch
from mull.batch.request import BATCH_CONTINUES, ID_BYTES, PAGE_ID, BatchPage, BatchRequest, Planned
from mull.batch.result import BatchResult, BatchRun, RunResult
from mull.client import Client as Starter
from mull.errors import RunCancelledError, RunFailedError
from mull.handle import Run, described, sized
from mull.loops import BATCH, BY_WORKFLOW, Loop
from mull.news import LOOK_SECONDS
from mull.request import BATCH_PRIORITY
from mull.run import Counts
from mull.text import encoded_size, tally_words

BUDGETS = {"budget_tokens", "budget_usd"}
# What an earlier history left in its request.
ANEW = {"standing": None, "carried": (), "allowed": None, "spent": Counts()}
NOT_KEPT = "its result is no longer kept"

# Runs that are looked up side by side.
AT_ONCE = 16

Handle: TypeAlias = WorkflowHandle[Any, BatchResult]
Value = TypeVar("Value")
One = TypeVar("One")


async def opened(
    client: Client, identity: str, given: Given | None, chosen: Chosen
) -> tuple[Run[BatchResult], BatchRequest]:
    """Find the batch with this id, with all its pages there, or start it."""
    run = Run[BatchResult].of(client, BATCH, identity)
    found = await batch_by(client, identity)
    if found is not None:
        earlier = await _earlier(found, given)
        if found.goes_on:
            await _join(client, found, earlier, given, chosen)
            return run, earlier
        status = found.description.status
        if not chosen.retry and status is WorkflowExecutionStatus.COMPLETED:
            again = "" if earlier.variants[0].takes else "; --retry makes what has no result"
            tell(f"This batch is done, so nothing is paid again{again}.")
            return run, earlier
        if not (given or chosen.retry):
            if status is WorkflowExecutionStatus.CANCELED:
                return run, earlier
            fail("the batch has no result. Go on with --retry, or give FILE again.", Exit.USAGE)
        pages = given.pages if given else await _kept_pages(client, identity, earlier)
        # Whoever gives a budget replaces both: one alone could not be taken back.
        fresh = dict.fromkeys(BUDGETS) if BUDGETS & chosen.bounds.keys() else {}
        request = earlier.model_copy(update={**fresh, **chosen.bounds, **ANEW})
    elif given is None:
        fail("no batch has this id. List the runs with `mull list`.", Exit.USAGE)
    else:
        request, pages = given.request, given.pages
    if given is not None and not given.forecast.agreed(yes=chosen.yes):
        tell("Nothing was started.")
        raise typer.Exit(Exit.CANCELLED)
    await _start(client, identity, request, pages, chosen, given.name if given else "")
    await _upload(client, run.handle, request, pages)
    return run, request


async def _earlier(found: Run[Any], given: Given | None) -> BatchRequest:
    """Read what a batch was started with, or exit if it is another one."""
    identity, earlier = found.id, await found.request()
    # What calibrate and compare measure is read by these.
    if earlier is None or (given is None and (earlier.variants[0].takes or not earlier.pages)):
        fail(f"the id {identity} belongs to another run. Choose another id.", Exit.USAGE)
    asked: BatchRequest = earlier
    if given and (asked.digest, asked.variants) != (given.request.digest, given.request.variants):
        said = f"the batch {identity} was started with another file or other options"
        fail(f"{said}. Use the same ones, or choose another --id.", Exit.USAGE)
    return asked


async def _join(
    client: Client, found: Run[Any], request: BatchRequest, given: Given | None, chosen: Chosen
) -> None:
    """Send an open batch the pages that it lacks."""
    if chosen.retry:
        fail("the batch goes on: its failures can be retried once it has ended.", Exit.USAGE)
    if not request.pages:
        return
    accepted = (await found.look()).pages_accepted
    if given is not None:
        await _upload(client, found.handle, request, given.pages, accepted)
    elif accepted < request.pages:
        tell(f"{accepted:,} of {request.pages:,} pages are there: give FILE to go on.")


async def _start(
    client: Client,
    identity: str,
    request: BatchRequest,
    pages: list[Page],
    chosen: Chosen,
    name: str,
) -> None:
    """Start a batch, with what has a result already where it has its items with it."""
    if encoded_size(identity) > ID_BYTES:
        said = f"--id: at most {ID_BYTES} bytes, because the ids of the runs begin with it."
        fail(said, Exit.USAGE)
    variant = request.variants[0]
    first = pages[0] if pages else request.items
    queues = loop_of_runs(request).queues(variant.request_for(first[0]))
    await need_workers(client, queues, "batch", waits=chosen.detach)
    carried = await carried_over(client, identity, request)
    await Starter(client).begin(
        request.model_copy(update={"carried": carried}),
        identity,
        again=chosen.retry,
        # Its runs have that of the batch; pages have one of their own.
        priority=BATCH_PRIORITY if request.items else None,
        summary=f"batch of {name or variant.name}",
    )
    Console(stderr=True).print(f"batch {identity}", style="dim", markup=False, highlight=False)


def loop_of_runs(request: BatchRequest) -> Loop:
    """Find the workflow type of the runs of a batch."""
    return BY_WORKFLOW[request.variants[0].workflow]


async def _kept_pages(client: Client, identity: str, request: BatchRequest) -> list[Page]:
    """Read the items of a batch from its pages, or exit where some never came."""
    pages = list[Page]()
    for number in range(request.pages):
        found = await batch_by(client, identity + PAGE_ID.format(number))
        if found is None:
            fail(f"page {number:,} never came: give FILE too, beside --retry.", Exit.USAGE)
        pages.append(list((await found.request()).items))
    return pages


async def batch_by(client: Client, identity: str) -> Run[BatchResult] | None:
    """Find a batch or a page by its id; None if there is none."""
    seen = await described(client, identity)
    return None if seen is None else Run.of(client, BATCH, identity, seen)


async def _upload(
    client: Client, handle: Handle, request: BatchRequest, pages: list[Page], first: int = 0
) -> None:
    """Send the pages from the first one that is missing, each with what has a result already."""
    try:
        for sent, items in enumerate(pages[first:], start=first):
            page = BatchPage(number=sent, items=tuple(items))
            name = handle.id + PAGE_ID.format(sent)
            made = await carried_over(client, name, request.of_page(page))
            if await send_page(handle, page.model_copy(update={"carried": made})) is None:
                return
    except (asyncio.CancelledError, WorkflowUpdateRPCTimeoutOrCancelledError):
        there = f"{sent:,} of {tally_words(len(pages), 'page')}"
        tell(f"\nStopped with {there} sent. The same command with --id {handle.id} goes on.")
        raise asyncio.CancelledError from None
    if len(pages) > 1 and first < len(pages):
        tell(f"all {len(pages):,} pages accepted")


async def send_page(handle: Handle, page: BatchPage) -> int | None:
    """Send a page until it is accepted; return how many are there, None where the batch ended."""
    while True:
        try:
            return int(await handle.execute_update("add_page", sized(page)))
        except WorkflowUpdateFailedError as error:
            said = getattr(error.cause, "message", str(error.cause))
            if getattr(error.cause, "type", "") != BATCH_CONTINUES:
                if (await handle.query("progress"))["stop_reason"]:
                    tell(f"Page {page.number:,} was not taken: {said}.")
                    return None
                fail(f"page {page.number:,} was refused: {said}.", Exit.FAILED)
        except RPCError as error:
            # It goes on in a new history, or has ended.
            if error.status not in {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}:
                raise
            if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
                return None
        await asyncio.sleep(LOOK_SECONDS)


async def carried_over(
    client: Client, identity: str, request: BatchRequest
) -> tuple[BatchRun, ...]:
    """List the runs that an earlier batch with this id has completed."""
    if await described(client, identity) is None:
        return ()
    batch = Batch(request, identity)

    async def completed(planned: Planned) -> BatchRun | None:
        seen = await described(client, batch.id_of(planned))
        if seen is None or seen.status is not WorkflowExecutionStatus.COMPLETED:
            return None
        handle = client.get_workflow_handle(batch.id_of(planned), result_type=RunResult)
        return batch.run(planned, "completed", (await handle.result()).usage)

    found = await side_by_side(batch.waiting, completed)
    return tuple(run for run in found if run is not None)


async def side_by_side(many: Sequence[One], one: Callable[[One], Awaitable[Value]]) -> list[Value]:
    """Do one thing for each of many, a bounded number at a time; return the results in order."""
    places = asyncio.Semaphore(AT_ONCE)

    async def bounded(given: One) -> Value:
        async with places:
            return await one(given)

    return await asyncio.gather(*map(bounded, many))


async def followed(
    run: Run[BatchResult], request: BatchRequest, again: str, *, as_json: bool
) -> BatchResult:
    """Show a batch's progress, and return its result; Ctrl-C detaches, and says what `again` is."""
    detached = f"the batch continues. To see its result, run {again} {run.id}"
    try:
        result: BatchResult = await show_live(run, request, detached)
    except (RunFailedError, RunCancelledError) as error:
        raise typer.Exit(await ended_badly(error, run, as_json)) from None
    return result
