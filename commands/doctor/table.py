"""One thing that was looked at, and what came of it.

The checks as a table for people, and as a document for machines.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.session import Exit
from reflection.text import tally_words, terminal_safe

State = Literal["ok", "warning", "wrong"]
UNREACHED = frozenset({"server", "workers"})


class Check(NamedTuple):
    """What was looked at, in which area; what was found; and what to do, a line each.

    `commands` are those that one can copy to set it right.
    """

    area: str
    name: str
    state: State
    said: str
    do: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def exit_code(checks: Iterable[Check]) -> Exit:
    """Return 3 without a server or a worker, 1 where anything else is wrong, and else 0."""
    wrong = [each for each in checks if each.state == "wrong"]
    if any(each.area in UNREACHED for each in wrong):
        return Exit.UNREACHABLE
    return Exit.FAILED if wrong else Exit.DONE


STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}
# A command to copy is never cut, however long.
SAID_COLUMNS = 2_000


def print_checks(checks: Sequence[Check]) -> None:
    """Print one row for each check, what to do below it, and how many are what."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("area", "check", "state"):
        table.add_column(name, no_wrap=True)
    table.add_column("found", overflow="fold")
    area = ""
    for each in checks:
        shown = "" if each.area == area else each.area
        found = Text(terminal_safe(each.said, SAID_COLUMNS))
        for line in each.do:
            found.append(f"\n→ {terminal_safe(line, SAID_COLUMNS)}", "bold")
        table.add_row(Text(shown), Text(each.name), Text(each.state, STYLES[each.state]), found)
        area = each.area
    console = Console()
    console.print(table)
    _print_commands([line for each in checks for line in each.commands])
    console.print(Text(f"\n{_sum(checks)}", "bold"))


def print_document(checks: Sequence[Check], code: int) -> None:
    """Print one JSON document."""
    listed = [each._asdict() for each in checks]
    states = Counter(each.state for each in checks)
    counts = {name: states[name] for name in ("ok", "warning", "wrong")}
    document = {"exit_code": int(code), **counts, "checks": listed}
    sys.stdout.write(json.dumps(document) + "\n")


def _print_commands(lines: Sequence[str]) -> None:
    """Print commands as they are, so that they can be copied whatever the width."""
    if lines:
        sys.stdout.write("\n")
    for each in lines:
        sys.stdout.write(f"    {terminal_safe(each, SAID_COLUMNS)}\n")


def _sum(checks: Sequence[Check]) -> str:
    states = Counter(each.state for each in checks)
    if not states["warning"] and not states["wrong"]:
        return f"All {tally_words(len(checks), 'check')} are ok."
    return (
        f"{states['ok']} ok, {tally_words(states['warning'], 'warning')}, {states['wrong']} wrong."
    )
