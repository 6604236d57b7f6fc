"""A draft that is too short for its query."""

import re
from collections.abc import Iterable

from reflection.critique.criteria import SIMPLE, complexity
from reflection.critique.guardrails.measuring.wishes import (
    asks_for_code,
    asks_for_little,
    demanded_paragraphs,
    demanded_words,
)
from reflection.critique.guardrails.prose import UNSPACED, fold, without_markup, words
from reflection.critique.guardrails.registry import Checked, Finding, guardrail

FEWEST_CHARACTERS = 500
FEWEST_OF_CODE = 6
HIGH_SCORE = 0.8
CAP = 0.5
FAR_BELOW = 2 / 3
LONGEST_WORD = 40
PHRASE = 4
# Every text repeats a phrase here and there; above this share it is filler.
REPEATED_SHARE = 0.2

TOKEN = re.compile(rf"\s?(?:[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s])")
DRAWN_OUT = re.compile(r"(.)\1{3,}")


@guardrail("too_short", default=True)
def too_short(checked: Checked) -> Finding | None:
    """Cap a draft under 500 characters that scored over 0.8, or far below the length asked for.

    Only text counts: white space is one space, and characters that nobody sees, markup and
    phrases repeated to fill do not count. A query that asks for something short, or a simple
    closed question, has no such minimum; code and data have one of 6 characters. A draft of
    less than two thirds of the words or paragraphs that the query demands is capped at any score.
    Source: the reflection chapter, 11.9, method 2, and its exercise 3, rule 1.
    """
    size = text_size(checked.draft)
    if size == 0:
        return Finding(CAP, "the draft has no text: write the answer")
    demanded = _below_demand(checked)
    if demanded is not None:
        return demanded
    fewest = _fewest_characters(checked)
    if size >= fewest:
        return None
    reason = f"the draft has {size} characters of text, repeats and markup not counted, and a"
    reason += f" score over {HIGH_SCORE} needs {fewest}: say what is missing in it"
    return Finding(CAP, reason, above=HIGH_SCORE)


def text_size(draft: str) -> int:
    """Count the characters of a draft that are text; one of Chinese or Japanese counts three.

    The source counts bytes.
    """
    shown = DRAWN_OUT.sub(r"\1\1\1", without_markup(draft))
    tokens = TOKEN.findall(shown)
    return sum(map(_size, _fresh(tokens)))


def _size(token: str) -> int:
    return 3 if "\u3040" <= token[-1] <= "\ud7af" else min(len(token), LONGEST_WORD)


def _fresh(tokens: list[str]) -> Iterable[str]:
    """Leave out what ends a phrase of four words that stood before, where that is much of it."""
    seen: set[tuple[str, ...]] = set()
    fresh, recent = list[str](), ("",) * PHRASE
    for token in tokens:
        recent = (*recent[1:], token.strip().casefold())
        if recent not in seen:
            fresh.append(token)
        seen.add(recent)
    return tokens if len(tokens) - len(fresh) <= REPEATED_SHARE * len(tokens) else fresh


def _fewest_characters(checked: Checked) -> int:
    if checked.format in {"json", "python"} or asks_for_code(checked.query):
        return FEWEST_OF_CODE
    if asks_for_little(checked.query) or complexity(checked.query) <= SIMPLE:
        return 0
    return FEWEST_CHARACTERS


def _below_demand(checked: Checked) -> Finding | None:
    asked = demanded_words(checked.query)
    if asked is not None:
        found = len(list(_fresh(words(without_markup(checked.draft)))))
        return _short_of(found, asked, "words, repeats not counted")
    asked = demanded_paragraphs(checked.query)
    if asked is not None:
        return _short_of(_paragraphs(checked.draft), asked, "different paragraphs")
    return None


def _short_of(found: int, asked: int, what: str) -> Finding | None:
    if found >= FAR_BELOW * asked:
        return None
    return Finding(
        CAP, f"the query asks for {asked:,}, and the draft has {found:,} {what}: extend it"
    )


def _paragraphs(draft: str) -> int:
    blocks = re.split(r"\n\s*\n", fold(draft).replace("\r\n", "\n"))
    texts = {" ".join(words(each)) for each in blocks if not each.lstrip().startswith("#")}
    return len(texts - {""})
