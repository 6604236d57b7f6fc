"""`agent`: start a run that researches or codes, show it live, and print what it made."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from commands import options
from commands.inputs import checked, read_stdin
from commands.session import Exit, fail, with_client
from commands.starting.code_tests import read_tests

HELP = """Research documents or write code: draft, find what is wrong with it, mend it.

The agent chooses the path, unless --mode does. A report cites its sources as [1] and is reflected
on against them; code is tested in a sandbox. It ends when nothing is left to mend, or at a bound.

Examples:

    starter.py agent "Compare the two proposals" --docs notes > report.md

    starter.py agent "Write fib(n)" --mode code --tests test_fib.py --out fib.py

    starter.py agent - --docs /srv/docs --json --require-closed < prompt.txt

The report or the code goes to standard output or to --out, all else to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server or worker, 4 no report and no code, or
open with --require-closed, 5 cancelled, 130 detached (the run goes on).
"""

_documents = partial(typer.Option, rich_help_panel="Documents")
_path = partial(typer.Option, rich_help_panel="Path and models")
_mending = partial(typer.Option, rich_help_panel="How long to mend")
_code = partial(typer.Option, rich_help_panel="Code and its tests")
_limits = partial(typer.Option, rich_help_panel="Each run of the code in the sandbox")

LIMITS = {"wall_seconds", "cpu_seconds", "memory_mb", "disk_mb"}
# What is no field of the request by this name.
OWN = LIMITS | {"no_creative", "tests", "packages", "out", "require_closed"}
OWN |= {"workflow_id", "detach", "as_json"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("agent", help=HELP)(agent)


def agent(
    prompt: Annotated[str, typer.Argument(help="The task; - reads it from standard input.")],
    docs: Annotated[
        str | None,
        _documents(
            help="A folder to search. It is read on the worker's machine, under a root that"
            " MULL_DOCUMENTS allows there; a relative path starts from here.",
            metavar="FOLDER",
        ),
    ] = None,
    passages: Annotated[
        int | None, _documents(help="Passages to retrieve, 1 to 20; 8 by default.")
    ] = None,
    embedding_model: Annotated[
        str | None,
        _documents(help="Search by meaning too, with this model; by words alone by default."),
    ] = None,
    mode: Annotated[
        str | None, _path(help="research or code; the agent chooses by default, without --tests.")
    ] = None,
    model: Annotated[
        str | None, _path(help="Any LiteLLM name; else the worker's own.", envvar="MULL_MODEL")
    ] = None,
    judge: Annotated[
        str | None,
        _path(
            help="The model that reflects on reports; the worker's own by default.",
            envvar="MULL_JUDGE_MODEL",
            metavar="MODEL",
        ),
    ] = None,
    no_creative: Annotated[
        bool, _path("--no-creative", help="No further considerations beyond the documents.")
    ] = False,
    temperature: Annotated[float | None, _path(help="0 to 2; 0.7 by default.")] = None,
    seed: Annotated[int | None, _path(help="Of the model, as far as it takes one.")] = None,
    max_output_tokens: Annotated[int | None, _path(help="Of one reply; 4096 by default.")] = None,
    max_revisions: Annotated[
        int | None,
        _mending(help="Drafts at most, with the first; 3 for research, 5 for code by default."),
    ] = None,
    require_closed: Annotated[
        bool,
        _mending("--require-closed", help="Exit with 4 where critiques or an error remain."),
    ] = False,
    tests: Annotated[
        Path | None,
        _code(
            help="Tests of yours: test_*.py or *_test.py for pytest, else a script; they import the"
            " code as `solution`, and mean --mode code. Else the prompt's examples, else the model"
            " writes some first.",
            metavar="FILE",
        ),
    ] = None,
    entry: Annotated[str | None, _code(help="The function to write.", metavar="NAME")] = None,
    language: Annotated[str | None, _code(help="python, the only one so far.")] = None,
    packages: Annotated[
        str | None,
        _code(
            help="What it may import besides numpy and pytest: packages of the worker's own"
            " environment.",
            metavar="A,B",
        ),
    ] = None,
    wall_seconds: Annotated[float | None, _limits(help="Of the clock; 10 by default.")] = None,
    cpu_seconds: Annotated[float | None, _limits(help="Of CPU time; 10 by default.")] = None,
    memory_mb: Annotated[int | None, _limits(help="Mebibytes; 512 by default.")] = None,
    disk_mb: Annotated[int | None, _limits(help="Mebibytes; 64 by default.")] = None,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    budget_seconds: options.BudgetSeconds = None,
    call_timeout_seconds: options.CallTimeout = None,
    max_attempts: options.MaxAttempts = None,
    review_open: Annotated[
        bool, options.review("--review-open", help="A result that is open waits for a person.")
    ] = False,
    review_timeout_seconds: options.ReviewTimeout = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the report or the code here, not to standard output.", metavar="FILE"
        ),
    ] = None,
    workflow_id: options.NewId = None,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> None:
    """Start a run, and follow it unless detached."""
    given = dict(locals())
    if out is not None and detach:
        fail("--out needs the run to be followed: leave out --detach.", Exit.USAGE)
    refuse_for_research(mode, {"--tests": tests, "--packages": packages, "--entry": entry})
    fields = {name: value for name, value in given.items() if name not in OWN}
    fields["prompt"] = read_stdin("the prompt") if prompt == "-" else prompt
    fields["model"], fields["judge"] = model or None, judge or None
    fields["docs"] = _folder(docs)
    fields["creative"] = not no_creative
    fields["tests"] = None if tests is None else read_tests("--tests", tests)
    fields["mode"] = mode or (None if tests is None else "code")
    fields["packages"] = [each.strip() for each in (packages or "").split(",") if each.strip()]
    fields["limits"] = {name: given[name] for name in LIMITS if given[name] is not None}
    _start(fields, out, workflow_id, detach, as_json, 1.0 if require_closed else None)


def _start(
    fields: dict[str, Any],
    out: Path | None,
    workflow_id: str | None,
    detach: bool,
    as_json: bool,
    bar: float | None,
) -> None:
    from commands import follow
    from reflection.multipath.request import MultiPathRequest

    request = checked(MultiPathRequest, fields, named=option_of)
    place = None if out is None else follow.place_for("--out", out)
    with_client(
        lambda client: follow.start(client, request, workflow_id, detach, as_json, bar, place)
    )


def _folder(given: str | None) -> str | None:
    """Make a folder's path absolute, from here; whether it is there, only the worker can say."""
    if given is None:
        return None
    if not given.strip():
        fail("--docs: name a folder.", Exit.USAGE)
    return os.path.abspath(Path(given).expanduser())  # noqa: PTH100 - links are the worker's


def refuse_for_research(mode: str | None, given: dict[str, object]) -> None:
    """Refuse options that are for code alone where `mode` is research."""
    for option, value in given.items():
        if mode == "research" and value is not None:
            fail(f"{option} is for code, and --mode is research: leave out one.", Exit.USAGE)


def option_of(field: str) -> str:
    """Name the option that a field of the request comes from."""
    if field == "prompt":
        return field
    return f"--{field.replace('_', '-')}".replace("-timeout-seconds", "-timeout")
