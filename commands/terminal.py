"""Render a run in the terminal: a line for each step and each wait, then its facts and tables.

Everything is built from rich's `Text`, never from its markup, so that `[red]` in an answer is
printed as it is. Colour only repeats what a word already says.
"""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text as Line
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from mull.details import cell_words, sparks
from mull.sheet import Column, Sheet, Step, Table, Text, Tone, Waiting
from mull.text import (
    Cell,
    bar,
    lasting_words,
    neutral,
    tally_words,
    terminal_safe,
    until_words,
    well_formed,
)

SUBJECT_COLUMNS = 400
NOTE_COLUMNS = 400
CELL_COLUMNS = 200
STEP_CHARACTERS = 1_000
NARROW_CELL_COLUMNS = 40
SHORT_CELL_COLUMNS = 20
BAR_COLUMNS, READ_COLUMNS = 12, 20
# In a narrower terminal the words need the room that a bar beside a number would take.
NARROW = 70
# A last column of words may be this narrow.
WRAPPED = 24
SPARKS = 24
MOST_ROWS = 12
# A call that has taken longer is slow.
SLOW_SECONDS = 10.0
LOST = ", after a time-out"

PLAIN: Tone = "plain"
STYLES: dict[Tone, str] = {
    "good": "green",
    "warning": "yellow",
    "bad": "bold red",
    "running": "bold",
    "plain": "",
}

Row = tuple[str, Line]


def print_sheet(
    console: Console,
    sheet: Sheet,
    *,
    subject: bool = False,
    decisions: bool = False,
    label: str = "running",
) -> None:
    """Print a sheet's verdict, warnings, facts, curves and tables.

    `subject` adds the question, `decisions` adds every decision, and `label` names the verdict of a
    run without a stop reason. Texts are not printed: the answer goes to standard output on its own,
    and the page has the others.
    """
    verdict = sheet.verdict
    line = Line(terminal_safe(verdict.words, NOTE_COLUMNS), STYLES[verdict.tone])
    if verdict.stop_reason is not None:
        label = "stopped"
        line.append(f" ({terminal_safe(verdict.stop_reason, NARROW_CELL_COLUMNS)})", "not bold dim")
    rows: list[Row] = [(label, line)]
    if subject:
        rows.append(("asked", Line(terminal_safe(sheet.subject, SUBJECT_COLUMNS))))
    if sheet.waiting:
        until = until_words(sheet.waiting.until)
        rows.append(("waiting", Line(f"for a person's review {until}".rstrip(), "bold")))
    rows += [
        ("attention", Line(terminal_safe(flag, NOTE_COLUMNS), "bold yellow"))
        for flag in sheet.flags
    ]
    rows += _facts(sheet)
    rows += [
        ("warning", Line(terminal_safe(said, NOTE_COLUMNS), "yellow")) for said in sheet.warnings
    ]
    grid, before = Grid.grid(padding=(0, 2, 0, 0)), ""
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(ratio=1)
    for name, value in rows:
        # A repeated name is shown once.
        grid.add_row("" if name == before else name, value)
        before = name
    console.print(grid)
    for table in sheet.tables:
        if table.rows and not table.folded:
            _print_table(console, table, MOST_ROWS)
    if decisions and sheet.decisions and sheet.decisions.rows:
        _print_table(console, sheet.decisions, len(sheet.decisions.rows))
    if sheet.waiting:
        _print_asked(console, sheet.waiting)


def print_summary(console: Console, sheet: Sheet, run: str, *, sure: bool) -> None:
    """Print how sure an answer is, what to warn of, and what was spent; in a pipe a line each."""
    facts = _facts(sheet.model_copy(update={"charts": ()}))
    wrong = [fact for fact in sheet.facts[1:] if fact.tone in {"warning", "bad"}]
    failed = [f"{fact.label} {fact.value}: {fact.note}" for fact in wrong]
    first, *others = *sheet.flags, *sheet.warnings, *failed, ""
    more = f" (and {len(others) - 1} more: mull show {run})" if others[1:] else ""
    said = Line(terminal_safe(first, NOTE_COLUMNS) + more, "bold yellow")
    rows = [*facts[: int(sure)], ("attention", said), *(row for row in facts if row[0] == "spent")]
    for name, value in filter(itemgetter(1), rows):
        line = Line.assemble((f"{name:<9}  ", "dim"), value)
        console.print(line, soft_wrap=not console.is_terminal)


def print_steps(console: Console, steps: Sequence[Step], shown: int = 0) -> int:
    """Print the steps after the first `shown` ones, and return how many there are.

    In a terminal a step that is too long is cut; in a pipe it is printed in full.
    """
    for step in steps[shown:]:
        lines = [Line(_line(step.words), STYLES[step.tone])]
        lines += [Line(f"  {_line(line)}", "dim") for line in step.below]
        for line in lines:
            if console.is_terminal:
                console.print(line, no_wrap=True, overflow="ellipsis")
            else:
                console.print(line, soft_wrap=True)
    return max(shown, len(steps))


def print_waiting(console: Console, run: str, waiting: Waiting) -> None:
    """Print that a run waits for a person, and for what, and the command for the review."""
    line = Line("waits for a person", "bold")
    line.append(f" {until_words(waiting.until)}".rstrip() + f":\n    mull review {run}")
    console.print(line, soft_wrap=True, highlight=False)
    _print_asked(console, waiting)


def _print_asked(console: Console, waiting: Waiting) -> None:
    """Print in full what a person is asked to allow."""
    for asked in waiting.asked:
        style = "bold yellow" if asked.startswith("attention") else ""
        console.print(Line(neutral(asked), style), soft_wrap=not console.is_terminal)


def print_review(console: Console, sheet: Sheet) -> None:
    """Print what a reviewer needs: the sheet without its decisions, then the answer."""
    print_sheet(console, sheet, subject=True)
    if sheet.answer is None:
        return
    noted = filter(None, (sheet.answer.title, sheet.answer.note))
    console.rule(Line(terminal_safe(": ".join(noted), NOTE_COLUMNS), "dim"))
    console.print(Line(neutral(sheet.answer.content)), soft_wrap=not console.is_terminal)
    console.rule(style="dim")


def with_newline(text: str) -> str:
    """End a text with exactly one newline, as files of text and code do."""
    return text.rstrip("\n") + "\n"


def print_answer(text: Text) -> None:
    """Write only an answer to standard output; code and reports end with one newline.

    In a terminal, control characters are made visible and a final newline is added.
    """
    if sys.stdout.isatty():
        sys.stdout.write(neutral(text.content).rstrip("\n") + "\n\n")
    else:
        plain = text.kind == "plain"
        written = well_formed(text.content if plain else with_newline(text.content))
        sys.stdout.write(written)
        if not written.endswith("\n"):
            # Not part of the answer; where both streams are one, the details begin on a new line.
            sys.stdout.flush()
            sys.stderr.write("\n")
    sys.stdout.flush()


def _line(words: str) -> str:
    """Put words on one line, keeping the spaces that align them."""
    return neutral(words[:STEP_CHARACTERS]).replace("\n", " ").replace("\t", " ")


def _facts(sheet: Sheet) -> list[Row]:
    """List the facts; a curve with the same name as a fact is drawn beside it."""
    curves = {
        curve.name: sparks(chart.model_copy(update={"curves": (curve,)}), SPARKS)
        for chart in sheet.charts
        for curve in chart.curves
        if not chart.levels
    }
    rows: list[Row] = []
    for fact in sheet.facts:
        line = Line(terminal_safe(fact.value, NOTE_COLUMNS), STYLES[fact.tone])
        drawn = curves.get(fact.label)
        if drawn:
            line.append(f"  {drawn[0].split('  ')[1]}", "green")
        if fact.note:
            line.append(f"  {terminal_safe(fact.note, NOTE_COLUMNS)}", "dim")
        rows.append((terminal_safe(fact.label, NARROW_CELL_COLUMNS), line))
    return rows


def _print_table(console: Console, table: Table, most: int) -> None:
    """Print a table's title, at most `most` of its rows, and what was left out."""
    table = table.cut(most)
    tones = table.tones or (PLAIN,) * len(table.rows)
    shown, longest = _fitting(table, console.width)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for place in shown:
        column, last = table.columns[place], place == shown[-1]
        words = column.kind == "text"
        grid.add_column(
            Line(terminal_safe(column.name, NARROW_CELL_COLUMNS)),
            justify="right" if column.kind == "number" else "left",
            no_wrap=not (last and words),
            overflow="fold" if last and words else "ellipsis",
            max_width=None if last or not words else longest,
        )
    for row, tone in zip(table.rows, tones, strict=True):
        cells = (_cell(row[place], table.columns[place], console.width) for place in shown)
        grid.add_row(*cells, style=STYLES[tone])
    console.print()
    console.print(Line(terminal_safe(table.title, NARROW_CELL_COLUMNS), "bold"))
    console.print(grid)
    if table.left_out:
        noun = tally_words(table.left_out, "earlier row" if table.newest else "more row")
        console.print(Line(f"and {noun}", "dim"))
    hidden = [column.name for place, column in enumerate(table.columns) if place not in shown]
    if hidden:
        console.print(left_out_words(hidden, console.width))


def left_out_words(columns: Sequence[str], width: int) -> Line:
    """Say which columns of a table are not shown, and how to see them."""
    names = terminal_safe(", ".join(columns), CELL_COLUMNS)
    said = f"left out at {width} columns: {names} (widen the terminal, or use --json)"
    return Line(said, "dim")


def _fitting(table: Table, width: int) -> tuple[list[int], int]:
    """Choose the columns that fit, and the width of words: extra columns are left out first.

    Then words are cut shorter, then numbers and at last words are left out. The first column stays,
    and the last of those that are not extra.
    """
    columns = table.columns
    firm = [place for place, column in enumerate(columns) if not column.extra]
    optional = [place for place in range(len(columns)) if place not in {*firm[:1], *firm[-1:]}]
    optional.sort(key=lambda at: (not columns[at].extra, columns[at].kind == "text", -at))
    needed = [
        max(
            [cell_len(column.name), *(_cell(row[at], column, width).cell_len for row in table.rows)]
        )
        for at, column in enumerate(columns)
    ]
    shown, longest = list(range(len(columns))), NARROW_CELL_COLUMNS
    # The last one may wrap; two columns of space stand between any two.
    while optional and width < sum(
        2 + min(needed[place], WRAPPED if place == shown[-1] else longest) for place in shown
    ):
        if longest > SHORT_CELL_COLUMNS and not columns[optional[0]].extra:
            longest = SHORT_CELL_COLUMNS
        else:
            shown.remove(optional.pop(0))
    return shown, longest


def _cell(cell: Cell, column: Column, width: int) -> Line:
    words = Line(terminal_safe(cell_words(cell, column), CELL_COLUMNS))
    if column.kind == "share" and isinstance(cell, float | int) and width >= NARROW:
        return words.append(f" {bar(cell, BAR_COLUMNS)}", "green")
    return words


def slow_words(pending: Iterable[PendingActivityInfo], now: datetime) -> str | None:
    """Say of the call with most attempts what it waits for, and its last error; None if it is new.

    A call is slow after 10 s, or once an attempt failed.
    """
    call = max(pending, key=lambda one: (one.attempt, -one.last_started_time.seconds), default=None)
    if call is None:
        return None
    runs = call.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    since = call.last_started_time if runs else call.scheduled_time
    seconds = (now - since.ToDatetime(UTC)).total_seconds()
    if call.attempt < 2 and seconds < SLOW_SECONDS:
        return None
    took = f"has taken {lasting_words(int(seconds))}" if runs else "waits for a worker"
    what = "a stage" if call.activity_type.name == "train_stage" else "a call"
    words = f"{what} {took}"
    if call.attempt > 1:
        # The server tells how long this attempt has taken, and not the ones before it.
        words = f"{what} {'is in' if runs else 'waits for'} attempt {call.attempt}"
    if call.last_failure.HasField("timeout_failure_info"):
        words += LOST
    elif call.HasField("last_failure"):
        kind = call.last_failure.application_failure_info.type
        error = ": ".join(filter(None, (kind, call.last_failure.message)))
        words += f", last error {terminal_safe(error, CELL_COLUMNS)}"
    return words


def reading_words(details: list[Any]) -> str | None:
    """Format a heartbeat's two details: files read, and files in all."""
    match details:
        case [int(done), int(total), *_] if total > 0:
            share = bar(min(done / total, 1.0), READ_COLUMNS)
            return f"Reading documents {share} {done:,} of {total:,} files"
    return None
