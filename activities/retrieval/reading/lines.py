"""What a reader gives the splitter: numbered lines; and what it says of a file it can't read."""

from typing import NamedTuple


class Line(NamedTuple):
    """A line of a document, counted from 1 in its file, or in its page."""

    number: int
    text: str
    heading: bool = False
    page: int | None = None


class UnreadableError(Exception):
    """A file can't be read; its text says why, in a few words that follow a count of files."""
