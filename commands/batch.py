"""`batch`: run a command on every line of a file, and steer what does."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic_core import to_jsonable_python

from commands import command, start
from commands.command import fail, flag, with_client
from commands.help import COMMON
from commands.lines import COMMANDS, SUFFIXES, Chosen, Format, Given, planned, read
from commands.options import New, Profile, Wanted, settled, takes_fields
from mull.batch.request import BatchRequest

_steer = partial(typer.Option, metavar="ID", rich_help_panel="A batch that was started")


@takes_fields(BatchRequest)
def batch(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The lines; - reads standard input.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(help="After --: options of the command, for all lines.")
    ] = None,
    what: Annotated[
        Literal["ask", "reflect", "agent", "turn", "reflexion"] | None,
        typer.Option(
            "--command",
            metavar="COMMAND",
            help="What is done with each line: ask, reflect, agent, turn or reflexion.",
        ),
        COMMON,
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results to this file."), COMMON
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="jsonl|csv|junit",
            help="By default as FILE of --out ends: .csv, .xml; else jsonl.",
        ),
        COMMON,
    ] = None,
    pause: Annotated[str | None, _steer(help="Start no more runs of this batch."), COMMON] = None,
    resume: Annotated[str | None, _steer(help="Go on with this batch."), COMMON] = None,
    retry: Annotated[str | None, _steer(help="Make the runs without a result again."), COMMON] = (
        None
    ),
    dry_run: Annotated[
        bool, flag("--dry-run", "--estimate", help="Check lines, print the highest cost."), COMMON
    ] = False,
    yes: command.Yes = False,
    accept_any: command.AcceptAny = False,
    workflow_id: command.BatchId = None,
    detach: command.Detach = False,
    as_json: command.Json = False,
    profile: Profile = None,
    **fields: Any,
) -> None:
    """Run a command on every line of a file, within a budget.

    FILE has one item a line: a JSON string, a JSON object with fields of the command's request,
    or CSV with a header (FILE ends with .csv).

    For example:

        mull batch questions.jsonl --command ask -- --answers number
        mull batch letters.csv --command reflect --out drafts.csv --id letters
        mull batch questions.jsonl --command ask --dry-run
        mull batch --id letters
        mull batch --pause letters
        mull batch --retry letters

    The question, query, prompt or message of a line may have any of these four names;
    reflexion's is `task`. `id` and `gold` are yours, and come back with the result; other
    columns of a CSV are named, and not used. Options of the command follow after --.

    Results come in the order of the lines. Started again with the same --id, it goes on where
    it was, and once it has ended prints what it has. --retry makes runs again that failed or
    were not started.

    Exit codes: 0 every line has a result, 1 some failed, 2 wrong usage, 3 no server or worker,
    4 some are not to be built on, or were not started (--accept-any makes this 0), 5 cancelled,
    130 detached (the batch goes on).
    """
    from commands import rows, updates

    steered = [one for one in (pause, resume, retry) if one is not None]
    if len(steered) > 1 or (steered and (workflow_id or (file and retry is None))):
        fail("give FILE or one of --pause, --resume and --retry; only --retry can have a FILE too.")
    if pause or resume:
        name = "resume" if pause is None else "pause"
        with_client(lambda client: updates.steer(client, steered[0], name, as_json))
    if not (file or steered or workflow_id):
        fail("give FILE, or the --id of a batch.")
    if detach and out is not None:
        fail("--out and --detach can't be combined.")
    place = None if out is None else command.place_for("--out", out)
    given, bars = None, None
    if file is not None:
        if what is None:
            fail("--command: say what is done with each line, such as --command ask.")
        fields = settled(BatchRequest, fields, profile)
        with_profile = ["--profile", profile] if profile else []
        given, bars = _given(file, what, [*with_profile, *(options or [])], fields)
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
    """Read and check all lines of a file, and the bars for its results, or exit."""
    fields, bars = _options(what, options)
    return planned(file, what, fields, read(file, COMMANDS[what].request), bounds), bars


def _options(what: str, options: Sequence[str]) -> tuple[dict[str, Any], Any]:
    """Return the fields of the request that a command's own options make, and its bars."""
    from commands.reflexion import reflexion
    from commands.turn import turn

    for option in options:
        if (name := option.partition("=")[0]) in {"--session", "--help", "--help-all"}:
            fail(f"{name} can't stand after --.")
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
    new = new._replace(profile=None)
    if new != New() or wanted._replace(required=None, accept_any=False, details=True) != Wanted():
        said = "--id, --again, --detach, --json, --out and --accept-any"
        fail(f"{said} belong to the batch: give them before --.")
    given = {name: value for name, value in fields.items() if value is not None}
    del given[COMMANDS[what].request.subject_field]
    given.pop("stream", None)
    return to_jsonable_python(given, exclude_none=True), wanted.required
