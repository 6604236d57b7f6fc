"""`batch`: run a command on every line of a file, and steer what does."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from pydantic_core import to_json, to_jsonable_python

from commands import command, start
from commands.command import Exit, fail, tell, with_client
from commands.follow import New, Wanted
from commands.measuring import plans
from commands.options import takes_fields
from reflection.batch.request import (
    LABELS,
    PAGE_BYTES,
    REQUESTS,
    SHARED_BYTES,
    BatchRequest,
    Item,
    RunType,
    Variant,
)
from reflection.request import Framing, Request, explain, parse_request, unambiguous_json

HELP = {
    "batch": """
FILE has one item a line: a JSON object with fields of the command's request, a JSON string, or CSV
with a header (FILE ends with .csv); - reads standard input. The question, query, prompt or message
may have any of these four names; reflexion's is `task`. `id` and `gold` are yours, and come back
with the result; other columns of a CSV are named, and not used. Options of the command follow
after --.

Examples:

    mull batch questions.jsonl --command ask -- --preset thrifty --answers number
    mull batch letters.csv --command reflect --out drafts.csv --budget-usd 5 --id letters
    mull batch questions.jsonl --command ask --dry-run
    mull batch --id letters
    mull batch --pause letters
    mull batch --retry letters

Results come in the order of the lines. Started again with the same --id, it goes on where it was,
and once it has ended prints what it has. --retry makes again what failed or was not started.

Exit codes: 0 every line has a result, 1 some failed, 2 wrong usage, 3 no server or worker, 4 some
are not to be built on, or were not started (--accept-any makes this 0), 5 cancelled, 130 detached
(the batch goes on).
"""
}

COMMANDS: dict[str, RunType] = {
    "ask": "SelfConsistencyWorkflow",
    "reflect": "ReflectOnResultWorkflow",
    "agent": "MultiPathWorkflow",
    "turn": "ToolTurnWorkflow",
    "reflexion": "ReflexionWorkflow",
}
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


_steer = partial(typer.Option, metavar="ID", rich_help_panel="A batch that is here")


@takes_fields(BatchRequest, {start.BOUNDS: plans.BOUNDS})
def batch(
    file: Annotated[str | None, typer.Argument(help="The lines; - reads standard input.")] = None,
    options: Annotated[
        list[str] | None, typer.Argument(help="After --: options of the command, for all lines.")
    ] = None,
    what: Annotated[
        Literal["ask", "reflect", "agent", "turn", "reflexion"] | None,
        typer.Option("--command", help="What is done with each line."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results to this file.")
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="By default as FILE of --out ends: .csv, .xml; else jsonl."),
    ] = None,
    pause: Annotated[str | None, _steer(help="Start no more runs of this batch.")] = None,
    resume: Annotated[str | None, _steer(help="Go on with this batch.")] = None,
    retry: Annotated[str | None, _steer(help="Make again what has no result.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--estimate", help="Check lines, print the highest cost.")
    ] = False,
    yes: command.Yes = False,
    accept_any: command.AcceptAny = False,
    workflow_id: command.BatchId = None,
    detach: command.Detach = False,
    as_json: command.Json = False,
    **fields: Any,
) -> None:
    """Run a batch."""
    from commands import rows, updates

    steered = [one for one in (pause, resume, retry) if one is not None]
    if len(steered) > 1 or (steered and (workflow_id or (file and retry is None))):
        fail("give FILE, or one of --pause, --resume and --retry; --retry takes FILE.", Exit.USAGE)
    if pause or resume:
        name = "resume" if pause is None else "pause"
        with_client(lambda client: updates.steer(client, steered[0], name, as_json))
    if not (file or steered or workflow_id):
        fail("give FILE, or the --id of a batch.", Exit.USAGE)
    if detach and out is not None:
        fail("--out and --detach can't be combined.", Exit.USAGE)
    place = None if out is None else command.place_for("--out", out)
    given, bars = None, None
    if file is not None:
        if what is None:
            fail("--command: say what is done with each line, such as --command ask.", Exit.USAGE)
        given, bars = _given(file, what, options or [], fields)
        if dry_run:
            given.forecast.tell(as_json=as_json)
    bounds = {name: value for name, value in fields.items() if value is not None}
    wanted = Wanted(as_json, accept_any, bars, place)
    form = form or SUFFIXES.get(out.suffix.lower() if out else "", "jsonl")
    chosen = Chosen(retry or workflow_id, retry is not None, detach, yes, wanted, form, bounds)
    with_client(lambda client: rows.run(client, given, chosen))


def _given(
    file: str, what: str, options: Sequence[str], bounds: dict[str, Any]
) -> tuple[Given, Any]:
    """Read and check all lines of a file, and what its results are held to, or exit."""
    fields, bars = _options(what, options)
    lines = _lines(file, REQUESTS[COMMANDS[what]])
    return planned(file, what, fields, lines, bounds), bars


def planned(
    file: str,
    what: str,
    fields: dict[str, Any],
    lines: Iterable[tuple[int, Any]],
    bounds: dict[str, Any],
) -> Given:
    """Plan a batch of a command with these fields on these numbered lines of a file, or exit."""
    variant = command.checked(
        Variant, {"name": what, "workflow": COMMANDS[what], "request": fields}, "after --"
    )
    kind = REQUESTS[variant.workflow]
    items, calls, tokens = list[Item](), Counter[str | None](), Counter[str | None]()
    wrong = list[str]()
    for line, found in lines:
        try:
            item = _item(found, kind)
            request: Any = parse_request(kind, json.dumps(variant.fields_for(item)))
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


def _options(what: str, options: Sequence[str]) -> tuple[dict[str, Any], Any]:
    """Return the fields of the request that a command's own options make, and its bars."""
    from commands.reflexion import reflexion
    from commands.turn import turn

    if any(option.partition("=")[0] in {"--session", "--help"} for option in options):
        fail("--session and --help can't stand after --.", Exit.USAGE)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(what)({"turn": turn, "reflexion": reflexion}.get(what) or getattr(start, what))
    subject = ["--task", "x"] if what == "reflexion" else ["x"]
    known: list[tuple[dict[str, Any], New, Wanted]] = []
    token = start.instead.set(known)
    try:
        app(args=[*subject, *options], prog_name=f"mull {what}", standalone_mode=False)
    finally:
        start.instead.reset(token)
    fields, new, wanted = known[0]
    if new != New() or wanted._replace(required=None, accept_any=False, details=True) != Wanted():
        said = "--id, --again, --detach, --json, --out and --accept-any"
        fail(f"{said} are of the batch: give them before --.", Exit.USAGE)
    given = {name: value for name, value in fields.items() if value is not None}
    del given[REQUESTS[COMMANDS[what]].subject_field]
    given.pop("stream", None)
    return to_jsonable_python(given, exclude_none=True), wanted.required


def _lines(file: str, kind: type[Request]) -> Iterator[tuple[int, Any]]:
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
    """Yield the rows of a table, without the columns that are no field."""
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
    """List the columns that are no field, and name them. One that may be misspelt is refused."""
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
