from datetime import UTC, datetime

import pytest

from reflection.text import lasting_words, neutral, terminal_safe, until_words, usd, width

SHOWN = [
    ("129", 24, "129"),
    ("two\nlines\tand  gaps", 24, "two lines and gaps"),
    ("\x1b[31mred\x1b[0m", 24, "\u241b[31mred\u241b[0m"),
    ("\x1b]0;title\x07", 24, "\u241b]0;title\u2407"),
    ("over\rwritten", 24, "over\u240dwritten"),
    ("c1\x9b31m", 24, "c1\ufffd31m"),
    ("turned\u202e around\u2066", 24, "turned around"),
    ("half \ud83d", 24, "half \ufffd"),
    ("[red]not markup[/red]", 24, "[red]not markup[/red]"),
    ("abcdefgh", 5, "abcd…"),
    ("abcde", 5, "abcde"),
    ("日本語日本語", 6, "日本…"),
    ("", 24, ""),
]


@pytest.mark.parametrize(("text", "most", "shown"), SHOWN)
def test_one_line_of_at_most_so_many_columns(text: str, most: int, shown: str) -> None:
    """Plain text is one line that fits, and nothing in it acts on a terminal."""
    line = terminal_safe(text, most)

    assert line == shown


@pytest.mark.parametrize(
    "text", ["e" + "\u0301" * 100, "e" + "\u0301" * 10_000, "x" * 1_000_000, " " * 5_000 + "x"]
)
def test_no_text_takes_more_than_twice_its_columns(text: str) -> None:
    """However long a text is, and however many characters take no column, it is cut."""
    line = terminal_safe(text, 10)

    assert len(line) <= 20
    assert width(line) <= 10


def test_line_ends_stay_where_lines_are_wanted() -> None:
    """Neutral text keeps its line ends and tabs."""
    text = neutral("one\r\ntwo\n\tthree\x00")

    assert text == "one\ntwo\n\tthree\u2400"


def test_wide_characters_take_two_columns() -> None:
    """Columns are counted, not characters, and what joins a character takes none."""
    assert (width("日本"), width("e\u0301"), width("abc")) == (4, 1, 3)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (0.0012, "$0.0012"),
        (0.0000123, "$0.000012"),
        (0.5, "$0.50"),
        (1234.5, "$1,234.50"),
    ],
)
def test_dollars_have_the_digits_that_count(amount: float | None, words: str) -> None:
    """A cost has two digits that count at least, and one that nobody knows is called unknown."""
    assert usd(amount) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7_500, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_a_length_of_time_is_its_two_largest_units(seconds: int, words: str) -> None:
    """A wait is told so that a person can take it in."""
    assert lasting_words(seconds) == words


def test_a_wait_without_an_end_has_no_words() -> None:
    """Only a wait that ends by itself has an until, in UTC."""
    assert until_words(None) == ""
    assert until_words(datetime(2026, 3, 1, 12, tzinfo=UTC)) == "until 2026-03-01 12:00:00 UTC"
