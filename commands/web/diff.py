"""Drafts side by side: which words a later one takes away, and which it adds."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from mull.sheet import Sheet, Text

WORD = re.compile(r"\s+|\w+|[^\w\s]")
# Longer texts are compared line by line, and very long ones not at all: the time for matching grows
# faster than they do.
MOST_WORDS, MOST_LINES, MOST_CHARACTERS = 6_000, 6_000, 1_000_000
# So many unchanged words are shown on each side of a change.
AROUND = 40
NEWEST = 10

Kind = Literal["same", "less", "more", "gap"]


class Piece(NamedTuple):
    """Words that stand in both texts, in the earlier one (`less`), or in the later one (`more`).

    A `gap` stands for unchanged words that are left out, and says how many.
    """

    kind: Kind
    words: str


class Compared(NamedTuple):
    """Two drafts, and the pieces of both in their order."""

    before: Text
    after: Text
    pieces: tuple[Piece, ...]


def changes(sheet: Sheet) -> list[Compared]:
    """Compare each draft with the one before it; of many, the newest ones."""
    texts = [text for text in (sheet.answer, *sheet.texts) if text and text.draft is not None]
    drafts = sorted(texts, key=lambda text: text.draft or 0)
    return [
        Compared(before, after, compare(before.content, after.content))
        for before, after in list(pairwise(drafts))[-NEWEST:]
    ]


# A page is drawn again and again while its drafts stay as they are.
@lru_cache(maxsize=64)
def compare(before: str, after: str) -> tuple[Piece, ...]:
    """Compare two texts word by word; long ones line by line, and very long ones as wholes."""
    units = [[before], [after]]
    if len(before) + len(after) <= MOST_CHARACTERS:
        lines = [text.splitlines(keepends=True) for text in (before, after)]
        units = lines if sum(map(len, lines)) <= MOST_LINES else units
        words = [WORD.findall(text) for text in (before, after)]
        units = words if sum(map(len, words)) <= MOST_WORDS else units
    return tuple(_pieces(*units))


def _pieces(before: Sequence[str], after: Sequence[str]) -> Iterator[Piece]:
    # SequenceMatcher begins no match with a unit that stands everywhere: that bounds the time.
    for name, i1, i2, j1, j2 in SequenceMatcher(None, before, after).get_opcodes():
        if name == "equal":
            yield from _same(before[i1:i2], first=i1 == 0, last=i2 == len(before))
            continue
        if i1 < i2:
            yield Piece("less", "".join(before[i1:i2]))
        if j1 < j2:
            yield Piece("more", "".join(after[j1:j2]))


def _same(units: Sequence[str], *, first: bool, last: bool) -> Iterator[Piece]:
    """Show what is unchanged beside a change, and say how much of it is left out."""
    head, tail = 0 if first else 2 * AROUND, 0 if last else 2 * AROUND
    left_out = "".join(units[head : len(units) - tail])
    words = len(left_out.split())
    parts = [Piece("same", "".join(units))]
    if words > AROUND:
        kept = units[:head], units[len(units) - tail :]
        before, after = (Piece("same", "".join(part)) for part in kept)
        parts = [before, Piece("gap", f"{words:,} words unchanged"), after]
    yield from (part for part in parts if part.words)
