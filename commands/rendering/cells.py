"""Cells that give way: what does not fit is cut, and never wraps."""

from rich.text import Text


def cut(words: str, *, unread: bool = False) -> Text:
    """Keep `words` on one line of their cell; those of an unreadable answer stand back."""
    return Text(words, "dim italic" if unread else "", no_wrap=True, overflow="ellipsis")
