"""From bytes to passages, and files that would take minutes to read, though they are small."""

import codecs
from collections.abc import Callable
from io import BytesIO
from time import process_time

import pytest
from pypdf import PdfWriter

from activities.documents import formats as reader
from activities.documents.formats import (
    PDF_PAGES,
    Line,
    Part,
    decode,
    html_lines,
    parts_of,
    read_document,
)
from activities.documents.roots import UnreadableError
from tests.activities.documents.documents import Documents, drawing, pdf, shown


def on() -> None:
    """Nobody wants the reading to stop."""


RUSSIAN = "Этот документ рассказывает про теплоснабжение школы, про цену газа, про новые насосы."
JAPANESE = "暖房の費用は年間三千ユーロです。学校は新しいポンプを使います。"
GERMAN = "Größe für Übung, déjà vu: 5 °C\n" * 9_000
ENCODED = {
    "UTF-8": ("naïve – 文".encode(), "naïve – 文"),
    "its mark": (codecs.BOM_UTF8 + b"plain", "plain"),
    "UTF-16 LE": (codecs.BOM_UTF16_LE + "naïve".encode("utf-16-le"), "naïve"),
    "UTF-16 BE": (codecs.BOM_UTF16_BE + "naïve".encode("utf-16-be"), "naïve"),
    "UTF-32": (codecs.BOM_UTF32_LE + "naïve".encode("utf-32-le"), "naïve"),
    "Latin-1": ("für Übung".encode("latin-1"), "für Übung"),
    "quotes of Windows": (b"\x93said\x94", "“said”"),
    "one bad byte": ("naïve für Übung\n".encode() + b"\xff", "naïve für Übung\n\ufffd"),
    "a lone surrogate": (codecs.BOM_UTF16_LE + b"a\0\x00\xd8b\0", "a\ufffdb"),
    "empty": (b"", ""),
    "Cyrillic of Windows": (RUSSIAN.encode("cp1251"), RUSSIAN),
    "KOI8-R": (RUSSIAN.encode("koi8-r"), RUSSIAN),
    "Shift JIS": (JAPANESE.encode("shift_jis"), JAPANESE),
    "Latin-1 of a page": (GERMAN.encode("latin-1"), GERMAN),
}


@pytest.mark.parametrize(("content", "text"), ENCODED.values(), ids=ENCODED)
def test_encodings(content: bytes, text: str) -> None:
    """A byte order mark decides, then UTF-8 where most of it holds, then a guess of the script."""
    assert decode(content) == text


PAGE = """<!DOCTYPE html>
<html><head><title>Ovens &amp; heat</title>
<style>p { color: red }</style>
<script>if (a < b) { document.write("<p>never</p>") }</script>
</head><body>
<!-- a comment
     of two lines -->
<p>First <b>bold</b>ness
goes on.</p><p>Second&nbsp;one&#10;still.</p>
<ul><li>one<li>two</ul>
<pre>
  kept   as is
</pre>
"""


def test_html_has_the_lines_of_its_source() -> None:
    """Text of HTML stands at the source's lines, without markup, scripts, styles and comments."""
    lines = [(line.number, line.text) for line in html_lines(PAGE, on) if line.text]

    assert lines == [
        (2, "Ovens & heat"),
        (8, "First boldness"),
        (9, "goes on."),
        (9, "Second one still."),
        (10, "one"),
        (10, "two"),
        (12, "  kept   as is"),
    ]


def encrypted() -> bytes:
    writer = PdfWriter(BytesIO(pdf(["secret"])))
    writer.encrypt("a password", algorithm="RC4-128")
    written = BytesIO()
    writer.write(written)
    return written.getvalue()


MILLION = 1_000_000
BROKEN, MANY_LINES = "a broken PDF", "over 1,000,000 lines"


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("a.pdf", encrypted, "encrypted"),
        ("a.pdf", lambda: b"%PDF-1.4\nnothing more", BROKEN),
        ("a.pdf", lambda: pdf(["a"])[:200], BROKEN),
        ("a.pdf", lambda: b"", BROKEN),
        ("a.html", lambda: b"<p>text<a title='" + b"x" * 2_100_000, ".*a tag that never ends.*"),
        ("a.txt", lambda: b"x\n" * 5 * MILLION, MANY_LINES),
        ("a.csv", lambda: b"\r" * 20 * MILLION, MANY_LINES),
    ],
)
def test_a_file_that_can_not_be_read(name: str, make: Callable[[], bytes], reason: str) -> None:
    """It is left out for its reason, soon: of more than a million lines before it is split."""
    content = make()
    started = process_time()

    with pytest.raises(UnreadableError, match=rf"^{reason}$"):
        read_document(name, content, on)

    assert process_time() - started < 2


def read(name: str, text: str) -> list[Part]:
    return read_document(name, text.encode(), lambda: None)


def test_headings_stay_with_what_follows() -> None:
    """No passage ends with a heading, even where the passage before it has room."""
    section = "{}\n\n" + "word " * 250 + "\n\n"
    text = "".join(section.format(head) for head in ("# One", "Two\n===", "### Three"))

    parts = read("a.md", text)

    assert [part.text.split("\n")[0] for part in parts] == ["# One", "Two", "### Three"]


def test_long_lines_are_cut_at_separators() -> None:
    """A line of any length makes passages of at most 1,500 characters, cut between its parts."""
    text = ",".join(f'"key{number}":{number}' for number in range(2_000))

    parts = read("a.json", text)

    assert "".join(part.text for part in parts) == text
    assert all(len(part.text) <= 1_500 for part in parts)
    assert all(part.text.endswith(",") for part in parts[:-1])
    assert {(part.first_line, part.last_line) for part in parts} == {(1, 1)}
    assert [len(part.text) for part in read("a.txt", "x" * 4_000)] == [1_500, 1_500, 1_000]
    assert read("a.txt", "\n \n\t\n") == []


def test_rows_of_a_table_have_its_header() -> None:
    """Each passage of a CSV file begins with the header, and its lines are those of the rows."""
    rows = ["name,price", *(f"part {number},{number}" for number in range(1, 301))]

    parts = read("a.csv", "\n".join(rows))

    assert len(parts) > 2
    for part in parts[1:]:
        said = part.text.split("\n")
        assert said == ["name,price", *rows[part.first_line - 1 : part.last_line]]


FORM = b"/X Do\n"
# Made by the test that reads it: each process that tests imports all files.
LARGE: dict[str, Callable[[], bytes]] = {
    "large": lambda: drawing([shown("apple"), shown("pear") * 54_000, shown("quince")]),
    "bomb": lambda: drawing([shown("apple"), b"\n" * 200 * MILLION, shown("quince")]),
    "steps": lambda: drawing(
        [shown("apple"), shown("pear") + b"1 2 l\n" * 166_000, shown("quince")]
    ),
    "forms": lambda: drawing(
        [shown("apple"), FORM * 1_000, shown("quince")], shown("pear") * 20_000
    ),
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_page_that_draws_too_much_is_left_out(documents: Documents, name: str) -> None:
    """A page of megabytes, packed or drawn by forms, is left out by its number, and no other."""
    documents.write("atlas.pdf", LARGE[name]())
    documents.write("pear.txt", "pear")
    started = process_time()

    found = await documents.find("apple pear quince")
    seconds = process_time() - started
    again = await documents.find("apple pear quince")

    assert {(each.source, each.page) for each in found.passages} == {
        ("atlas.pdf", 1),
        ("atlas.pdf", 3),
        ("pear.txt", None),
    }
    assert found.left_out == ("pages that draw too much (1): page 2 of atlas.pdf",)
    assert again.left_out == found.left_out
    assert seconds < 20


@pytest.mark.parametrize(
    ("made", "read", "noted"),
    [
        (lambda: drawing([shown("apple")], fonts=101), 0, ("pages that draw too much", "page 1")),
        (
            lambda: drawing([shown("apple")] * (PDF_PAGES + 1)),
            PDF_PAGES,
            ("pages beyond 2,000", "pages from 2001"),
        ),
    ],
    ids=["fonts", "pages"],
)
def test_what_is_left_out_of_a_pdf_is_noted(
    made: Callable[[], bytes], read: int, noted: tuple[str, str]
) -> None:
    """A page of over a hundred fonts, each read for it anew, and pages beyond 2,000 are named."""
    notes: list[tuple[str, str]] = []

    parts = read_document("a.pdf", made(), on, lambda why, part: notes.append((why, part)))

    assert (len(parts), notes) == (read, [noted])


def test_time_that_is_over_names_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the seconds for a file do not suffice, the pages that are left are named."""
    monkeypatch.setattr(reader, "PDF_SECONDS", 0.5)
    notes: list[tuple[str, str]] = []
    content = drawing([shown("apple"), *[shown("pear") * 20_000] * 20])

    parts = read_document("a.pdf", content, on, lambda why, part: notes.append((why, part)))

    [(why, part)] = notes
    assert parts[0].text == "apple"
    assert why == "pages that 0.5 s do not suffice for"
    assert part.startswith("pages from ")


def test_more_lines_of_any_reader_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader makes a line of, as HTML's does of <br>, is bounded like the lines of text."""
    monkeypatch.setattr(reader, "FILE_LINES", 20_000)
    lines = (Line(1, "x") for _ in range(30_000))

    with pytest.raises(UnreadableError, match=rf"^{MANY_LINES}$"):
        list(parts_of(lines, on))
