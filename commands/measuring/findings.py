"""The one path of a command that measures: its batch is opened and followed, and its runs read."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from rich.console import Console
from temporalio.client import Client, WorkflowFailureError

from commands import pages, plans
from commands.command import Exit, fail, new_id, options_of, place_for, with_client, write_file
from commands.follow import Wanted
from commands.lines import Chosen, Given, Page
from commands.loops import LOOPS, described
from commands.page import page_html
from commands.terminal import print_sheet
from mull.batch.request import ID_BYTES, PAGE_ID, BatchRequest
from mull.batch.result import BatchResult, BatchRun
from mull.sheet import Sheet
from mull.text import encoded_size


class Order(NamedTuple):
    """What a command wants measured: its batch, and the options that say how it is started."""

    command: str
    file: Path
    request: BatchRequest
    pages: list[Page]
    forecast: plans.Forecast
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
    identity = order.workflow_id or new_id(order.command, order.file.stem)
    if encoded_size(identity) > ID_BYTES:
        said = f"--id: at most {ID_BYTES} bytes, because the ids of the runs begin with it."
        fail(said)
    page = None if html is None else place_for("--html", html)
    if order.estimate:
        order.forecast.tell(as_json=order.as_json)
    name = f"{order.command} {order.file.name}"
    given = Given(name, order.request, order.pages, order.forecast)
    bounds = {name: getattr(order.request, name) for name in options_of(BatchRequest)}
    wanted = Wanted(order.as_json)
    chosen = Chosen(identity, False, order.detach, order.yes, wanted, "jsonl", bounds)

    async def measured(client: Client) -> Exit:
        handle, request = await pages.opened(client, identity, given, chosen)
        if order.detach:
            sys.stdout.write(f"{json.dumps({'id': identity}) if order.as_json else identity}\n")
            return Exit.DONE
        again = "the same command with --id"
        batch = await pages.followed(handle, request, again, as_json=order.as_json)
        found = find(identity, batch, await _read(client, identity, batch, order))
        if order.as_json:
            sys.stdout.write(json.dumps(found.document) + "\n")
        else:
            print_sheet(Console(), found.sheet, label="measured")
        if page is not None:
            write_file(page, page_html(found.sheet))
        return Exit.FAILED if found.all_failed else Exit.DONE

    with_client(measured)


async def _read(client: Client, identity: str, batch: BatchResult, order: Order) -> list[Read]:
    """Read all runs, with the places of their items in the file."""
    runs, first = list(batch.runs), 0
    for number, items in enumerate(order.pages):
        page = await pages.batch_by(client, identity + PAGE_ID.format(number))
        # A page that never came, or was ended by itself, has no result.
        with suppress(WorkflowFailureError):
            ended = (await page.handle.result()).runs if page else ()
            runs += [run.model_copy(update={"item": first + run.item}) for run in ended]
        first += len(items)
    kinds = {
        variant.name: loop.result
        for variant in order.request.variants
        for loop in LOOPS
        if loop.workflow == variant.workflow
    }

    async def read(run: BatchRun) -> Read:
        if run.status != "completed":
            return Read(run, None)
        seen = await described(client, run.workflow_id)
        if seen is None:
            return Read(run.model_copy(update={"error": pages.NOT_KEPT}), None)
        handle = client.get_workflow_handle(run.workflow_id, result_type=kinds[run.variant])
        closed, began = seen.close_time, seen.start_time
        seconds = (closed - began).total_seconds() if closed else None
        return Read(run, await handle.result(), seconds)

    return await pages.side_by_side(runs, read)
