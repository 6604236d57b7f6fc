"""Files that would take minutes to read, though they are small."""

from time import perf_counter

import pytest

from activities.retrieval.bounds import PDF_PAGES
from activities.retrieval.reading import pdf as reader
from activities.retrieval.reading.documents import read_document
from activities.retrieval.reading.lines import Line, UnreadableError
from activities.retrieval.reading.passages import split
from tests.activities.retrieval.documents import Documents, drawing, shown

FORM = b"/X Do\n"
MILLION = 1_000_000


def on() -> None:
    """Nobody wants the reading to stop."""


LARGE = {
    "large": drawing([shown("apple"), shown("pear") * 54_000, shown("quince")]),
    "bomb": drawing([shown("apple"), b"\n" * 200 * MILLION, shown("quince")]),
    "steps": drawing([shown("apple"), shown("pear") + b"1 2 l\n" * 166_000, shown("quince")]),
    "forms": drawing([shown("apple"), FORM * 1_000, shown("quince")], shown("pear") * 20_000),
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_page_that_draws_too_much_is_left_out(documents: Documents, name: str) -> None:
    """A page of megabytes, packed or drawn by forms, is left out by its number, and no other."""
    documents.write("atlas.pdf", LARGE[name])
    documents.write("pear.txt", "pear")
    started = perf_counter()

    found = await documents.find("apple pear quince")
    seconds = perf_counter() - started
    again = await documents.find("apple pear quince")

    assert {(each.source, each.page) for each in found.passages} == {
        ("atlas.pdf", 1),
        ("atlas.pdf", 3),
        ("pear.txt", None),
    }
    assert found.left_out == ("pages that draw too much (1): page 2 of atlas.pdf",)
    assert again.left_out == found.left_out
    assert seconds < 20


def test_a_page_below_the_bounds_is_read() -> None:
    """A page of 0.9 MB that is a figure with a caption, and a form within a page, are read."""
    figure = shown("apple") + b"100.25 200.75 l\n" * 56_000

    parts = read_document("a.pdf", drawing([figure, FORM], shown("pear")), on)

    assert [(part.text, part.page) for part in parts] == [("apple", 1), ("pear", 2)]


def test_a_page_of_many_fonts_is_left_out() -> None:
    """A page that names more than a hundred fonts is left out: each is read for it anew."""
    notes: list[tuple[str, str]] = []
    content = drawing([shown("apple")], fonts=101)

    parts = read_document("a.pdf", content, on, lambda why, part: notes.append((why, part)))

    assert (parts, notes) == ([], [("pages that draw too much", "page 1")])


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


def test_pages_beyond_the_bound_are_named() -> None:
    """Of a PDF with more than 2,000 pages the first are read."""
    notes: list[tuple[str, str]] = []
    content = drawing([shown("apple")] * (PDF_PAGES + 1))

    parts = read_document("a.pdf", content, on, lambda why, part: notes.append((why, part)))

    assert len(parts) == PDF_PAGES
    assert notes == [("pages beyond 2,000", "pages from 2001")]


@pytest.mark.parametrize("name", ["a.md", "a.csv"])
def test_a_million_short_lines_are_read(name: str) -> None:
    """As many lines as are read of a file take seconds, however short they are."""
    started = perf_counter()

    parts = read_document(name, b"x\n" * (MILLION - 1), on)

    assert perf_counter() - started < 15
    assert parts[-1].last_line == MILLION - 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", b"x\n" * 5 * MILLION), ("a.csv", b"\r" * 20 * MILLION)],
)
def test_more_lines_are_left_out(name: str, content: bytes) -> None:
    """A file of more than a million lines is left out for that reason, before it is split."""
    started = perf_counter()

    with pytest.raises(UnreadableError, match=r"^over 1,000,000 lines$"):
        read_document(name, content, on)

    assert perf_counter() - started < 2


def test_more_lines_of_any_reader_are_left_out() -> None:
    """What a reader makes a line of, as HTML's does of <br>, is bounded like the lines of text."""
    lines = (Line(1, "x") for _ in range(MILLION + 5_000))

    with pytest.raises(UnreadableError, match=r"^over 1,000,000 lines$"):
        list(split(lines))
