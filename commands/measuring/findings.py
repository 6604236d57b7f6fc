"""The one path of a command that measures: its batch is opened and followed, and its runs read."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from temporalio.client import Client, WorkflowFailureError

from commands import pages, plans
from commands.command import (
    Exit,
    fail,
    options_of,
    place_for,
    print_id,
    print_json,
    with_client,
    write_file,
)
from commands.html.rendering import page_html
from commands.lines import Chosen, Given, Page
from commands.options import Wanted
from commands.plans import Findings, Read
from commands.terminal import print_sheet
from mull.batch.request import ID_BYTES, PAGE_ID, BatchRequest
from mull.batch.result import BatchResult, BatchRun
from mull.client import new_id
from mull.handle import described
from mull.loops import BY_WORKFLOW
from mull.text import encoded_size


def measure(
    name: str,
    batch: tuple[BatchRequest, list[Page]],
    forecast: plans.Forecast,
    how: plans.How,
    find: Callable[[str, BatchResult, Sequence[Read]], Findings],
    html: Path | None = None,
) -> NoReturn:
    """Make the batch's runs, unless they exist; print what `find` makes of them, and exit.

    `find` is given the batch's id, its result, and all its runs.
    """
    given = Given(name, *batch, forecast)
    command, _, file = name.partition(" ")
    identity = how.workflow_id or new_id(command, Path(file).stem)
    if encoded_size(identity) > ID_BYTES:
        fail(f"--id: at most {ID_BYTES} bytes, because the ids of the runs begin with it.")
    page = None if html is None else place_for("--html", html)
    if how.estimate:
        forecast.tell(as_json=how.as_json)
    bounds = {name: getattr(given.request, name) for name in options_of(BatchRequest)}
    wanted = Wanted(how.as_json)
    chosen = Chosen(identity, False, how.detach, how.yes, wanted, "jsonl", bounds)

    async def measured(client: Client) -> Exit:
        run, request = await pages.opened(client, identity, given, chosen)
        if how.detach:
            return print_id(identity, as_json=how.as_json)
        again = "the same command with --id"
        result = await pages.followed(run, request, again, as_json=how.as_json)
        findings = find(identity, result, await _read(client, identity, result, given))
        if how.as_json:
            print_json(findings.document)
        else:
            print_sheet(Console(), findings.sheet, label="measured")
        if page is not None:
            write_file(page, page_html(findings.sheet))
        return Exit.FAILED if findings.all_failed else Exit.DONE

    with_client(measured)


async def _read(client: Client, identity: str, batch: BatchResult, given: Given) -> list[Read]:
    """Read all runs, with the places of their items in the file."""
    runs, first = list(batch.runs), 0
    for number, items in enumerate(given.pages):
        page = await pages.batch_by(client, identity + PAGE_ID.format(number))
        # A page that never came, or was ended by itself, has no result.
        with suppress(WorkflowFailureError):
            ended = (await page.handle.result()).runs if page else ()
            runs += [run.model_copy(update={"item": first + run.item}) for run in ended]
        first += len(items)
    kinds = {one.name: BY_WORKFLOW[one.workflow].result for one in given.request.variants}

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
