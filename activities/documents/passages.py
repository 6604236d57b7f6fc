"""Splitting a document into passages: at paragraphs where it can be, at lines where it must."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from activities.documents.roots import UnreadableError
from activities.documents.threads import CheckStopped

FILE_LINES = 1_000_000
TOO_MANY_LINES = f"over {FILE_LINES:,} lines"
PASSAGE_CHARACTERS = 1_500
SEPARATORS = " \t,;>}])"
CHECKED_LINES = 4_096


class Line(NamedTuple):
    """A line of a document, counted from 1 in its file, or in its page."""

    number: int
    text: str
    heading: bool = False
    page: int | None = None

    def is_blank(self) -> bool:
        """True where nothing is written."""
        return not self.text or self.text.isspace()


class Part(NamedTuple):
    """A part of a document: its text and its lines, first and last, counted from 1."""

    text: str
    first_line: int
    last_line: int
    page: int | None


def parts_of(lines: Iterable[Line], check_stopped: CheckStopped) -> Iterator[Part]:
    """Split lines into parts of about 1,500 characters, which no part exceeds.

    A part ends between paragraphs where one fits, and a page's end ends it. A section begins a
    new part, unless the part before it is short, and headings stay with what follows. Raises
    UnreadableError for over a million lines.
    """
    packed: list[Line] = []
    size = 0
    for paragraph in _paragraphs(_pieces(lines, check_stopped)):
        added = sum(len(line.text) + 1 for line in paragraph)
        if packed and (
            paragraph[0].page != packed[0].page
            or size + added > PASSAGE_CHARACTERS + 1
            or (paragraph[0].heading and size > PASSAGE_CHARACTERS // 2)
        ):
            yield _part(packed)
            packed, size = [], 0
        packed += paragraph
        size += added
    if packed:
        yield _part(packed)


def _part(lines: Sequence[Line]) -> Part:
    written = [line.number for line in lines if not line.is_blank()]
    text = "\n".join(line.text for line in lines).strip("\n")
    return Part(text, written[0], written[-1], lines[0].page)


def _paragraphs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Group lines to paragraphs, each with the headings before and the blank lines after it."""
    held: list[Line] = []
    size, begun = 0, False  # `begun` once there is more than headings
    for line in lines:
        blank = line.is_blank()
        new = begun and not blank and (line.heading or held[-1].is_blank())
        full = size + len(line.text) > PASSAGE_CHARACTERS
        if held and (new or full or line.page != held[0].page):
            yield held
            held, size, begun = [], 0, False
        if held or not blank:
            held.append(line)
            size += len(line.text) + 1
            begun = begun or not (line.heading or blank)
    if held:
        yield held


def _pieces(lines: Iterable[Line], check_stopped: CheckStopped) -> Iterator[Line]:
    """Cut long lines, at a space or a comma, into lines with the same number."""
    for count, line in enumerate(lines):
        if count % CHECKED_LINES == 0:
            check_stopped()
            if count >= FILE_LINES:
                raise UnreadableError(TOO_MANY_LINES)
        start, text = 0, line.text
        while len(text) - start > PASSAGE_CHARACTERS:
            middle, end = start + PASSAGE_CHARACTERS // 2, start + PASSAGE_CHARACTERS
            at = max(text.rfind(separator, middle, end) for separator in SEPARATORS)
            cut = end if at < 0 else at + 1
            yield line._replace(text=text[start:cut])
            start = cut
        yield line._replace(text=text[start:]) if start else line
