"""From the bytes of a file to passages: text in any encoding, tables, HTML and PDF.

Documents are split at paragraphs where possible, otherwise at lines.

The standard library's parser reads HTML, because selectolax does not keep the source's lines.
"""

import codecs
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from html.parser import HTMLParser
from io import BytesIO
from time import monotonic
from typing import NamedTuple

from charset_normalizer import from_bytes
from pypdf import Configuration, PageObject, PdfReader, apply_configuration
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError
from pypdf.generic import DictionaryObject, StreamObject

from activities.documents.retrieval import CheckStopped
from activities.documents.roots import UnreadableError
from mull.text import well_formed

HTML = (".html", ".htm", ".xhtml")
TABLES = (".csv", ".tsv")
PROSE = (".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc")
LONGEST_HEADER = 500

SNIFFED_BYTES = 8_192
GUESSED_BYTES = 65_536
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
MOST_CONTROLS = 0.02
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Without a mark these have bytes of 0, which `decode` does not accept in a text.
WIDE = ["utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be"]
HEADING = re.compile(r" {0,3}#{1,6}\s+\S")
UNDERLINE = re.compile(r"[=~^-]{3,}\s*$")

HTML_PIECE_CHARACTERS = 65_536
LONGEST_TAG = 2_000_000
SILENT = frozenset({"script", "style", "template", "noscript"})
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "title"})
PARAGRAPHS = HEADINGS | frozenset(
    "address article aside blockquote body dd div dl dt fieldset figure footer form header hr main "  # noqa: SIM905 - a column of thirty strings says no more
    "nav ol p pre section table ul".split()
)
ROWS = frozenset({"br", "li", "option", "tr"})

FILE_LINES = 1_000_000
TOO_MANY_LINES = f"over {FILE_LINES:,} lines"
PASSAGE_CHARACTERS = 1_500
SEPARATORS = " \t,;>}])"
CHECKED_LINES = 4_096

PDF_PAGES = 2_000
PDF_SECONDS = 60.0
# Python reads a megabyte of what a page draws in about two seconds.
PAGE_BYTES = 1_000_000
PAGE_OPERATIONS = 300_000
# For the character tables of a page's fonts, each of which counts as at least a hundredth of it.
FONTS_BYTES = 4_000_000
# For each of the other packed streams of a PDF, such as the tables of its objects.
STREAM_BYTES = 8_000_000

# Called with why a part of a file is left out, and which: "page 3". The rest is read.
Note = Callable[[str, str], None]
# Errors inside a user's PDF do not belong in the worker's log.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


class Line(NamedTuple):
    """A line of a document, counted from 1 in its file, or in its page."""

    number: int
    text: str
    heading: bool = False
    page: int | None = None

    def is_blank(self) -> bool:
        """True if the line has no text."""
        return not self.text or self.text.isspace()


class Part(NamedTuple):
    """A part of a document: its text and its lines, first and last, counted from 1."""

    text: str
    first_line: int
    last_line: int
    page: int | None


def format_of(name: str, content: bytes) -> str:
    """Say how a file is read: `pdf`, `html`, `table`, `prose` or `text`."""
    lowered = name.lower()
    if content.startswith(b"%PDF-") or lowered.endswith(".pdf"):
        return "pdf"
    for known, endings in (("html", HTML), ("table", TABLES), ("prose", PROSE)):
        if lowered.endswith(endings):
            return known
    return "text"


def read_document(
    name: str, content: bytes, check_stopped: CheckStopped, note: Note = lambda *_: None
) -> list[Part]:
    """Read a file and split it; call `note` for each part that is left out.

    Raises UnreadableError, and the errors of `check_stopped`.
    """
    form = format_of(name, content)
    if form == "pdf":
        return list(parts_of(_pdf_lines(content, check_stopped, note), check_stopped))
    text = decode(content).replace("\r\n", "\n").replace("\r", "\n")
    if form == "html":
        lines = html_lines(text, check_stopped)
    else:
        lines = text_lines(text, headings=form == "prose")
    parts = list(parts_of(lines, check_stopped))
    # Rows say little without the names of their columns.
    header = text[: LONGEST_HEADER + 1].partition("\n")[0].strip() if form == "table" else ""
    if not 0 < len(header) <= LONGEST_HEADER:
        return parts
    return [
        part if part.first_line == 1 else part._replace(text=f"{header}\n{part.text}")
        for part in parts
    ]


def decode(content: bytes) -> str:
    """Read bytes as text: by its byte order mark, else as UTF-8, else by a guess.

    The result has no lone surrogates. Raises UnreadableError for bytes that are not text.
    """
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, errors="replace")
    sniffed = content[:SNIFFED_BYTES]
    if b"\0" in sniffed or len(CONTROLS.findall(sniffed)) > MOST_CONTROLS * len(sniffed):
        raise UnreadableError("no text")
    try:
        return content.decode()
    except UnicodeDecodeError:
        text = content.decode(errors="replace")
    # A few bad bytes among good UTF-8 are damage; if most are bad, it is another encoding.
    bad = text.count("\ufffd")
    good = sum(not character.isascii() for character in text) - bad
    return text if good > bad else content.decode(_guess(content), errors="replace")


def _guess(content: bytes) -> str:
    """Guess a script that is not Latin; read everything else as Windows' Latin-1.

    A guess among the Latin encodings rests on a few letters, and is often wrong.
    """
    head = content[:GUESSED_BYTES]
    if len(head) < len(content):
        head = head[: head.rfind(b"\n")]  # not within a character
    best = from_bytes(head, cp_exclusion=WIDE).best()
    letters = [character for character in str(best or "") if character.isalpha()]
    foreign = sum(ord(letter) > 0x24F for letter in letters)
    return best.encoding if best and 2 * foreign > len(letters) else "cp1252"


def text_lines(text: str, *, headings: bool) -> Iterator[Line]:
    """Number the lines of a text as an editor does; headings of sections are marked if asked.

    Raises UnreadableError for over a million lines.
    """
    if text.count("\n") > FILE_LINES:
        raise UnreadableError(TOO_MANY_LINES)
    rows = text.split("\n")
    for number, (row, below) in enumerate(zip(rows, [*rows[1:], ""], strict=True), 1):
        yield Line(number, row, headings and _is_heading(row, below))


def _is_heading(row: str, below: str) -> bool:
    """The title of a section, as Markdown and reStructuredText mark or underline it."""
    if "#" in row[:4] and HEADING.match(row):
        return True
    if below[:1] not in "=~^-" or not below:
        return False
    return 0 < len(row.strip()) <= 100 and bool(UNDERLINE.match(below)) and row[0].isalnum()


def html_lines(text: str, check_stopped: CheckStopped) -> Iterator[Line]:
    """Yield the lines of text with their numbers in the source, without scripts and styles.

    Raises UnreadableError for a tag without an end.
    """
    reader = _HtmlReader()
    # Never close the parser: it takes quadratic time to close a tag without an end.
    for start in range(0, len(text), HTML_PIECE_CHARACTERS):
        check_stopped()
        try:
            reader.feed(text[start : start + HTML_PIECE_CHARACTERS])
        except AssertionError:  # how the parser says that it can't go on
            raise UnreadableError("broken HTML") from None
        if len(reader.rawdata) > LONGEST_TAG:
            raise UnreadableError("HTML with a tag that never ends")
        yield from reader.take()
    reader.end_line()
    yield from reader.take()


class _HtmlReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self._lines: list[Line] = []
        self._words: list[str] = []
        self._apart = True
        self._silent = 0
        self._pre = 0
        self._heading = False
        self._number = 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's signature
        self._silent += tag in SILENT
        self._pre += tag == "pre"
        self._separate(tag)
        self._heading = self._heading or tag in HEADINGS

    def handle_endtag(self, tag: str) -> None:
        self._separate(tag)
        self._silent = max(0, self._silent - (tag in SILENT))
        self._pre = max(0, self._pre - (tag == "pre"))
        self._heading = self._heading and tag not in HEADINGS

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        for at, row in enumerate(data.split("\n")):
            if at:
                self.end_line()
            if not self._words:
                self._number = self.getpos()[0] + at
            self._words.append(row)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(unescape(f"&{name};").replace("\n", " "))

    def handle_charref(self, name: str) -> None:
        self.handle_entityref(f"#{name}")

    def take(self) -> list[Line]:
        taken, self._lines = self._lines, []
        return taken

    def end_line(self) -> None:
        said = "".join(self._words)
        words = said.rstrip() if self._pre else " ".join(said.split())
        if words:
            self._lines.append(Line(self._number, words, self._heading))
            self._apart = False
        self._words = []

    def _separate(self, tag: str) -> None:
        if tag in PARAGRAPHS or tag in ROWS:
            self.end_line()
        elif tag in {"td", "th"} and self._words:
            self._words.append(" ")
        if tag in PARAGRAPHS and not self._apart:
            self._lines.append(Line(self.getpos()[0], ""))
            self._apart = True


def _pdf_lines(content: bytes, check_stopped: CheckStopped, note: Note) -> Iterator[Line]:
    """Yield the lines of each page, of at most 2,000 pages and for at most 60 seconds.

    Leave out and note a page that draws over 1 MB, or in over 300,000 steps, or in over a hundred
    fonts, and the pages after either bound. Raises UnreadableError for a broken or encrypted PDF.
    """
    end = monotonic() + PDF_SECONDS

    def check_time() -> None:
        check_stopped()
        if monotonic() > end:
            raise TimeoutError

    try:
        with apply_configuration(_limits(STREAM_BYTES)):
            reader = PdfReader(BytesIO(content))
            count = len(reader.pages)
        for number in range(1, min(count, PDF_PAGES) + 1):
            try:
                check_time()
                with apply_configuration(_limits(STREAM_BYTES)):
                    text = well_formed(_page_text(reader.pages[number - 1], check_time))
            except LimitReachedError:
                note("pages that draw too much", f"page {number}")
                continue
            rows = enumerate(text.split("\n"), 1)
            yield from (Line(row_number, row.rstrip(), page=number) for row_number, row in rows)
        if count > PDF_PAGES:
            note(f"pages beyond {PDF_PAGES:,}", f"pages from {PDF_PAGES + 1}")
    except TimeoutError:
        note(f"pages that {PDF_SECONDS:g} s do not suffice for", f"pages from {number}")
    except (FileNotDecryptedError, DependencyError):
        raise UnreadableError("encrypted") from None
    except Exception:  # pypdf may raise anything for a broken file
        raise UnreadableError("a broken PDF") from None


def _limits(size: int) -> Configuration:
    """Bound the bytes that any stream of a PDF may decode to, and how much of it is parsed."""
    return Configuration(
        zlib_maximum_output_length=size,
        zlib_maximum_recovery_input_length=PAGE_BYTES,
        lzw_maximum_output_length=size,
        run_length_maximum_output_length=size,
        brotli_maximum_output_length=size,
        array_based_stream_maximum_output_length=size,
        # A few kilobytes may decode to gigabytes, through as many steps as there are filters.
        stream_decoding_work_maximum_length=4 * size,
        stream_parsing_work_maximum_count=PAGE_OPERATIONS,
    )


def _page_text(page: PageObject, check_time: CheckStopped) -> str:
    """Read a page's text, after measuring the page: reading goes through all that it draws.

    Raises LimitReachedError where the page is too large, and the errors of `check_time`.
    """
    with apply_configuration(_limits(PAGE_BYTES)):
        contents = page.get_contents()
        drawn = 0 if contents is None else len(contents.get_data())
        fonts, room = _member(_member(page, "/Resources"), "/Font"), FONTS_BYTES
        for name in fonts:
            table = _member(_member(fonts, name), "/ToUnicode")
            size = len(table.get_data()) if isinstance(table, StreamObject) else 0
            room -= max(size, FONTS_BYTES // 100)
            if room < 0:
                break
        if drawn > PAGE_BYTES or room < 0:
            raise LimitReachedError
    operations = 0

    def check(*_: object) -> None:
        nonlocal operations
        operations += 1
        if operations > PAGE_OPERATIONS:
            raise LimitReachedError
        if operations % 64 == 0:
            check_time()

    text = page.extract_text(visitor_operand_before=check)
    # Pypdf catches what `check` raises within a form, which is a page within the page.
    check_time()
    if operations > PAGE_OPERATIONS:
        raise LimitReachedError
    return text


def _member(whole: DictionaryObject, name: str) -> DictionaryObject:
    found = whole.get(name)
    part = found.get_object() if found is not None else None
    return part if isinstance(part, DictionaryObject) else DictionaryObject()


def parts_of(lines: Iterable[Line], check_stopped: CheckStopped) -> Iterator[Part]:
    """Split lines into parts of about 1,500 characters, and never more.

    Parts end between paragraphs where possible, and always at the end of a page. A section begins
    a new part, unless the part before it is short, and headings stay with the text below them.
    Raises UnreadableError for over a million lines.
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
