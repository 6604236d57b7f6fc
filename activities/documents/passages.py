"""Splitting a document into passages: at paragraphs where it can be, at lines where it must."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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


def split(lines: Iterable[Line], check_stopped: CheckStopped) -> Iterator[Part]:
    """Split lines into parts of about 1,500 characters, which no part exceeds.

    A part ends between paragraphs where one fits, and a page's end ends it. Headings stay with
    what follows. A line that is longer is cut at a space or a comma. Raises UnreadableError for
    over a million lines.
    """

    def pieces() -> Iterator[Line]:
        for count, line in enumerate(lines):
            if count % CHECKED_LINES == 0:
                check_stopped()
                if count >= FILE_LINES:
                    raise UnreadableError(TOO_MANY_LINES)
            yield from _pieces(line)

    packed = _Block()
    for block in _paragraphs(pieces()):
        if packed.lines and not packed.has_room_for(block):
            yield packed.part()
            packed = _Block()
        packed.lines += block.lines
        packed.size += block.size
    if packed.lines:
        yield packed.part()


@dataclass
class _Block:
    """Lines that belong together; `size` in characters, with one for each line's end.

    `complete` says that there is more than headings.
    """

    lines: list[Line] = field(default_factory=list)
    size: int = 0
    complete: bool = False

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self.size += len(line.text) + 1
        self.complete = self.complete or not (line.heading or line.is_blank())

    def ends_before(self, line: Line) -> bool:
        if line.page != self.lines[0].page or self.size + len(line.text) > PASSAGE_CHARACTERS:
            return True
        if not self.complete or line.is_blank():
            return False
        return line.heading or self.lines[-1].is_blank()

    def has_room_for(self, block: "_Block") -> bool:
        """A section begins a new passage, unless the one before it is short."""
        if self.lines[0].page != block.lines[0].page:
            return False
        if block.lines[0].heading and self.size > PASSAGE_CHARACTERS // 2:
            return False
        return self.size + block.size <= PASSAGE_CHARACTERS + 1

    def part(self) -> Part:
        written = [line.number for line in self.lines if not line.is_blank()]
        text = "\n".join(line.text for line in self.lines).strip("\n")
        return Part(text, written[0], written[-1], self.lines[0].page)


def _pieces(line: Line) -> Iterator[Line]:
    """Cut a long line into lines with the same number."""
    start, text = 0, line.text
    while len(text) - start > PASSAGE_CHARACTERS:
        middle, end = start + PASSAGE_CHARACTERS // 2, start + PASSAGE_CHARACTERS
        at = max(text.rfind(separator, middle, end) for separator in SEPARATORS)
        cut = end if at < 0 else at + 1
        yield line._replace(text=text[start:cut])
        start = cut
    yield line._replace(text=text[start:]) if start else line


def _paragraphs(lines: Iterable[Line]) -> Iterator[_Block]:
    """Group lines to paragraphs, each with the headings before and the blank lines after it."""
    block = _Block()
    for line in lines:
        if block.lines and block.ends_before(line):
            yield block
            block = _Block()
        if block.lines or not line.is_blank():
            block.add(line)
    if block.lines:
        yield block
