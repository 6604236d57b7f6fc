"""The lines of a file on which a command is run: read, checked, and planned as a batch."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from commands import command, plans
from commands.command import Exit, fail, tell
from commands.options import Wanted
from mull.batch.request import (
    LABELS,
    PAGE_BYTES,
    REQUESTS,
    SHARED_BYTES,
    BatchRequest,
    Item,
    Variant,
)
from mull.loops import LOOPS
from mull.request import Framing, Request, explain, unambiguous_json

# The commands that can be run on lines.
COMMANDS = {loop.command: loop for loop in LOOPS if loop.workflow in REQUESTS}
SUBJECTS = ("question", "query", "prompt", "message")
# Small pages are heard of sooner, and their results are read one after the other.
PAGE_LINES = 100
# Wrong lines that are named; of the others the number is enough.
NAMED = 10
FORM = '{{"id": "q1", "{}": "..."}}'
# Tokens of an answer, and of the instructions around a subject.
ANSWER_OUT = 350
INSTRUCTIONS_IN = 300
ASSUMED = f"{INSTRUCTIONS_IN} of instructions and {ANSWER_OUT} out for a call, and the most calls"

Format = Literal["jsonl", "csv", "junit"]
SUFFIXES: dict[str, Format] = {".csv": "csv", ".xml": "junit"}
Page = list[Item]


class Chosen(NamedTuple):
    """What is done with a batch, and how its results are printed."""

    workflow_id: str | None
    retry: bool
    detach: bool
    yes: bool
    wanted: Wanted
    form: Format
    bounds: dict[str, Any]


class Given(NamedTuple):
    """What a file asks for: the name of its batch, its request, its pages and their estimate."""

    name: str
    request: BatchRequest
    pages: list[Page]
    forecast: plans.Forecast


def planned(
    file: str,
    what: str,
    fields: dict[str, Any],
    lines: Iterable[tuple[int, Any]],
    bounds: dict[str, Any],
) -> Given:
    """Plan a batch of a command with these fields on these numbered lines of a file, or exit."""
    variant = command.checked(
        Variant, {"name": what, "workflow": COMMANDS[what].workflow, "request": fields}, "after --"
    )
    kind = COMMANDS[what].request
    items, calls, tokens = list[Item](), Counter[str | None](), Counter[str | None]()
    wrong = list[str]()
    for line, found in lines:
        try:
            item = _item(found, kind)
            request = variant.request_for(item)
        except ValueError as error:
            wrong.append(f"{file}, line {line}: {explain(error)}.")
            continue
        items.append(item)
        shown = request.shown if isinstance(request, Framing) else []
        size = plans.tokens_of([getattr(request, kind.subject_field), *shown]) + INSTRUCTIONS_IN
        for model, most in request.most_calls():
            calls[model] += most
            tokens[model] += most * size
    if wrong:
        more = [f"And {len(wrong) - NAMED:,} more."] if len(wrong) > NAMED else []
        fail("\n".join([*wrong[:NAMED], *more]), Exit.USAGE)
    if not items:
        form = FORM.format(kind.subject_field)
        fail(f"{file} is empty: expected lines like {form}, or rows of CSV", Exit.USAGE)
    pages = plans.pages_of(items, PAGE_LINES)
    if (size := len(variant.model_dump_json().encode())) > SHARED_BYTES:
        fail(f"the options are {size:,} bytes; at most {SHARED_BYTES:,}.", Exit.USAGE)
    digest = sha256(to_json(items)).hexdigest()
    known = {"variants": [variant], "pages": len(pages), "digest": digest}
    whole = command.checked(BatchRequest, {**known, **bounds})
    name = "stdin" if file == "-" else Path(file).stem
    planned = [
        plans.PlannedCalls(what, model, count, tokens[model], count * ANSWER_OUT)
        for model, count in calls.items()
    ]
    forecast = plans.Forecast(planned, ASSUMED)
    if whole.budget_usd is not None and forecast.cost_usd is None:
        tell(
            "The price of the model is not known here. If its worker doesn't know it either,"
            " --budget-usd stops the batch after one line; --budget-tokens bounds it in any case."
        )
    return Given(name, whole, pages, forecast)


def read(file: str, kind: type[Request]) -> Iterator[tuple[int, Any]]:
    """Yield each item of a file, or why it can't be read, with the number of its line."""
    text = command.read_stdin("FILE") if file == "-" else command.read_file("FILE", Path(file))
    text = text.removeprefix("\ufeff")
    if Path(file).suffix.lower() == ".csv":
        yield from _table(file, text, kind)
        return
    for line, words in enumerate(text.split("\n"), start=1):
        if words.strip():
            try:
                yield line, unambiguous_json(words)
            except ValueError as error:
                yield line, ValueError(f"{error}; expected {FORM.format(kind.subject_field)}")


def _table(file: str, text: str, kind: type[Request]) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a table, with only the columns that are fields."""
    head = text.partition("\n")[0]
    # So spreadsheets write it where a comma stands in numbers.
    mark = ";" if head.count(";") > head.count(",") else ","
    more = "more cells than the header"
    rows = csv.DictReader(io.StringIO(text), restkey=more, delimiter=mark, strict=True)
    try:
        unused = _unused(file, rows.fieldnames or (), kind)
        for row in rows:
            if any(row.values()):
                cells = {name: cell for name, cell in row.items() if cell and name not in unused}
                yield rows.line_num, {name: _typed(cells[name], kind, name) for name in cells}
    except csv.Error as error:
        yield rows.reader.line_num, ValueError(f"not CSV: {error}")


def _unused(file: str, columns: Sequence[str], kind: type[Request]) -> list[str]:
    """List and name the columns that are not fields. One that may be misspelt is refused."""
    known = {*kind.model_fields, *_subjects(kind), *LABELS}
    used = [name for name in columns if name in known]
    unused = [name for name in columns if name not in known]
    for name in unused:
        for near in get_close_matches(name.lower(), known.difference(used), 1, 0.8):
            said = f"column {name!r} is no field; did you mean {near}?"
            fail(f"{file}: {said} Rename it, or leave it out.", Exit.USAGE)
    if len(set(used)) < len(used):
        fail(f"{file}: two columns have one name.", Exit.USAGE)
    if unused:
        tell(f"Columns that are not used: {', '.join(map(repr, unused))}.")
    return unused


def _typed(cell: Any, kind: type[Request], name: str) -> Any:
    """Read a cell as what its field is."""
    field = kind.model_fields.get(name)
    if field is not None and field.annotation not in {str, str | None}:
        with suppress(ValueError):
            return unambiguous_json(cell)
    return cell


def _item(found: Any, kind: type[Request]) -> Item:
    """Make an item of what a line says. Raises ValueError."""
    subject = kind.subject_field
    if isinstance(found, ValueError):
        raise found
    if isinstance(found, str):
        return {subject: found}
    if not isinstance(found, dict):
        form = FORM.format(subject)
        raise ValueError(f"expected {form}, or a text")  # noqa: TRY004 - one error for all lines
    named = [name for name in _subjects(kind) if name in found]
    if len(named) != 1:
        expected = ", ".join(_subjects(kind))
        raise ValueError(f"{'one of ' if ', ' in expected else ''}{expected} is expected")
    label = found.get("id")
    if not isinstance(label, str | int | None):
        raise ValueError("id: a text or a number is expected")  # noqa: TRY004
    if len(to_json(found)) > PAGE_BYTES // 2:
        raise ValueError(f"over {PAGE_BYTES // 2:,} bytes; name large texts after --")
    return {subject if name == named[0] else name: value for name, value in found.items()}


def _subjects(kind: type[Request]) -> tuple[str, ...]:
    """List the names of what a line is about. A task's name is never read from another field."""
    return SUBJECTS if kind.subject_field in SUBJECTS else (kind.subject_field,)
