"""`doctor`: run all checks, and print them as a table or as one JSON document."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.options import Json
from commands.session import Exit
from reflection.text import tally_words, terminal_safe

HELP = {
    "doctor": """
Server, workers, models, documents, sandbox, packages and telemetry: each check is ok, a warning or
wrong, with what to do. Models, keys (their names, not their values), documents and the sandbox are
checked on this machine: run it where the worker runs.

Exit codes: 0 ok or only warnings, 1 something is wrong, 3 no server or no worker.
"""
}
State = Literal["ok", "warning", "wrong"]
STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "wrong": "bold red"}
UNREACHED = frozenset({"server", "workers"})
# Commands to copy are never cut.
SAID_COLUMNS = 2_000


class Check(NamedTuple):
    """One check: its area and name, what was found, and lines that say what to do.

    `commands` can be copied to fix the problem.
    """

    area: str
    name: str
    state: State
    said: str
    do: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def doctor(as_json: Json = False) -> None:
    """Run all checks, and print what was found."""
    checks = asyncio.run(run_checks())
    code = exit_code(checks)
    if as_json:
        print_document(checks, code)
    else:
        print_checks(checks)
    raise typer.Exit(code)


async def run_checks() -> list[Check]:
    """Run all checks; those of the server and the sandbox, the slowest, run concurrently."""
    from commands.doctor import installation
    from commands.doctor.server import server_checks

    server, sandbox = await asyncio.gather(server_checks(), installation.sandbox_checks())
    return [
        *server,
        *installation.model_checks(os.environ),
        *installation.document_checks(os.environ),
        *sandbox,
        *installation.package_checks(),
        *installation.telemetry_checks(os.environ),
    ]


def exit_code(checks: Iterable[Check]) -> Exit:
    """Return 3 without a server or a worker, 1 if anything else is wrong, otherwise 0."""
    wrong = {check.area for check in checks if check.state == "wrong"}
    if wrong & UNREACHED:
        return Exit.UNREACHABLE
    return Exit.FAILED if wrong else Exit.DONE


def print_checks(checks: Sequence[Check]) -> None:
    """Print one row for each check with what to do, the commands to copy, and the totals."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("area", "check", "state"):
        table.add_column(name, no_wrap=True)
    table.add_column("found", overflow="fold")
    area = ""
    for check in checks:
        found = Text(terminal_safe(check.said, SAID_COLUMNS))
        for line in check.do:
            found.append(f"\n→ {terminal_safe(line, SAID_COLUMNS)}", "bold")
        shown = "" if check.area == area else check.area
        table.add_row(shown, Text(check.name), Text(check.state, STYLES[check.state]), found)
        area = check.area
    console = Console()
    console.print(table)
    # Unwrapped, so that they can be copied whatever the width.
    commands = [line for check in checks for line in check.commands]
    lines = [f"    {terminal_safe(line, SAID_COLUMNS)}\n" for line in commands]
    sys.stdout.write("".join(["\n", *lines]) if lines else "")
    states = Counter(check.state for check in checks)
    warnings = tally_words(states["warning"], "warning")
    total = f"{states['ok']} ok, {warnings}, {states['wrong']} wrong."
    console.print(Text(f"\n{total}", "bold"))


def print_document(checks: Sequence[Check], code: int) -> None:
    """Print one JSON document."""
    states = Counter(check.state for check in checks)
    counts = {name: states[name] for name in STYLES}
    listed = [check._asdict() for check in checks]
    sys.stdout.write(json.dumps({"exit_code": int(code), **counts, "checks": listed}) + "\n")
