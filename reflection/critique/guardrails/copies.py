"""A revision that revises nothing."""

import itertools
import re
from collections import Counter
from typing import NamedTuple, TypeVar

from reflection.critique.guardrails.citing import citations
from reflection.critique.guardrails.prose import fenced_blocks, fold, without_fences, words
from reflection.critique.guardrails.registry import Checked, Finding, guardrail

UNKNOWN_SCORE_CAP = 0.5
SAME_WORDS = 0.97
SAME_PAIRS = 0.8
MOST_APPENDED = 12
FEWEST_REMOVED = 5

NEGATIONS = frozenset(
    words(
        "not no never none without cannot nor isn't aren't wasn't weren't don't doesn't"
        " didn't can't won't couldn't shouldn't wouldn't hasn't haven't nicht kein keine nie"
        " ne pas jamais nunca"
    )
)
FILLER = frozenset(
    words(
        "very really quite rather truly indeed actually simply just also please sure certainly of"
        " absolutely course here is the a an this that revised improved updated new final version"
        " draft answer response below now overall clearly basically essentially in conclusion"
        " summary hope helps i it and so"
    )
)
CODE_TOKEN = re.compile(r"\w+|[^\w\s]")
CODE_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//|--)[^\n]*", re.MULTILINE)
SIGNED = re.compile(r"(?<![\w.])[-−+]?\d+(?:[.,:/]\d+)*%?")
NAME = re.compile(r"(?<=[a-z,;\d)] )[^\W\d_a-z][^\W\d_]+")
BRACKETED = re.compile(r"\[\^?(\d[\d ,;-]{0,40})\]")
MAY_CITE = re.compile(r"\d|\[\^|://|www\.", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?。\uff01\uff1f]+(?:\s+|$)|\n+|(?<=[。\uff01\uff1f])")

Part = TypeVar("Part")


class _Words(NamedTuple):
    listed: list[str]
    counted: Counter[str]
    pairs: Counter[tuple[str, str]]


@guardrail("near_copy", default=True)
def near_copy(checked: Checked) -> Finding | None:
    """Cap a draft at the score of the one before it where it is nearly the same.

    Case, punctuation, spacing, the order of sentences, filler, a repeated part and up to 12 words
    put before or behind make no new draft. Beyond that a copy shares at least 97 % of its words
    and 80 % of its pairs of words. A small correction is allowed: a number, a name or the code
    replaced, a negation or a citation put in or taken out, five words or more left out.
    """
    if checked.previous is None or not _is_copy(checked.previous, checked.draft):
        return None
    cap = UNKNOWN_SCORE_CAP if checked.previous_score is None else checked.previous_score
    return Finding(
        cap, "the draft is nearly the same as the one before it: make the changes asked for"
    )


def _is_copy(previous: str, draft: str) -> bool:
    if _code(previous) != _code(draft) or _references(previous) != _references(draft):
        return False
    before, after = _words(without_fences(previous)), _words(without_fences(draft))
    if before.listed == after.listed:
        return not _replaces(SIGNED, previous, draft)
    if _adds_only_an_end(before.listed, after.listed) or _repeats_itself(previous, draft):
        return True
    return not _corrects(previous, draft, before, after) and _is_near(before, after)


def _is_near(before: _Words, after: _Words) -> bool:
    out, put = before.counted - after.counted, after.counted - before.counted
    if _similarity(before.pairs, after.pairs) < SAME_PAIRS:
        return False
    if set(out + put) <= FILLER:
        return True
    left_out = out.total() >= FEWEST_REMOVED and not put
    return not left_out and _similarity(before.counted, after.counted) >= SAME_WORDS


def _words(text: str) -> _Words:
    listed = words(text)
    return _Words(listed, Counter(listed), Counter(itertools.pairwise(listed)))


def _code(text: str) -> list[str]:
    blocks = "\n".join(each.text for each in fenced_blocks(text))
    return CODE_TOKEN.findall(CODE_COMMENT.sub("", blocks))


def _references(text: str) -> set[str]:
    if not MAY_CITE.search(text):
        return set()
    return {*BRACKETED.findall(text), *citations.links(text), *citations.dois(text)}


def _adds_only_an_end(before: list[str], after: list[str]) -> bool:
    added = len(after) - len(before)
    if not 0 < added <= min(MOST_APPENDED, len(before) // 2):
        return False
    return any(after[at : at + len(before)] == before for at in range(added + 1))


def _corrects(previous: str, draft: str, before: _Words, after: _Words) -> bool:
    if _replaces(SIGNED, previous, draft) or _replaces(NAME, previous, draft, after, before):
        return True
    return any(before.counted[each] != after.counted[each] for each in NEGATIONS) and (
        set(before.listed) != set(after.listed) or _similarity(before.counted, after.counted) < 1
    )


def _replaces(
    kind: re.Pattern[str],
    previous: str,
    draft: str,
    after: _Words | None = None,
    before: _Words | None = None,
) -> bool:
    """Say whether something of this kind was taken out and something put in its place."""
    old, new = Counter(kind.findall(fold(previous))), Counter(kind.findall(fold(draft)))
    out, put = old - new, new - old
    if after is not None and before is not None:
        # A name that is only written in another case is still there.
        out = _gone(out, after)
        put = _gone(put, before)
    return bool(out and put)


def _gone(names: Counter[str], other: _Words) -> Counter[str]:
    return Counter({each: n for each, n in names.items() if each.casefold() not in other.counted})


def _sentences(text: str) -> list[str]:
    folded = (" ".join(words(each)) for each in SENTENCE_END.split(text) if each)
    return sorted(each for each in folded if each)


def _repeats_itself(previous: str, draft: str) -> bool:
    old, new = _sentences(previous), _sentences(draft)
    return len(new) > len(old) and set(new) == set(old)


def _similarity(one: Counter[Part], other: Counter[Part]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0
