"""What a reader gives the splitter: numbered lines; and what it says of a file it can't read."""

from collections.abc import Callable
from typing import NamedTuple

from activities.retrieval.bounds import FILE_LINES

# Why a part of a file is left out, and which: "page 3". The rest is read.
Note = Callable[[str, str], None]
TOO_MANY = f"over {FILE_LINES:,} lines"


class Line(NamedTuple):
    """A line of a document, counted from 1 in its file, or in its page."""

    number: int
    text: str
    heading: bool = False
    page: int | None = None


class UnreadableError(Exception):
    """A file can't be read; its text says why, in a few words that follow a count of files."""


def unnoted(reason: str, place: str) -> None:
    """Tell nobody."""
