"""What a run rests on, as a list of names and what they stand for."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from reflection.run import Usage
from reflection.text import spent_words

Row = tuple[str, Text | Table]

EMBEDDED = "embedded/"
UNANSWERED = frozenset({"retried", "cancelled"})


def panel(rows: Sequence[Row]) -> Table:
    """Show each value beside its name; a name that follows itself is said once."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(ratio=1)
    before = ""
    for name, value in rows:
        grid.add_row("" if name == before else name, value)
        before = name
    return grid


def pairs(rows: Sequence[tuple[str, str]]) -> Table:
    """Show short names and their words, the words below one another."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, words in rows:
        grid.add_row(Text(name), Text(words))
    return grid


def usage_rows(usage: Usage) -> list[Row]:
    """Show what each part of the run cost, and all of it."""
    parts = [
        (name, spent_words(part))
        for name, part in usage.parts.items()
        if name not in UNANSWERED and part.calls
    ]
    return [("usage", pairs([*parts, ("in all", spent_words(usage))]))]
