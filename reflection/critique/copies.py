"""Whether a revision revises anything."""

import re
from collections import Counter

from rapidfuzz.distance import Indel

from reflection.critique.prose import Reading, read
from reflection.critique.references import addresses
from reflection.spelling import fold, words

NEGATIONS = frozenset(
    words(
        "not no never none without cannot nor isn't aren't wasn't weren't don't doesn't didn't"
        " can't"
        " won't couldn't shouldn't wouldn't hasn't haven't nicht kein keine nie ne pas jamais nunca"
    )
)
FILLER = frozenset(
    words(
        "very really quite rather truly indeed actually simply just also please sure certainly of"
        " absolutely course here is the a an this that revised improved updated new final version"
        " draft answer response below now overall clearly basically in conclusion hope helps i it"
        " so"
    )
)
SIGNED = re.compile(r"(?<![\w.])[-−+]?\d+(?:[.,:/]\d+)*%?")
NAME = re.compile(r"(?<=[a-z,;\d)] )[^\W\d_a-z][^\W\d_]+")


def is_copy(previous: str, draft: str) -> bool:
    """Tell whether a draft says what the one before it said, in nearly the same words."""
    old, new = read(previous), read(draft)
    gone, come = _exchanged(SIGNED, previous, draft)
    if _kept(old) != _kept(new) or (gone and come):
        return False
    if _sentences(old.text) == _sentences(new.text):
        return True
    before, after = words(old.text), words(new.text)
    out, put = Counter(before) - Counter(after), Counter(after) - Counter(before)
    gone, come = (
        {name for name in names if name.casefold() in changed}
        for names, changed in zip(_exchanged(NAME, previous, draft), (out, put), strict=True)
    )
    negated = any(out[word] != put[word] for word in NEGATIONS)
    if (gone and come) or negated or (out.total() >= 5 and not put):
        return False
    before, after = ([word for word in one if word not in FILLER] for one in (before, after))
    return Indel.normalized_similarity(before, after, score_cutoff=0.97) >= 0.97


def _kept(reading: Reading) -> tuple[list[str], set[str]]:
    """Return the code without its comments, and the citations: a change of them is no copy."""
    code = "\n".join(block.text for block in reading.code)
    bare = re.sub(r"(?:^|(?<=\s))(?:#|//|--)[^\n]*", "", code)
    numbers = re.findall(r"\[\^?(\d[\d ,;-]{0,40})\]", reading.text)
    return re.findall(r"\w+|[^\w\s]", bare), {*numbers, *addresses(reading.text, reading.links)}


def _exchanged(kind: re.Pattern[str], previous: str, draft: str) -> tuple[set[str], set[str]]:
    """Return what of this kind was taken out, and what was put in."""
    old, new = Counter(kind.findall(fold(previous))), Counter(kind.findall(fold(draft)))
    return set(old - new), set(new - old)


def _sentences(text: str) -> set[str]:
    """Collect the sentences, each as its words without filler."""
    said = re.split(r"(?<![.!?。])[.!?。]++(?:\s+|$)|\n+|(?<=。)", text)
    return {" ".join(word for word in words(one) if word not in FILLER) for one in said} - {""}
