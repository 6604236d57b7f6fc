"""The results of a file's lines, in their order: read page by page, and printed as they come."""

import csv
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, get_args
from xml.etree import ElementTree as ET

from rich.console import Console
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError, RPCStatusCode

from commands.command import Exit, tell
from commands.lines import Chosen, Given, Page
from commands.pages import NOT_KEPT, batch_by, followed, loop_of_runs, opened, side_by_side
from commands.terminal import print_sheet
from mull.batch.loop import Batch
from mull.batch.request import LABELS, PAGE_ID, BatchPage, BatchRequest
from mull.batch.result import BatchResult, BatchRun, RunStatus
from mull.client import new_id
from mull.loops import BATCH, Loop
from mull.text import spaced, tally_words, terminal_safe, well_formed

COLUMNS = (
    "line", "id", "gold", "status", "answer", "stop_reason", "confidence", "probability", "score",
    "doubt", "tokens", "cost_usd", "workflow_id", "error",
)  # fmt: skip

Row = dict[str, Any]


async def run(client: Client, given: Given | None, chosen: Chosen) -> Exit:
    """Start a batch, or go on with it; follow it, and print the result of each line."""
    identity = chosen.workflow_id or new_id("batch", given.name if given else "")
    begun, request = await opened(client, identity, given, chosen)
    ended, wanted = None, chosen.wanted
    if chosen.detach:
        sys.stdout.write(f"{json.dumps({'id': identity}) if wanted.as_json else identity}\n")
        return Exit.DONE
    if (await begun.handle.describe()).status is not WorkflowExecutionStatus.CANCELED:
        out = f" --out {shlex.quote(str(wanted.out))}" if wanted.out else ""
        ended = await followed(begun, request, f"mull batch{out} --id", as_json=wanted.as_json)
    rows = _rows(client, identity, request, wanted.required, given.pages if given else [])
    return await _print(identity, request, rows, ended, chosen)


async def _rows(
    client: Client, identity: str, request: BatchRequest, required: Any, pages: list[Page]
) -> AsyncIterator[Row]:
    """Yield the outcome of each line in order; a page of them is in memory at once.

    Lines of a page that is not there are known by the file's `pages` alone.
    """
    line = 0
    for number in range(request.pages):
        found, runs = await batch_by(client, identity + PAGE_ID.format(number)), None
        if found is not None:
            own = await found.request()
            with suppress(WorkflowFailureError):
                runs = (await found.handle.result()).runs
        elif pages:
            own = request.of_page(BatchPage(number=number, items=tuple(pages[number])))
        else:
            missing = tally_words(request.pages - number, "page")
            tell(f"{missing} of the file never came: give FILE too, to see which lines these are.")
            return
        read = partial(_row, client, loop_of_runs(request), required, runs is not None)
        runs = runs or Batch(own, identity + PAGE_ID.format(number)).result().runs
        for made, row in zip(runs, await side_by_side(runs, read), strict=True):
            line += 1
            known = {"line": line, **{name: own.items[made.item].get(name) for name in LABELS}}
            yield {**dict.fromkeys(columns_of(request)), **known, **row}


def columns_of(request: BatchRequest) -> tuple[str, ...]:
    """Name the columns of a batch's rows."""
    return (*COLUMNS, *loop_of_runs(request).measures)


async def _row(client: Client, loop: Loop, required: Any, told: bool, made: BatchRun) -> Row:
    """Read the outcome of a run; where its page has told of none, whatever became of it."""
    row = made.model_dump(include={"status", "tokens", "cost_usd", "workflow_id", "error"})
    if made.status == "completed" or not told:
        handle = client.get_workflow_handle(made.workflow_id, result_type=loop.result)
        try:
            return row | _outcome(await handle.result(), loop, required)
        except WorkflowFailureError as error:
            if isinstance(error.cause, CancelledError):
                return row | {"status": "cancelled"}
            return row | {"status": "failed", "error": terminal_safe(str(error.cause), 1_000)}
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            if made.status == "completed":
                row["error"] = NOT_KEPT
    return row | ({"workflow_id": None} if made.status == "not_started" else {})


def _outcome(result: Any, loop: Loop, required: Any) -> Row:
    answer = loop.sheet(result).answer
    return {
        "status": "completed",
        "answer": answer.content if answer else None,
        "doubt": loop.doubt(result, required) or None,
        "tokens": result.usage.tokens,
        "cost_usd": result.usage.cost_usd,
        "stop_reason": result.stop_reason,
        "confidence": getattr(result, "consensus_confidence", None),
        "probability": getattr(result, "probability_right", None),
        "score": getattr(result, "score", None),
        **{name: getattr(result, name) for name in loop.measures},
    }


# What a spreadsheet may take for a formula, unless it is a number; line ends and tabs stay.
FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"[-+]?(\d[\d,]*(\.\d*)?|\.\d+)([eE][-+]?\d+)?%?", re.ASCII)
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def cell(text: str) -> str:
    """Write a model's or a person's text for a spreadsheet: an apostrophe keeps it from running."""
    text = well_formed(CONTROLS.sub("", text))
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


async def _print(
    identity: str,
    request: BatchRequest,
    rows: AsyncIterator[Row],
    ended: BatchResult | None,
    chosen: Chosen,
) -> Exit:
    """Print the result of each line as it is read, or all of them in one document.

    A batch that was cancelled has not `ended` with a result: its lines are counted here.
    """
    wanted, doubtful, kept = chosen.wanted, 0, list[Row]()
    loop, measured = loop_of_runs(request), list[Row]()
    statuses = Counter[str](dict.fromkeys(get_args(RunStatus), 0))
    form = "json" if wanted.as_json else chosen.form
    out = wanted.out and wanted.out.open("w", encoding="utf-8", newline="")
    with out or nullcontext(sys.stdout) as place:
        table = csv.DictWriter(place, columns_of(request))
        if form == "csv":
            table.writeheader()
        async for row in rows:
            statuses[row["status"]] += 1
            doubtful += row["doubt"] is not None
            measured.append({name: row[name] for name in loop.measures})
            if form == "jsonl":
                place.write(json.dumps(row) + "\n")
            elif form == "csv":
                table.writerow({n: cell(c) if isinstance(c, str) else c for n, c in row.items()})
            else:
                kept.append(row)
        summed, tables = loop.summary(measured)
        if form == "json":
            counted = {"status": "cancelled", **statuses}
            summary = ended.model_dump(mode="json", exclude={"runs"}) if ended else counted
            place.write(json.dumps({"id": identity, **summary, **summed, "results": kept}) + "\n")
        elif form == "junit":
            place.write(_junit(identity, kept) + "\n")
    if wanted.out is not None:
        tell(f"wrote the results to {wanted.out}")
    if ended is not None and form != "json":
        sheet = BATCH.sheet(ended).model_copy(update={"tables": tables})
        print_sheet(Console(stderr=True), sheet)
    return _concluded(identity, ended, statuses, doubtful, chosen)


def _concluded(
    identity: str, ended: BatchResult | None, counts: Counter[str], doubtful: int, chosen: Chosen
) -> Exit:
    """Say what to do about lines without a result to build on, and return the exit code."""
    failed = counts["failed"] + counts["cancelled"]
    if ended is None:
        said = (f"{count:,} {spaced(status)}" for status, count in counts.items())
        tell(f"The batch was cancelled: {', '.join(said)}.")
    if doubtful:
        tell(f"{tally_words(doubtful, 'answer')} not to be built on: see their doubt.")
    if failed or counts["not_started"] or ended is None:
        more = ", with a higher budget" if ended and ended.stop_reason == "budget" else ""
        tell(f"To make what has no result{more}:\n    mull batch --retry {identity}")
    if failed or ended is None:
        return Exit.CANCELLED if ended is None else Exit.FAILED
    cut_short = ended.stop_reason != "completed" or counts["not_started"] > 0 or doubtful > 0
    return Exit.BELOW_BAR if cut_short and not chosen.wanted.accept_any else Exit.DONE


def _junit(identity: str, rows: list[Row]) -> str:
    """Write a test case for each line: what failed is a failure, and so is what is doubtful."""
    suite = ET.Element("testsuite", name=identity, tests=str(len(rows)))
    for row in rows:
        name = f"line {row['line']}" if row["id"] is None else str(row["id"])
        case = ET.SubElement(suite, "testcase", name=name, classname="mull.batch")
        why = row["doubt"] or row["error"] or row["status"]
        if row["status"] == "not_started":
            ET.SubElement(case, "skipped")
        elif row["status"] != "completed" or row["doubt"]:
            ET.SubElement(case, "failure", message=terminal_safe(why, 1_000))
        ET.SubElement(case, "system-out").text = terminal_safe(row["answer"] or "", 10_000)
    suite.set("failures", str(len(suite.findall("*/failure"))))
    suite.set("skipped", str(len(suite.findall("*/skipped"))))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)
