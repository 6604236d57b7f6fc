"""Splitting a document into passages: at paragraphs where it can be, at lines where it must."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from activities.retrieval.bounds import FILE_LINES, PASSAGE_CHARACTERS
from activities.retrieval.reading.lines import TOO_MANY, Line, UnreadableError
from activities.retrieval.threads import Going, nothing

SEPARATORS = " \t,;>}])"
WATCHED_LINES = 4_096


class Part(NamedTuple):
    """A part of a document: its text and its lines, first and last, counted from 1."""

    text: str
    first_line: int
    last_line: int
    page: int | None


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
        self.complete = self.complete or not (line.heading or _is_blank(line))

    def extend(self, block: "_Block") -> None:
        self.lines += block.lines
        self.size += block.size


def split(lines: Iterable[Line], going: Going = nothing) -> Iterator[Part]:
    """Split lines into parts of about 1,500 characters, which no part exceeds.

    A part ends between paragraphs where one fits, and a page's end ends it. Headings stay with
    what follows. A line that is longer is cut at a space or a comma. `going` is called now and
    then, and may raise. Raises UnreadableError for over a million lines.
    """
    pieces = (piece for line in _watched(lines, going) for piece in _pieces(line))
    for block in _packed(_blocks(pieces)):
        going()
        yield _part(block.lines)


def _watched(lines: Iterable[Line], going: Going) -> Iterator[Line]:
    for count, line in enumerate(lines):
        if count % WATCHED_LINES == 0:
            going()
            if count >= FILE_LINES:
                raise UnreadableError(TOO_MANY)
        yield line


def _is_blank(line: Line) -> bool:
    return not line.text or line.text.isspace()


def _pieces(line: Line) -> Iterator[Line]:
    """Cut a long line into lines with the same number."""
    start, text = 0, line.text
    while len(text) - start > PASSAGE_CHARACTERS:
        middle, end = start + PASSAGE_CHARACTERS // 2, start + PASSAGE_CHARACTERS
        at = max(text.rfind(each, middle, end) for each in SEPARATORS)
        cut = end if at < 0 else at + 1
        yield line._replace(text=text[start:cut])
        start = cut
    yield line._replace(text=text[start:]) if start else line


def _blocks(lines: Iterable[Line]) -> Iterator[_Block]:
    """Group lines to paragraphs, each with the headings before and the blank lines after it."""
    block = _Block()
    for line in lines:
        if block.lines and _begins(block, line):
            yield block
            block = _Block()
        if block.lines or not _is_blank(line):
            block.add(line)
    if block.lines:
        yield block


def _begins(block: _Block, line: Line) -> bool:
    if line.page != block.lines[0].page or block.size + len(line.text) > PASSAGE_CHARACTERS:
        return True
    if not block.complete or _is_blank(line):
        return False
    return line.heading or _is_blank(block.lines[-1])


def _packed(blocks: Iterable[_Block]) -> Iterator[_Block]:
    packed = _Block()
    for block in blocks:
        if packed.lines and not _fits(packed, block):
            yield packed
            packed = _Block()
        packed.extend(block)
    if packed.lines:
        yield packed


def _fits(packed: _Block, block: _Block) -> bool:
    """A section begins a new passage, unless the one before it is short."""
    if packed.lines[0].page != block.lines[0].page:
        return False
    if block.lines[0].heading and packed.size > PASSAGE_CHARACTERS // 2:
        return False
    return packed.size + block.size <= PASSAGE_CHARACTERS + 1


def _part(lines: list[Line]) -> Part:
    written = [line.number for line in lines if not _is_blank(line)]
    text = "\n".join(line.text for line in lines).strip("\n")
    return Part(text, written[0], written[-1], lines[0].page)
