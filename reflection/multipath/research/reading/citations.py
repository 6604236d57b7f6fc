"""Which sources a text cites as [n], and the text without them."""

import re
from collections.abc import Iterator

from reflection.multipath.research.reading.numbered import (
    BRACKETS,
    FOOTNOTE,
    IMAGE,
    NUMBERED,
    RANGE,
    numbers,
)
from reflection.multipath.research.reading.visible import fence_after, outside_code
from reflection.spelling import fold

OPENING, CLOSING = "[\uff3b\ufe47\u3010\u3014", "]\uff3d\ufe48\u3011\u3015"
BRACKETS_ALL = re.escape(OPENING + CLOSING)
BRACKETED = re.compile(
    rf"[ \t]?[{re.escape(OPENING)}][^{BRACKETS_ALL}\n]{{1,80}}[{re.escape(CLOSING)}]"
)
PARENTHESES = str.maketrans(OPENING + CLOSING, "(((((" + ")))))")
GROUP = re.compile(r"\[[^\[\]\n]{1,200}\]")
WIDEST_RANGE = 100
DEEPEST = 4


def cited(text: str) -> tuple[int, ...]:
    """List the numbers of the sources that a text cites, in order, each once.

    [1], [2, 3] and [4-6] cite; [^1] is a footnote, [text](address) and [1](https://...) are
    links. Code, images, years, and what looks like data cite nothing.
    """
    shown = FOOTNOTE.sub("", _prose(text))
    ends = set(numbers(shown))
    within = {each for group in GROUP.findall(shown) for each in _between(group, ends)}
    return tuple(sorted(each for each in ends | within if each > 0))


def uncited(text: str) -> str:
    """Return a text without citations: `cited` finds none in it, whatever stood there."""
    lines, mark = [], ""
    for line in text.split("\n"):
        mark, code = fence_after(line, mark)
        lines.append(line if code else outside_code(line, _without_numbers))
    bare = "\n".join(lines)
    return bare.translate(PARENTHESES) if cited(bare) else bare


def _without_numbers(text: str) -> str:
    # What stood around a citation may be one itself: [[1]2].
    for _ in range(DEEPEST):
        shorter = BRACKETED.sub(_left, text)
        if shorter == text:
            break
        text = shorter
    return text


def _left(group: re.Match[str]) -> str:
    bare = fold(group[0]).translate(BRACKETS).strip()
    return "" if NUMBERED.fullmatch(bare) else group[0]


def _between(group: str, ends: set[int]) -> Iterator[int]:
    for first, last in RANGE.findall(group):
        if {int(first), int(last)} <= ends and int(last) - int(first) <= WIDEST_RANGE:
            yield from range(int(first), int(last))


def _prose(text: str) -> str:
    """Leave out code and images, and bring brackets to one form."""
    lines, mark = [], ""
    for line in text.split("\n"):
        mark, code = fence_after(line, mark)
        lines.append("" if code else outside_code(line, str, code="`"))
    return IMAGE.sub("", fold("\n".join(lines)).translate(BRACKETS))
