"""Drafts side by side: what is taken away, what is added, and how long a comparison takes."""

import random

import pytest

from commands.web.diff import AROUND, changes, compare
from mull.sheet import Sheet, Text, Verdict
from tests.patience import Stopwatch

LETTERS = [chr(0x4E00 + at) for at in range(100)]


def joined(before: str, after: str) -> tuple[str, str]:
    """Put the pieces of both texts together again."""
    pieces = compare(before, after)
    return (
        "".join(piece.words for piece in pieces if piece.kind in {"same", "less"}),
        "".join(piece.words for piece in pieces if piece.kind in {"same", "more"}),
    )


def test_words_are_compared_and_not_letters() -> None:
    """The words around a change stay as they are."""
    pieces = compare("The tide rises twice a day.", "The tide falls twice a day, mostly.")

    assert [(piece.kind, piece.words) for piece in pieces] == [
        ("same", "The tide "),
        ("less", "rises"),
        ("more", "falls"),
        ("same", " twice a day"),
        ("more", ", mostly"),
        ("same", "."),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("", "a\n b"), ("a\tb", ""), ("x  y\r\nz", "x y\nz"), ("<b>a</b>", "<i>a</i>")],
)
def test_nothing_is_lost(before: str, after: str) -> None:
    """The pieces are both texts, white space and all."""
    assert joined(before, after) == (before, after)


def test_what_is_unchanged_far_from_a_change_is_counted_and_left_out() -> None:
    """A long draft with one changed word shows that word, with what is around it."""
    words = [f"w{at}" for at in range(1_000)]
    pieces = compare(" ".join(words), " ".join([*words[:500], "new", *words[501:]]))

    assert [piece.kind for piece in pieces] == ["gap", "same", "less", "more", "same", "gap"]
    gap, same = pieces[:2]
    assert gap.words == f"{500 - AROUND} words unchanged"
    assert same.words.split() == words[500 - AROUND : 500]


@pytest.mark.parametrize("kind", ["words", "letters", "lines", "megabytes", "same"])
def test_the_time_is_bounded(kind: str) -> None:
    """A page waits for each comparison, of drafts that have much in common or nothing."""
    rng = random.Random(1)
    texts = {
        "words": lambda: " ".join(f"w{rng.randrange(500)}" for _ in range(1_400)),
        "letters": lambda: " ".join(rng.choices(LETTERS, k=1_400)),
        "lines": lambda: "\n".join(f"{rng.randrange(90)} of" for _ in range(2_900)),
        "megabytes": lambda: "\n".join(rng.choices(LETTERS, k=1_250_000)),
        "same": lambda: "a " * 1_400,
    }
    before, after = texts[kind](), texts[kind]()

    watch = Stopwatch()
    pieces = compare(before, after)

    assert watch.seconds < 1
    assert any(piece.kind in {"less", "more"} for piece in pieces) is (kind != "same")


def test_each_draft_is_compared_with_the_one_before_it() -> None:
    """The best one is the sheet's answer, and stands between the others by its number."""
    answer = Text(title="draft", content="two", draft=2)
    others = (
        Text(title="draft 3", content="three", draft=3),
        Text(title="draft 1", content="one", draft=1),
        Text(title="a reply", content="none"),
    )
    sheet = Sheet(subject="?", verdict=Verdict(words="stopped"), answer=answer, texts=others)

    found = changes(sheet)

    assert [(one.before.content, one.after.content) for one in found] == [
        ("one", "two"),
        ("two", "three"),
    ]
