"""How long a text is, and how long its query wants it."""

import re

from reflection.critique.prose import Reading
from reflection.spelling import words

COUNTED = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "ten": 10,
    "zwei": 2,
    "drei": 3,
    "fünf": 5,
    "deux": 2,
    "trois": 3,
    "cinq": 5,
    "dos": 2,
    "tres": 3,
}
LENGTH = re.compile(
    r"(?:^|[,(;:.–-] ?|\b(?:at least|exactly|about|around|approximately|roughly|minimum|of|in|with|"
    r"write|an?|mindestens|etwa|genau|au moins|environ|al menos|unos|de|en) (?:(?:about|an?) )?)"
    rf"(?P<number>\d{{1,3}}(?:,\d{{3}})+|\d{{1,6}}|{'|'.join(COUNTED)})(?: ?(?:to|–|-) ?\d+)?[ -]"
    r"(?:(?P<words>words?|wörtern?|mots|palabras)|(?:different |"
    r"full )?(?P<paragraphs>paragraphs?|absätzen?|paragraphes|párrafos))\b(?! (?:max|limit"
    r"|at most|or"
    r" (?:less|fewer)|tops))"
)
LIMITED = re.compile(r"(?:max\w*|limit|more|less|fewer|at most|up to|within)(?: than)?(?: of)? $")
LONG = {"words": (81, 20_000, 5), "paragraphs": (2, 100, 250)}
"""Of each unit the least and the most that is taken for a wish, and its bytes."""


def asked_length(query: str) -> tuple[int, str]:
    """Return the length that a query asks for, and its unit; 0 where it asks for none."""
    for found in LENGTH.finditer(query):
        number = COUNTED.get(found["number"]) or int(found["number"].replace(",", ""))
        unit = found.lastgroup or ""
        limited = LIMITED.search(query[max(0, found.start("number") - 30) : found.start("number")])
        if LONG[unit][0] <= number <= LONG[unit][1] and not limited:
            return number, unit
    return 0, "words"


def length_of(reading: Reading) -> dict[str, int]:
    """Measure a text in words, in different paragraphs, and in bytes as the source does.

    An ordinary text hardly ever has the same four words twice: where a fifth of them are, what is
    said again does not count.
    """
    parts = [*reading.prose, *reading.quoted, *(block.text for block in reading.code)]
    listed = words("\n".join(parts))
    fresh = len(set(zip(listed, listed[1:], listed[2:], listed[3:], strict=False))) + 3
    share = min(1.0, fresh / len(listed)) if fresh < 0.8 * len(listed) else 1.0
    shown = re.sub(r"[\s*_#|=-]+|(.)\1{3,}", " ", " ".join(parts)).strip()
    size = int(share * len(shown.encode()))
    paragraphs = len({part for part in parts if len(part) > 40})
    return {"words": int(share * len(listed)), "paragraphs": paragraphs, "bytes": size}
