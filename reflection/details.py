"""A sheet as Markdown for Temporal's Web UI, while a run goes on and after.

The Web UI's tables have no cell padding, so numbers are aligned in fenced blocks. It shows about
60 columns. Texts come from models and people, so they are put in blocks or code spans, or escaped:
Markdown has no effect there, and without backticks no text can end its block or span.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from reflection.sheet import Cell, Chart, Column, Sheet, Table
from reflection.text import padded, tally_words, terminal_safe, until_words, width

MOST_BYTES = 20_000
TRACE_BYTES = 200
VERDICT_COLUMNS = 300
NOTE_COLUMNS = 160
CELL_COLUMNS = 24
LAST_CELL_COLUMNS = 48
BAR_COLUMNS = 20
SPARKS = 40
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
    blocks = [_verdict(sheet)]
    if sheet.waiting is not None:
        blocks.append(_review_note(sheet.waiting.until, workflow_id))
    blocks += _bullets(sheet.flags, "flag", strong=True)
    blocks += _bullets(sheet.warnings, "warning")
    facts = [(fact.label, _noted(fact.value, fact.note)) for fact in sheet.facts]
    lines = aligned(
        [(terminal_safe(name, CELL_COLUMNS), terminal_safe(said, 100)) for name, said in facts], ()
    )
    curves = [line for chart in sheet.charts for line in sparks(chart)]
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


def aligned(rows: Sequence[Sequence[str]], right: Iterable[int]) -> list[str]:
    """Pad the cells of each column to one width; the columns in `right` are right-aligned."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    ends = set(right)
    return [
        "  ".join(
            " " * (columns - width(cell)) + cell if place in ends else padded(cell, columns)
            for place, (cell, columns) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def bar(share: float, columns: int) -> str:
    """Draw a share, 0 to 1, as a bar; a share above 0 gets at least one column."""
    full = max(round(share * columns), int(share > 0))
    return "▇" * full + "▁" * (columns - full)


def sparkline(shares: Iterable[float]) -> str:
    """Draw shares, each 0 to 1, as one block character each."""
    return "".join(BLOCKS[max(0, min(7, int(share * 8)))] for share in shares)


def sparks(chart: Chart, most: int = SPARKS) -> list[str]:
    """Draw each curve of a chart on one line with its newest value; none for named levels.

    Points without a value are left out.
    """
    if chart.levels:
        return []
    found = [(curve.name, [at for at in curve.points if at is not None]) for curve in chart.curves]
    rows = [
        (terminal_safe(name, CELL_COLUMNS), sparkline(points[-most:]), f"{points[-1]:.2f}")
        for name, points in found
        if points
    ]
    return aligned(rows, ())


def trimmed(table: Table) -> Table:
    """Remove the columns that are empty in every row."""
    empty = (None, "")
    kept = [
        place
        for place in range(len(table.columns))
        if any(row[place] not in empty for row in table.rows)
    ]
    return table.model_copy(
        update={
            "columns": tuple(table.columns[place] for place in kept),
            "rows": tuple(tuple(row[place] for place in kept) for row in table.rows),
        }
    )


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


def _verdict(sheet: Sheet) -> str:
    said = escaped(sheet.verdict.words, VERDICT_COLUMNS)
    reason = sheet.verdict.stop_reason
    return f"**Stopped ({code(reason, 40)}): {said}**" if reason else f"**{said}**"


def _review_note(until: datetime | None, workflow_id: str | None) -> str:
    command = code(f"mull review {workflow_id or 'ID'}", 300)
    return f"**{f'Needs review {until_words(until)}'.rstrip()}**: {command}"


def _bullets(notes: Sequence[str], what: str, *, strong: bool = False) -> list[str]:
    shown = [escaped(note, NOTE_COLUMNS) for note in notes]
    lines = [f"**{note}**" if strong else note for note in shown]
    listed = "\n".join(f"- {line}" for line in _first(lines, MOST_NOTES, f"more {what}"))
    return [listed] if listed else []


def _first(lines: Sequence[str], most: int, noun: str) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"({tally_words(more, noun)} left out)"] if more > 0 else [])]


def _table(table: Table, most: int) -> str:
    table = trimmed(table)
    columns = [place for place, column in enumerate(table.columns) if not column.extra]
    if not columns:
        return ""
    rows = table.rows[-most:] if table.newest else table.rows[:most]
    left_out = len(table.rows) - len(rows) + table.earlier
    kept = [table.columns[place] for place in columns]
    names = tuple(column.name for column in table.columns)
    lines = [list(_cells([row[place] for place in columns], kept)) for row in (names, *rows)]
    body = aligned(lines, _numbers(kept))
    said = f"({left_out:,} {'earlier' if table.newest else 'more'} left out)"
    note = [said] if left_out else []
    placed = [body[0], *note, *body[1:]] if table.newest else [*body, *note]
    return _fenced([f"{terminal_safe(table.title, 60)}:", *placed])


def _numbers(columns: Sequence[Column]) -> list[int]:
    """List the positions of numeric cells in a line; a share takes two cells."""
    places, place = [], 0
    for column in columns:
        if column.kind != "text":
            places.append(place)
        place += 2 if column.kind == "share" else 1
    return places


def _cells(row: Sequence[Cell], columns: Sequence[Column]) -> Iterable[str]:
    for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
        most = LAST_CELL_COLUMNS if place == len(columns) - 1 else CELL_COLUMNS
        yield terminal_safe(cell_words(cell, column), most)
        if column.kind == "share":
            yield bar(cell, BAR_COLUMNS) if isinstance(cell, float | int) else ""


def _noted(value: str, note: str) -> str:
    return f"{value} ({note})" if note else value


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
