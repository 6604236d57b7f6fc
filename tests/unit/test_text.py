import pytest

from mull.text import lasting_words, terminal_safe, width

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


def test_wide_characters_take_two_columns() -> None:
    """Columns are counted, not characters, and what joins a character takes none."""
    assert (width("日本"), width("e\u0301"), width("abc")) == (4, 1, 3)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7_500, "2 h 5 min"), (90_000, "1 d 1 h")],
)
def test_a_length_of_time_is_its_two_largest_units(seconds: int, words: str) -> None:
    """A wait is told so that a person can take it in."""
    assert lasting_words(seconds) == words
