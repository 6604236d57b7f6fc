"""Tables of one line each, and cells that give way: what does not fit is cut, and never wraps."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text


def cut(words: str, *, unread: bool = False) -> Text:
    """Keep `words` on one line of their cell; those of an unreadable answer stand back."""
    return Text(words, "dim italic" if unread else "", no_wrap=True, overflow="ellipsis")


def grid(*names: str, right: Sequence[int]) -> Table:
    """Make a table whose last column alone wraps; `right` are the columns of numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for place, name in enumerate(names):
        last = place == len(names) - 1
        table.add_column(
            name,
            justify="right" if place in right else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    return table
