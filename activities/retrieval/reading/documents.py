"""Which reader reads which file."""

from collections.abc import Sequence

from activities.retrieval.reading.html import html_lines
from activities.retrieval.reading.lines import Note, unnoted
from activities.retrieval.reading.passages import Part, split
from activities.retrieval.reading.pdf import pdf_lines
from activities.retrieval.reading.texts import decode, text_lines
from activities.retrieval.threads import Going

HTML = (".html", ".htm", ".xhtml")
TABLES = (".csv", ".tsv")
PROSE = (".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc")
LONGEST_HEADER = 500


def format_of(name: str, content: bytes) -> str:
    """Say how a file is read: `pdf`, `html`, `table`, `prose` or `text`."""
    lowered = name.lower()
    if content.startswith(b"%PDF-") or lowered.endswith(".pdf"):
        return "pdf"
    for known, endings in (("html", HTML), ("table", TABLES), ("prose", PROSE)):
        if lowered.endswith(endings):
            return known
    return "text"


def read_document(name: str, content: bytes, going: Going, note: Note = unnoted) -> list[Part]:
    """Read a file and split it; `note` is told of what is left out of it.

    Raises UnreadableError, and whatever `going` raises.
    """
    form = format_of(name, content)
    if form == "pdf":
        return list(split(pdf_lines(content, going, note), going))
    text = decode(content)
    if form == "html":
        return list(split(html_lines(text, going), going))
    parts = list(split(text_lines(text, headings=form == "prose"), going))
    return _with_header(parts, text) if form == "table" else parts


def _with_header(parts: Sequence[Part], text: str) -> list[Part]:
    """Rows say little without the names of their columns."""
    header = next(text_lines(text[: LONGEST_HEADER + 1], headings=False)).text.strip()
    if not 0 < len(header) <= LONGEST_HEADER:
        return list(parts)
    return [
        part if part.first_line == 1 else part._replace(text=f"{header}\n{part.text}")
        for part in parts
    ]
