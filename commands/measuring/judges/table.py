"""A calibration in the terminal: a row for each number, a column for each judge."""

from collections.abc import Iterator, Sequence
from itertools import islice

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commands.measuring.judges.findings import Findings
from commands.measuring.judges.numbers import NUMBERS
from reflection.critique.calibration.calibration import Calibration
from reflection.text import terminal_safe

NAMES_WIDTH, JUDGE_WIDTH, NAME_MOST = 38, 18, 60


def print_findings(console: Console, found: Findings) -> None:
    """Print what is to be known first, then the numbers of each judge, as many as fit side by side.

    What stands below a number is its 95 % interval.
    """
    for each in found.remarks():
        console.print(Text(each))
    fit = max(1, (console.width - NAMES_WIDTH) // JUDGE_WIDTH)
    for judges in _groups(found.judges, fit):
        console.print(_table(judges))
    console.print(
        Text("best: what a perfect judge would have. Below a number: its 95 % interval.", "dim")
    )


def _groups(judges: Sequence[Calibration], most: int) -> Iterator[list[Calibration]]:
    waiting = iter(judges)
    while group := list(islice(waiting, most)):
        yield group


def _table(judges: Sequence[Calibration]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("best", justify="right", style="dim")
    for each in judges:
        name = Text(terminal_safe(each.judge, NAME_MOST))
        table.add_column(name, justify="right", overflow="fold", max_width=JUDGE_WIDTH - 2)
    for number in NUMBERS:
        table.add_row(number.name, number.best, *(number.value(each) for each in judges))
        below = [number.interval(each) if number.interval else "" for each in judges]
        if any(below):
            table.add_row("", "", *(Text(each, "dim") for each in below))
    return table
