"""From bytes to text: which encoding, and whether it is text at all."""

import codecs
import re
from collections.abc import Iterator

from activities.retrieval.reading.lines import Line, UnreadableError

SNIFFED_BYTES = 8_192
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
MOST_CONTROLS = 0.02
HEADING = re.compile(r" {0,3}#{1,6}\s+\S")
UNDERLINE = re.compile(r"[=~^-]{3,}\s*$")
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
    """Number the lines of a text as an editor does; headings of sections are marked if asked."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for index, row in enumerate(rows):
        below = rows[index + 1] if headings and index + 1 < len(rows) else ""
        heading = headings and (bool(HEADING.match(row)) or _underlined(row, below))
        yield Line(index + 1, row, heading)


def _underlined(row: str, below: str) -> bool:
    """The title of a section, as Markdown and reStructuredText underline it."""
    return 0 < len(row.strip()) <= 100 and bool(UNDERLINE.match(below)) and row[0].isalnum()
