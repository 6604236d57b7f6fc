"""Text from outside in Markdown: in aligned fenced blocks and code spans, or escaped.

In blocks and spans Markdown means nothing, and without a backtick neither can be left.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from reflection.text import padded, terminal_safe, until_words, width

MARKS = re.compile(r"[\\`*_\[\]<>&#!|~:@]|(?<!\d)\.|\.(?!\d)")


def aligned(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    """Fill the cells so that columns stand below one another; those in `right` end alike."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(_placed(row, widths, right)).rstrip() for row in rows]


def _placed(row: Sequence[str], widths: Sequence[int], right: set[int]) -> list[str]:
    return [
        " " * (columns - width(cell)) + cell if place in right else padded(cell, columns)
        for place, (cell, columns) in enumerate(zip(row, widths, strict=True))
    ]


def fenced(lines: Sequence[str]) -> str:
    """Put lines into a block in which nothing of them is Markdown."""
    return "\n".join(["```text", *lines, "```"])


def unticked(text: str) -> str:
    """Replace what could end a block or a span."""
    return text.replace("`", "'")


def code(text: str, most: int) -> str:
    """Show text in a code span of at most `most` columns."""
    return f"`{unticked(terminal_safe(text, most) or terminal_safe('(empty)', most))}`"


def review_note(until: datetime | None, workflow_id: str | None) -> str:
    """Say that a run waits for a person, until when, and the command to type."""
    command = code(f"starter.py review {workflow_id or 'ID'}", 300)
    return f"**{f'Needs review {until_words(until)}'.rstrip()}**: {command}"


def escaped(text: str, most: int) -> str:
    """Show text on one line of at most `most` columns, in which Markdown means nothing."""
    return MARKS.sub(r"\\\g<0>", terminal_safe(text, most))
