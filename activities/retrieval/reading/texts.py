"""From bytes to text: which encoding, and whether it is text at all."""

import codecs
import re
from collections.abc import Iterator

from activities.retrieval.bounds import FILE_LINES
from activities.retrieval.reading.lines import TOO_MANY, Line, UnreadableError

SNIFFED_BYTES = 8_192
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
MOST_CONTROLS = 0.02
HEADING = re.compile(r" {0,3}#{1,6}\s+\S")
UNDERLINE = re.compile(r"[=~^-]{3,}\s*$")
UNDERLINES = "=~^-"
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def decode(content: bytes) -> str:
    """Read bytes as text: by its byte order mark, else as UTF-8, else as Windows' Latin-1.

    The result has no lone surrogates. Raises UnreadableError for what is no text.
    """
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, errors="replace")
    sniffed = content[:SNIFFED_BYTES]
    if b"\0" in sniffed or len(CONTROLS.findall(sniffed)) > MOST_CONTROLS * len(sniffed):
        raise UnreadableError("no text")
    return _unmarked(content)


def _unmarked(content: bytes) -> str:
    """A few bad bytes among good UTF-8 are damage; where most are bad, it is another encoding."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        text = content.decode(errors="replace")
    bad = text.count("\ufffd")
    good = sum(not each.isascii() for each in text) - bad
    return text if good > bad else content.decode("cp1252", errors="replace")


def text_lines(text: str, *, headings: bool) -> Iterator[Line]:
    """Number the lines of a text as an editor does; headings of sections are marked if asked.

    Raises UnreadableError for over a million lines.
    """
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    if unified.count("\n") > FILE_LINES:
        raise UnreadableError(TOO_MANY)
    rows = unified.split("\n")
    if not headings:
        yield from (Line(number, row) for number, row in enumerate(rows, 1))
        return
    for number, (row, below) in enumerate(zip(rows, [*rows[1:], ""], strict=True), 1):
        yield Line(number, row, _is_heading(row, below))


def _is_heading(row: str, below: str) -> bool:
    """The title of a section, as Markdown and reStructuredText mark or underline it."""
    if "#" in row[:4] and HEADING.match(row):
        return True
    if below[:1] not in UNDERLINES or not below:
        return False
    return 0 < len(row.strip()) <= 100 and bool(UNDERLINE.match(below)) and row[0].isalnum()
