"""A sheet as Markdown for Temporal's Web UI, while a run goes on and after.

The Web UI's tables have no cell padding, so numbers are aligned in fenced blocks. It shows about
60 columns. Texts come from models and people, so they are put in blocks or code spans, or escaped:
Markdown has no effect there, and without backticks no text can end its block or span.
"""

import re
from collections.abc import Iterable, Sequence

from mull.sheet import Chart, Column, Sheet, Table
from mull.text import Cell, bar, tally_words, terminal_safe, until_words, width

MOST_BYTES = 20_000
TRACE_BYTES = 200
VERDICT_COLUMNS = 300
NOTE_COLUMNS = 160
CELL_COLUMNS = 24
LAST_CELL_COLUMNS = 48
BAR_COLUMNS = 20
SPARKS = 40
ASKED_COLUMNS = 1_000
MOST_FACTS = 24
MOST_ROWS = 10
NEWEST_ROWS = 30
MOST_NOTES = 5

BLOCKS = "▁▂▃▄▅▆▇█"
MARKS = re.compile(r"[\\`*_\[\]<>&#!|~:@]|(?<!\d)\.|\.(?!\d)")


def details(sheet: Sheet, trace_id: str | None = None, workflow_id: str | None = None) -> str:
    """Write a sheet in Markdown, in at most 20,000 bytes.

    What does not fit is left out, with a note. Texts are not shown: they may be long, and the
    result has them. `workflow_id` is for the review command that is shown.
    """
    verdict, reason = escaped(sheet.verdict.words, VERDICT_COLUMNS), sheet.verdict.stop_reason
    blocks = [f"**Stopped ({code(reason, 40)}): {verdict}**" if reason else f"**{verdict}**"]
    if sheet.waiting is not None:
        until = f"Needs review {until_words(sheet.waiting.until)}".rstrip()
        command = code(f"mull review {workflow_id or 'ID'}", 300)
        blocks.append(f"**{until}**: {command}")
        blocks += [code(asked, ASKED_COLUMNS) for asked in sheet.waiting.asked]
    flags = [f"- **{escaped(flag, NOTE_COLUMNS)}**" for flag in sheet.flags]
    warnings = [f"- {escaped(warning, NOTE_COLUMNS)}" for warning in sheet.warnings]
    blocks += ["\n".join(_first(flags, MOST_NOTES, "more flag"))] if flags else []
    blocks += ["\n".join(_first(warnings, MOST_NOTES, "more warning"))] if warnings else []
    names = [terminal_safe(fact.label, CELL_COLUMNS) for fact in sheet.facts]
    values = [f"{fact.value} ({fact.note})" if fact.note else fact.value for fact in sheet.facts]
    lines = aligned([names, [terminal_safe(value, 100) for value in values]])
    drawn = {chart.title: sparks(chart) for chart in sheet.charts}
    titles = sum(map(bool, drawn.values())) > 1
    curves = [
        line
        for title, found in drawn.items()
        for line in ([f"{terminal_safe(title, 60)}:"] if titles and found else []) + found
    ]
    tables = [table for table in sheet.tables if not table.folded and table.rows]
    wanted = [
        _fenced(_first(lines, MOST_FACTS, "more fact")),
        _fenced(curves),
        *(_table(table, MOST_ROWS) for table in tables),
        _table(sheet.decisions, NEWEST_ROWS) if sheet.decisions else "",
    ]
    return _joined(blocks, [block for block in wanted if block], trace_id)


def code(text: str, most: int) -> str:
    """Write text in a code span of at most `most` columns."""
    return f"`{_unticked(terminal_safe(text, most) or terminal_safe('(empty)', most))}`"


def escaped(text: str, most: int) -> str:
    """Write text on one line of at most `most` columns, with Markdown escaped."""
    return MARKS.sub(r"\\\g<0>", terminal_safe(text, most))


def aligned(columns: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Pad the cells of each column to one width, and write them in lines.

    The columns whose places are in `right` are right-aligned.
    """
    written = []
    for place, cells in enumerate(columns):
        most = max(map(width, cells), default=0)
        fills = [" " * (most - width(cell)) for cell in cells]
        pairs = zip(fills, cells, strict=True) if place in right else zip(cells, fills, strict=True)
        written.append(map("".join, pairs))
    return ["  ".join(line).rstrip() for line in zip(*written, strict=True)]


def sparkline(shares: Iterable[float]) -> str:
    """Draw shares, each 0 to 1, as one block character each."""
    return "".join(BLOCKS[max(0, min(7, int(share * 8)))] for share in shares)


def sparks(chart: Chart, most: int = SPARKS) -> list[str]:
    """Draw each curve of a chart on one line with its newest value; none for named levels.

    Points without a value are left out.
    """
    if chart.levels:
        return []
    known = {
        terminal_safe(curve.name, CELL_COLUMNS): [at for at in curve.points if at is not None]
        for curve in chart.curves
    }
    drawn = {name: points for name, points in known.items() if points}
    lines = [sparkline(points[-most:]) for points in drawn.values()]
    return aligned([[*drawn], lines, [f"{points[-1]:.2f}" for points in drawn.values()]])


def cell_words(cell: Cell, column: Column) -> str:
    """Write a cell as text; empty if the cell is."""
    match cell:
        case None:
            return ""
        case float():
            return f"{cell:.2f}"
        case int():
            return f"{cell:,}"
    return cell if column.kind == "text" else cell.strip()


def _first(lines: Sequence[str], most: int, noun: str) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"({tally_words(more, noun)} left out)"] if more > 0 else [])]


def _table(table: Table, most: int) -> str:
    table = table.cut(most)
    kept = [place for place, column in enumerate(table.columns) if not column.extra]
    grid: list[list[str]] = []
    numbers = []
    for place in kept:
        column, cells = table.columns[place], [row[place] for row in table.rows]
        columns = LAST_CELL_COLUMNS if place == kept[-1] else CELL_COLUMNS
        if column.kind != "text":
            numbers.append(len(grid))
        said = (column.name, *(cell_words(cell, column) for cell in cells))
        grid.append([terminal_safe(words, columns) for words in said])
        if column.kind == "share":
            bars = (
                bar(cell, BAR_COLUMNS) if isinstance(cell, float | int) else "" for cell in cells
            )
            grid.append(["", *bars])
    head, *body = aligned(grid, numbers) or [""]
    note = f"({table.left_out:,} {'earlier' if table.newest else 'more'} left out)"
    if table.left_out:
        body = [note, *body] if table.newest else [*body, note]
    return _fenced([f"{terminal_safe(table.title, 60)}:", head, *body]) if kept else ""


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *map(_unticked, lines), "```"]) if lines else ""


def _unticked(text: str) -> str:
    """Replace backticks, which could end a block or a span."""
    return text.replace("`", "'")


def _joined(first: list[str], wanted: list[str], trace_id: str | None) -> str:
    """Join the blocks that fit, earlier ones first."""
    room = MOST_BYTES - TRACE_BYTES - len("\n\n".join(first).encode())
    kept, left_out = list(first), 0
    for block in wanted:
        size = len(block.encode()) + 2
        if size <= room:
            kept.append(block)
            room -= size
        else:
            left_out += 1
    if left_out:
        kept.append(f"({tally_words(left_out, 'block')} left out: the result has it all)")
    if trace_id:
        kept.append(f"Trace: {code(trace_id, 64)}")
    return "\n\n".join(kept)
