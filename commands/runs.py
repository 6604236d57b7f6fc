"""`show`, `watch`, `list` and `report`: reading runs."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.text import Text
from temporalio.client import Client

from commands.command import (
    AcceptAny,
    Exit,
    Id,
    Json,
    connected,
    fail,
    place_for,
    print_json,
    tell,
    write_file,
)
from commands.follow import ended_badly, follow, print_record, say_further, show_result
from commands.found import facts_of, last_sheet, reach
from commands.html.rendering import page_html
from commands.measuring.replay import log_line
from commands.options import Wanted
from commands.run_list import (
    MOST_READ,
    PARENT,
    SHOWN,
    Row,
    batches_done,
    list_runs,
    result_words,
    standing_words,
    waits,
)
from commands.terminal import left_out_words, print_sheet
from mull.errors import RunCancelledError, RunFailedError
from mull.handle import Run
from mull.loops import SAMPLING, SESSION
from mull.text import tally_words, terminal_safe, usd

DOUBT = "  not to be built on: "
WHERE = (
    "Temporal's list filter, such as MullConfidence < 0.6. A batch's runs are listed only if it"
    f" names {PARENT}."
)
LOG = "Write the answers of ended runs of `ask` for `mull replay`, with gold left to fill in."
FILTERS = (
    f"It compares {', '.join(SHOWN)}, MullModel, WorkflowId, StartTime or ExecutionStatus with a"
    " value, such as \"MullConfidence < 0.6 AND ExecutionStatus = 'Completed'\"."
)


@connected
async def show(
    client: Client, run: Id, accept_any: AcceptAny = False, as_json: Json = False
) -> Exit:
    """Show a run: its result, or where it stands.

    Example: mull show ask-is-91-prime-7f3a91c2
    """
    found = await reach(client, run)
    loop = found.loop
    if not found.goes_on:
        try:
            result = await found.result()
        except (RunFailedError, RunCancelledError) as error:
            return await ended_badly(error, found, as_json, whole=True)
        run_id, sheet = found.description.run_id, loop.sheet(result)
        wanted = Wanted(as_json, accept_any)
        return show_result(found, sheet, result, run_id, wanted, decisions=True)
    seen = await found.look()
    if as_json:
        print_record(found, seen)
    else:
        sheet = loop.sheet(seen)
        print_sheet(Console(), sheet, subject=True, decisions=True)
        if sheet.waiting:
            tell(f"To look at it and decide:\n    mull review {run}")
        say_further(found)
    return Exit.DONE


@connected
async def watch(
    client: Client, run: Id, accept_any: AcceptAny = False, as_json: Json = False
) -> Exit:
    """Follow a run live until it ends; Ctrl-C never cancels it.

    Example: mull watch ask-is-91-prime-7f3a91c2
    """
    found = await reach(client, run)
    request = await found.request()
    return await follow(found, request, Wanted(as_json, accept_any))


@connected
async def report(
    client: Client,
    run: Id,
    html: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
) -> Exit:
    """Write a page about a finished run: curves, decisions and cost.

    Example: mull report ask-is-91-prime-7f3a91c2 --html report.html
    """
    found = await reach(client, run)
    if found.loop is SESSION:
        fail(f"{run} is a session. Its turns have pages, such as {run}-turn-1.")
    if not found.loop.answers:
        findings = f"repeat the calibrate or compare command with --id {run} --html {html}"
        said = f"{run} is a batch; each of its runs has a page (see mull batch --id {run})."
        fail(f"{said} For the findings of a measurement, {findings}.")
    if found.goes_on:
        fail(f"the run has not ended. Follow it with `mull watch {run}`.")
    place = place_for("--html", html)
    request = await found.request()
    sheet = await last_sheet(found, request)
    write_file(place, page_html(sheet, facts_of(found, request)))
    return Exit.DONE


@connected
async def list_(
    client: Client,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="The most runs to list.")
    ] = 20,
    where: Annotated[str | None, typer.Option(metavar="FILTER", help=WHERE)] = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help=LOG)] = None,
    as_json: Json = False,
) -> Exit:
    """List runs, newest first: to find an id, or what waits for you.

    Example: mull list --where "MullNeedsReview = true"
    """
    place = None if log is None else place_for("--log", log)
    if place is not None and place.exists():
        fail(f"--log: {log} exists, and may hold gold answers. Choose another file.")
    found = await list_runs(client, where, limit)
    if found is None:
        fail(f"--where: the server can't read this filter. {FILTERS}")
    rows = sorted(found.rows, key=lambda row: datetime.fromisoformat(row["started"]), reverse=True)
    if place is not None:
        lines = [line async for line in _log(client, rows)]
        write_file(place, "".join(lines), f"answers of {tally_words(len(lines), 'run')}")
    if as_json:
        print_json({"runs": rows})
    elif rows and place is None:
        console = Console()
        batches = await batches_done(client, rows)
        console.print(runs_table(rows, batches, console.width), crop=False)
        if len(rows) == limit:
            tell(f"There may be more: --limit lists more than {limit}.")
    elif not rows:
        none = 'No runs yet. Start one: mull ask "Is 91 prime?"'
        tell(none if where is None else "No run matches this filter.")
    return Exit.DONE


async def _log(client: Client, rows: Sequence[Row]) -> AsyncIterator[str]:
    """Yield a line for each run of `ask` that has a result with answers of a model."""
    for row in rows:
        if (row["workflow"], row["status"]) == (SAMPLING.workflow, "completed"):
            found = Run[Any].of(client, SAMPLING, row["id"], run_id=row["run_id"])
            request, result = await found.request(), await found.result()
            if request and any(response.author is None for response in result.responses):
                yield log_line(request, result)


def runs_table(rows: Sequence[Row], batches: Mapping[str, str], width: int) -> Group:
    """Write a line for each run: id, status, start, quality of the result, cost; and its question.

    Columns that do not fit are left out, the last ones first, and named below the table; ids are
    never cut if it is printed without cropping. `batches` has the progress of open batches by run
    id. A row has the fields of `list --json`.
    """
    columns = {
        "id": [row["id"] for row in rows],
        "ended by": [batches.get(row["run_id"]) or standing_words(row) or "-" for row in rows],
        "start (UTC)": [
            f"{datetime.fromisoformat(row['started']).astimezone(UTC):%m-%d %H:%M}" for row in rows
        ],
        "result": [result_words(row) for row in rows],
        "cost": ["-" if (cost := row["MullCostUsd"]) is None else usd(cost) for row in rows],
    }
    widths = {name: max(map(cell_len, (name, *cells))) for name, cells in columns.items()}
    while len(widths) > 2 and sum(widths.values()) + len(widths) > width:
        widths.popitem()
    head = "─" * (sum(widths.values()) + len(widths) - 1)
    lines = [(" ".join(f"{name:<{room}}" for name, room in widths.items()), ""), (head, "")]
    for place, row in enumerate(rows):
        cells = (set_cell_size(columns[name][place], room) for name, room in widths.items())
        lines.append((" ".join(cells), "bold" if waits(row) else ""))
        turns = row.get("turns") or ()
        asked = terminal_safe(row.get("asked") or "", width - 2)
        label = "turns" if len(turns) < MOST_READ else "newest turns"
        below = f"{label}: {' to '.join(dict.fromkeys((turns[-1], turns[0])))}" if turns else asked
        lines += [(f"  {below}", "dim")] if below else []
        if doubt := row.get("doubt"):
            lines.append((f"{DOUBT}{terminal_safe(doubt, max(width - len(DOUBT), 1))}", "yellow"))
    shown = [Text(line.rstrip(), style, no_wrap=True, overflow="ignore") for line, style in lines]
    if left_out := [name for name in columns if name not in widths]:
        shown.append(left_out_words(left_out, width))
    return Group(*shown)
