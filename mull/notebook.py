"""A record as HTML, for a notebook: what the run came to, its facts and its tables."""

from collections.abc import Sequence
from html import escape
from typing import Any

from mull.details import cell_words
from mull.loops import LOOPS
from mull.sheet import Column, Table
from mull.text import Cell, terminal_safe

MOST_ROWS = 30
ANSWER_CHARACTERS = 20_000
# Colors of the page stay: notebooks are light or dark.
LEFT, RIGHT = "text-align:left", "text-align:right"
# Else "$5 and $6" would be drawn as a formula.
NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
ANSWER = "white-space:pre-wrap;border-left:3px solid;padding-left:0.8em;margin:0.5em 0"


def html_of(record: Any) -> str | None:
    """Draw a record of a run as HTML; None if it is of no loop.

    All texts are escaped: they come from models and people.
    """
    loop = next((loop for loop in LOOPS if type(record) is loop.result), None)
    if loop is None:
        return None
    sheet = loop.sheet(record)
    parts = [f"<b>{_text(sheet.verdict.words)}</b>"]
    if sheet.answer:
        content = sheet.answer.content
        cut = "\n…" if len(content) > ANSWER_CHARACTERS else ""
        shown = escape(content[:ANSWER_CHARACTERS] + cut)
        parts.append(f'<div style="{ANSWER}">{shown}</div>')
    notes = [f"<li><b>{_text(flag)}</b></li>" for flag in sheet.flags]
    notes += [f"<li>{_text(warning)}</li>" for warning in sheet.warnings]
    parts += [f"<ul>{''.join(notes)}</ul>"] if notes else []
    facts = [(one.label, one.value, one.note) for one in sheet.facts]
    facts += [("id", record.id, "")] if record.id else []
    parts.append(_grid((), facts))
    parts += [_table(table) for table in sheet.tables if table.rows and not table.folded]
    decisions = sheet.decisions
    if decisions and decisions.rows:
        title = f"<summary>{_text(decisions.title)}</summary>"
        parts.append(f"<details>{title}{_table(decisions, titled=False)}</details>")
    return f'<div class="{NO_FORMULAS}">{"".join(parts)}</div>'


def _table(table: Table, *, titled: bool = True) -> str:
    cut = table.cut(MOST_ROWS)
    rows = [
        [cell_words(cell, column) for cell, column in zip(row, cut.columns, strict=True)]
        for row in cut.rows
    ]
    title = f"<div><b>{_text(table.title)}</b></div>" if titled else ""
    left_out = f"<div>{cut.left_out:,} more left out</div>" if cut.left_out else ""
    return f"{title}{_grid(cut.columns, rows)}{left_out}"


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    sides = [LEFT if column.kind == "text" else RIGHT for column in columns]
    head = "".join(
        f'<th style="{side}">{_text(column.name)}</th>'
        for column, side in zip(columns, sides, strict=True)
    )
    lines = [f"<tr>{head}</tr>"] if head else []
    for row in rows:
        known = zip(row, sides or [LEFT] * len(row), strict=True)
        cells = (f'<td style="{side}">{_text(str(cell))}</td>' for cell, side in known)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _text(text: str) -> str:
    return escape(terminal_safe(text, 1_000))
