"""Runs side by side, a batch as a table of its runs, and findings that somebody opens."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from commands.found import status_words
from commands.html.rendering import setting_words, shown
from commands.measuring import calibrate, compare, replay
from commands.pages import batch_by, loop_of_runs
from commands.run_list import HERE, PARENT, SHOWN, result_words, standing_words, waits
from commands.web.rendering import Page, page_of, render
from commands.web.run import find
from mull import Client, MullError, RequestError, Run
from mull.batch.loop import Batch
from mull.batch.request import PAGE_ID, BatchRequest
from mull.loops import BATCH
from mull.request import explain, unambiguous_json
from mull.sheet import Fact, Sheet
from mull.text import terminal_safe

MOST_COMPARED, ANSWER_COLUMNS = 6, 160
EXPECTED = "Expected is what `calibrate`, `compare` or `replay` prints with --json."
# A field that only the document of this measurement has.
DRAWN: Mapping[str, Callable[[Any], Sheet]] = {
    "judges": calibrate.sheet_of,
    "comparison": compare.sheet_of,
    "rules": replay.sheet_of,
}
# The fields of a memo with the beginning of what a run gave.
ANSWERS = ("answer", "draft", "output")
OUTCOMES = ("good", "doubtful", "failed", "waiting", "running", "missing")
SORTS = {"line": "as given", "measure": "the least sure first", "cost": "the dearest first"}
TONES = {"good": "good", "doubtful": "warning", "failed": "bad", "waiting": "waits", "missing": ""}


class RunColumn(NamedTuple):
    """A run beside others: its sheet, or why there is none, and what it was asked with."""

    run: Run[Any]
    run_id: str
    sheet: Sheet | None
    error: str
    settings: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What names it here."""
        return self.sheet.subject if self.sheet else self.run.id

    def fact(self, label: str) -> list[Fact]:
        """List the facts of this name."""
        return [fact for fact in self.sheet.facts if fact.label == label] if self.sheet else []

    def setting(self, name: str) -> str:
        """Write what was set for a field; empty for its default."""
        value = self.settings.get(name)
        return "" if value is None else setting_words(value)


async def side_by_side(request: Request) -> Response:
    """Show chosen runs side by side: their answers, what is known of each, and how they differ."""
    chosen = list(dict.fromkeys(request.query_params.getlist("run")))
    if len(chosen) > MOST_COMPARED:
        said = f"{len(chosen)} runs are too many to compare"
        raise RequestError(said, f"Choose at most {MOST_COMPARED}.")
    page = page_of(request)
    columns = await asyncio.gather(*(_column(page, run_id) for run_id in chosen))
    facts = [fact.label for one in columns if one.sheet for fact in one.sheet.facts]
    asked = [name for one in columns for name in one.settings]
    subjects = {one.run.loop.request.subject_field for one in columns}
    return await asyncio.to_thread(
        render,
        request,
        "compare.html.j2",
        columns=columns,
        labels=list(dict.fromkeys(facts)),
        flagged=any(one.sheet and (one.sheet.flags or one.sheet.warnings) for one in columns),
        differ=[
            name
            for name in dict.fromkeys(asked)
            if name not in subjects and len({one.setting(name) for one in columns}) > 1
        ],
    )


async def _column(page: Page, run_id: str) -> RunColumn:
    try:
        run_id = str(uuid.UUID(run_id))
    except ValueError:
        raise RequestError("this address is not one of runs", "Choose them in the list.") from None
    run, sheet, error = await find(page, run_id), None, ""
    request = await run.request()
    try:
        seen = await run.look()
        sheet = run.loop.sheet(seen, request)
    except MullError as found:
        error = str(found)
    settings = request.model_dump(mode="json", exclude_unset=True) if request else {}
    return RunColumn(run, run_id, sheet, error, settings)


class RunCell(NamedTuple):
    """A run of a batch: how it ended, what it gave, and what that is worth."""

    outcome: str
    ended: str = ""
    run_id: str = ""
    answer: str = ""
    measure: float | None = None
    measured: str = ""
    cost: float | None = None
    doubt: str = ""

    @property
    def tone(self) -> str:
        """How its outcome is shown."""
        return TONES.get(self.outcome, self.outcome)


MISSING = RunCell("missing", "not started")


class BatchLine(NamedTuple):
    """A line of a batch: its number from 1, what it is about, and its runs by column."""

    number: int
    about: str
    label: str
    gold: str
    cells: Sequence[RunCell]

    def before(self, sort: str) -> float:
        """Return its sort key: for the least sure first, the dearest first, or as given."""
        measures = [one.measure for one in self.cells if one.measure is not None]
        orders = {
            "measure": min(measures, default=2.0),
            "cost": -sum(one.cost or 0.0 for one in self.cells),
        }
        return orders.get(sort, self.number)


async def batch(request: Request) -> Response:
    """Show the lines of a batch, or of one of its pages, each with its runs."""
    client, given = page_of(request).client, request.query_params
    run_id = str(request.path_params["run_id"])
    run = await find(page_of(request), run_id)
    if run.loop is not BATCH:
        raise RequestError("this run is not a batch")
    asked, identity = await run.request(), run.id
    pages = asked.pages if asked else 0
    part = next((number for number in range(pages) if str(number) == given.get("part")), 0)
    if pages:
        identity += PAGE_ID.format(part)
        page = await batch_by(client.temporal, identity)
        asked = await page.request() if page else None
    lines = await _lines(client, identity, asked) if asked else []
    outcome, sort = given.get("outcome", ""), given.get("sort", "line")
    counts = {name: sum(c.outcome == name for one in lines for c in one.cells) for name in OUTCOMES}
    kept = [one for one in lines if not outcome or outcome in {c.outcome for c in one.cells}]
    return render(
        request,
        "batch.html.j2",
        run=run,
        run_id=run_id,
        columns=_columns(asked) if asked else [],
        lines=sorted(kept, key=lambda one: one.before(sort)),
        counts=counts,
        outcome=outcome,
        sort=sort,
        sorts=SORTS,
        part=part,
        pages=pages,
    )


def _columns(asked: BatchRequest) -> list[tuple[int, int, str]]:
    """List the columns: a variant, how often it was run before, and their name."""
    return [
        (place, repeat, f"{one.name}, {repeat + 1}" if one.repeats > 1 else one.name)
        for place, one in enumerate(asked.variants)
        for repeat in range(one.repeats)
    ]


async def _lines(client: Client, identity: str, asked: BatchRequest) -> list[BatchLine]:
    cells = {name: cell async for name, cell in _cells(client, identity)}
    names = Batch(asked.model_copy(update={"carried": ()}), identity)
    places = {(one.item, one.variant, one.repeat): names.id_of(one) for one in asked.plan()}
    first = asked.variants[0]
    subject = loop_of_runs(asked).request.subject_field
    return [
        BatchLine(
            at + 1,
            terminal_safe(str(first.fields_for(item).get(subject, "")), 300),
            str(item.get("id", "")),
            str(item.get("gold", "")),
            [cells.get(places[at, *column[:2]], MISSING) for column in _columns(asked)],
        )
        for at, item in enumerate(asked.items)
    ]


async def _cells(client: Client, parent: str) -> AsyncIterator[tuple[str, RunCell]]:
    """Yield the runs of a batch by their ids, the newest of each last, without a call for each."""
    where = f"{PARENT} = {json.dumps(parent, ensure_ascii=False)} AND {HERE}"
    listed = [run async for run in client.temporal.list_workflows(where)]
    for run in sorted(listed, key=lambda run: run.start_time):
        known = {pair.key.name: pair.value for pair in run.typed_search_attributes}
        row = {name: known.get(name) for name in SHOWN}
        row |= {"workflow": run.workflow_type, "status": status_words(run.status)}
        memo = await run.memo()
        doubt, going = str(memo.get("doubt") or ""), row["status"] == "running"
        ended = "good" if row["status"] == "completed" else "failed"
        outcome = "running" if going else "doubtful" if doubt and ended == "good" else ended
        given = next((memo[name] for name in ANSWERS if memo.get(name)), "")
        share = row["MullScore"] if row["MullConfidence"] is None else row["MullConfidence"]
        yield (
            run.id,
            RunCell(
                "waiting" if waits(row) else outcome,
                standing_words(row) or "",
                run.run_id,
                terminal_safe(str(given), ANSWER_COLUMNS),
                share,
                result_words(row),
                row["MullCostUsd"],
                doubt,
            ),
        )


async def ask_for_findings(request: Request) -> Response:
    """Ask for a file with the JSON of a measurement."""
    return render(request, "findings.html.j2", sheet=None, error="")


async def open_findings(request: Request) -> Response:
    """Show the JSON of a measurement that somebody sends. It is kept nowhere."""
    async with request.form() as form:
        sent = form.get("file")
        data = b"" if sent is None or isinstance(sent, str) else await sent.read()
    try:
        sheet = await asyncio.to_thread(sheet_of_findings, data)
    except RequestError as error:
        return render(request, "findings.html.j2", 422, sheet=None, error=str(error))
    about: dict[str, Any] = shown(sheet)
    return render(request, "findings.html.j2", error="", **about)


def sheet_of_findings(data: bytes) -> Sheet:
    """Draw the JSON of a measurement. Raises RequestError."""
    try:
        document = unambiguous_json(data)
        draw = next((one for name, one in DRAWN.items() if name in document), None)
        if draw is not None:
            return draw(document)
        why = ""
    except (ValueError, TypeError, OverflowError) as error:
        why = f": {explain(error)}" if isinstance(error, ValueError) else ""
    raise RequestError(f"this file can't be opened{why}", EXPECTED)


ROUTES = (
    Route("/compare", side_by_side),
    Route("/batch/{run_id:uuid}", batch),
    Route("/open", ask_for_findings, methods=["GET"]),
    Route("/open", open_findings, methods=["POST"]),
)
