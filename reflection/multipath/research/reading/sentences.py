"""The sentences of a report, and whether a quoted one stands in it."""

import re
from collections.abc import Iterator

from reflection.multipath.research.reading.markup import without_markup
from reflection.multipath.research.reading.visible import fence_after, visible
from reflection.spelling import fold, words

LEADING = re.compile(r"[ \t>]*(?:(?:#{1,6}|[-*+]|\d{1,4}[.)])[ \t]+|\[\^[^\]\s]{1,60}\]:)?")
SENTENCE = re.compile(r"\S.*?(?:[.!?](?:\s?\[[^\[\]\n]{1,40}\]){0,9}(?=\s|$)|$)")
CITATION = re.compile(r"\[(?:[\s\d,;–—-]{1,80}|\^[^\]\s]{1,60})\]")
LEFT_OUT = re.compile(r"\.{3,}|…|\[\s?(?:\.{2,}|…)\s?\]")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text line by line, each with its citations; none of code."""
    mark = ""
    for line in text.split("\n"):
        mark, code = fence_after(line, mark)
        if not code:
            yield from (each[0] for each in SENTENCE.finditer(LEADING.sub("", line, count=1)))


def plain_words(report: str) -> str:
    """Return the words of a report as it is shown, for `stands_in` to look into."""
    return _words(visible(report))


def stands_in(quoted: str, text: str) -> bool:
    """Tell whether words that are quoted stand in `plain_words` of a report, in their order.

    Case, white space, punctuation, markup and citations make no difference; an ellipsis in the
    quotation leaves something out.
    """
    place = 0
    pieces = [each for each in map(_words, LEFT_OUT.split(quoted)) if each.strip()]
    for piece in pieces:
        place = text.find(piece, place)
        if place < 0:
            return False
        place += len(piece) - 1
    return bool(pieces)


def _words(text: str) -> str:
    shown = without_markup(CITATION.sub(" ", fold(text)))
    return f" {' '.join(words(shown))} "
