import pytest

from reflection.text import neutral, padded, terminal_safe, width

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
    """Padding counts columns, not characters."""
    cell = padded("日本", 6)

    assert cell == "日本  "
