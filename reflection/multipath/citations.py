"""Citations such as [n] in a text, and their removal."""

import re

from reflection.multipath.markup import masked
from reflection.text import fold

OPENING, CLOSING = "[\uff3b\ufe47\u3010\u3014", "]\uff3d\ufe48\u3011\u3015"
SQUARE = str.maketrans(OPENING + CLOSING, "[[[[[" + "]]]]]")
ROUND = str.maketrans(OPENING + CLOSING, "(((((" + ")))))")
BRACKETED = re.compile(
    rf"(?:(?<=\S)[ \t])?[{re.escape(OPENING)}][^{re.escape(OPENING + CLOSING)}\n]{{1,80}}"
    rf"[{re.escape(CLOSING)}]"
)
NUMBERS = r"\d{1,4}(?:\s?[,;–—-]\s?\d{1,4}){0,30}"
# Not an index (x[1], row_of[2]), nor a link.
NUMBERED = re.compile(
    r"(?<!\b[a-zA-Z])(?<!_)\[\s?(?:(?:source|ref|reference|doc|document|s|#)\.?:?\s?)?"
    rf"({NUMBERS})(?:†[^\]\n]{{0,60}})?\s?\](?!\(https?://)",
    re.IGNORECASE,
)
RANGE = re.compile(r"(\d+)\s?[–—-]\s?(\d+)")
WIDEST_RANGE = 100
YEARS = range(1000, 2200)
IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\s]{0,500}\)")
FOOTNOTE = re.compile(r"\[\^([^\]\s]{1,40})\](?!:)")
# An interval or a list of data: [0, 1].
ZERO = re.compile(r"(?:^|\D)0(?:\D|$)")
DEEPEST = 4


def cited(text: str) -> tuple[int, ...]:
    """List the distinct source numbers that a text cites, in ascending order.

    [1], [2, 3] and [4-6] cite; [^1] is a footnote, [text](address) and [1](https://...) are
    links. Code, images, years, indexes such as x[1] and lists with a 0 do not cite.
    """
    shown = FOOTNOTE.sub("", IMAGE.sub("", fold(masked(text)).translate(SQUARE)))
    groups = [group for group in NUMBERED.findall(shown) if not ZERO.search(group)]
    numbers = {
        int(number)
        for group in groups
        for number in re.findall(r"\d+", group)
        if int(number) not in YEARS
    }
    between = {
        number
        for group in groups
        for first, last in RANGE.findall(group)
        if {int(first), int(last)} <= numbers and int(last) - int(first) <= WIDEST_RANGE
        for number in range(int(first), int(last))
    }
    return tuple(sorted(numbers | between))


def uncited(text: str) -> str:
    """Return a text without citations: `cited` finds none in the result."""
    # Removing a citation may leave another one: [[1]2].
    for _ in range(DEEPEST):
        kept, place = [], 0
        for found in BRACKETED.finditer(masked(text)):
            if NUMBERED.fullmatch(fold(found[0].strip()).translate(SQUARE)):
                kept.append(text[place : found.start()])
                place = found.end()
        if not kept:
            break
        text = "".join([*kept, text[place:]])
    return text.translate(ROUND) if cited(text) else text


def without_footnotes(text: str) -> str:
    """Return a text without references to footnotes."""
    kept, place = [], 0
    for found in FOOTNOTE.finditer(masked(text)):
        kept.append(text[place : found.start()])
        place = found.end()
    return "".join([*kept, text[place:]])
