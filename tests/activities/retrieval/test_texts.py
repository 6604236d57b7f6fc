import codecs
from collections.abc import Callable
from io import BytesIO
from time import perf_counter

import pytest
from pypdf import PdfWriter

from activities.retrieval.reading.documents import read_document
from activities.retrieval.reading.html import html_lines
from activities.retrieval.reading.lines import UnreadableError
from activities.retrieval.reading.texts import decode, text_lines
from tests.activities.retrieval.documents import pdf


def on() -> None:
    """Nobody wants the reading to stop."""


ENCODED = [
    ("UTF-8", "naïve – 文".encode(), "naïve – 文"),
    ("its mark", codecs.BOM_UTF8 + b"plain", "plain"),
    ("UTF-16 LE", codecs.BOM_UTF16_LE + "naïve".encode("utf-16-le"), "naïve"),
    ("UTF-16 BE", codecs.BOM_UTF16_BE + "naïve".encode("utf-16-be"), "naïve"),
    ("UTF-32", codecs.BOM_UTF32_LE + "naïve".encode("utf-32-le"), "naïve"),
    ("Latin-1", "für Übung".encode("latin-1"), "für Übung"),
    ("quotes of Windows", b"\x93said\x94", "“said”"),
    ("one bad byte", "naïve für Übung\n".encode() + b"\xff", "naïve für Übung\n\ufffd"),
    ("a lone surrogate", codecs.BOM_UTF16_LE + b"a\0\x00\xd8b\0", "a\ufffdb"),
    ("empty", b"", ""),
]


@pytest.mark.parametrize(("content", "text"), [row[1:] for row in ENCODED])
def test_encodings(content: bytes, text: str) -> None:
    """A byte order mark decides, then UTF-8 where most of it holds, then Windows' Latin-1."""
    decoded = decode(content)

    assert decoded == text


@pytest.mark.parametrize(
    "content", [b"\x7fELF\x02\x01\0\0", b"\x89PNG\r\n\x1a\n\0", bytes(range(1, 32)) * 9, b"a\0b"]
)
def test_what_is_no_text(content: bytes) -> None:
    """A NUL, or many control characters, at the beginning of a file make it no text."""
    with pytest.raises(UnreadableError, match=r"^no text$"):
        decode(content)


def test_lines_end_as_in_an_editor() -> None:
    """CR, LF and both together end a line; a form feed and U+2028 do not."""
    lines = list(text_lines("a\r\nb\rc\x0cd\u2028e\n", headings=False))

    assert [(line.number, line.text) for line in lines] == [
        (1, "a"),
        (2, "b"),
        (3, "c\x0cd\u2028e"),
        (4, ""),
    ]


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


@pytest.mark.parametrize(
    "unit", ["<a ", "<!--", "<a b='", "<![CDATA[", "<", "&", "<p>x", "<a b='>"]
)
def test_hostile_html_costs_linear_time(unit: str) -> None:
    """Markup that never closes is read in seconds, for which the parser alone takes minutes."""
    source = unit * (100_000 // len(unit))
    started = perf_counter()

    lines = list(html_lines(source, on))

    assert perf_counter() - started < 20
    assert sum(len(line.text) for line in lines) <= len(source)


def test_a_tag_without_an_end_is_given_up() -> None:
    """HTML with a tag of more than two million characters can't be read."""
    source = "<p>text<a title='" + "x" * 2_100_000

    with pytest.raises(UnreadableError, match="a tag that never ends"):
        list(html_lines(source, on))


def test_pdf_is_read_by_page() -> None:
    """A passage of a PDF lies on one page, which it names from 1."""
    content = pdf(["The oven is hot", "The ice is cold"])

    parts = read_document("a.pdf", content, on)

    assert [(part.text, part.page) for part in parts] == [
        ("The oven is hot", 1),
        ("The ice is cold", 2),
    ]


def encrypted() -> bytes:
    writer = PdfWriter(BytesIO(pdf(["secret"])))
    writer.encrypt("a password", algorithm="RC4-128")
    written = BytesIO()
    writer.write(written)
    return written.getvalue()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (encrypted, "encrypted"),
        (lambda: b"%PDF-1.4\nnothing more", "a broken PDF"),
        (lambda: pdf(["a"])[:200], "a broken PDF"),
        (lambda: b"", "a broken PDF"),
    ],
)
def test_pdf_that_can_not_be_read(make: Callable[[], bytes], reason: str) -> None:
    """A PDF that is encrypted or broken is left out for that reason."""
    with pytest.raises(UnreadableError, match=rf"^{reason}$"):
        read_document("a.pdf", make(), on)
