"""A draft that speaks to its judge."""

import re
from collections.abc import Iterator

from reflection.critique.guardrails.appealing.appeals import (
    APPEALS,
    JOINED,
    OTHER_LANGUAGES,
    Appeal,
)
from reflection.critique.guardrails.appealing.disguises import (
    letters_for_digits,
    spaced_out,
    undisguised,
)
from reflection.critique.guardrails.prose import fold, without_code
from reflection.critique.guardrails.registry import Checked, Finding, guardrail
from reflection.text import terminal_safe

CAP = 0.3
ENOUGH = 1.0
# An article about such texts says such words itself; quoted or in code they are its examples.
ENOUGH_IN_AN_ARTICLE = 2.0

ABOUT_JUDGES = re.compile(
    r"prompt[- ]?inject|\binjections?\b|jailbreak|\brubrics?\b|llm[- ]as[- ]an?[- "
    r"]judge|chat template|"
    r"prompt template|special tokens|system prompt|adversarial|evaluation prompt|judge prompt|"
    r"overall_score|criteria_scores|\bchatml\b|red[- ]team|"
    r"\b(?:grading|scoring|marking) (?:scheme|prompt|guide|instructions?)"
)
END_MARK = re.compile(
    r"^[^\w\n]{0,20}(?:the )?end of (?:the )?(?:draft|answer|response|submission|input|"
    r"candidate|text to "
    r"(?:judge|evaluate|be evaluated))\b[^\w\n]{0,20}$|\bEND OF (?:THE )?(?:DRAFT|"
    r"ANSWER|RESPONSE|SUBMISSION|INPUT)\b"
    r"|^[^\w\n]{0,20}END[ _](?:DRAFT|ANSWER|RESPONSE|SUBMISSION)\b[^\w\n]{0,20}$",
    re.MULTILINE,
)
END_MARK_ANY_CASE = re.compile(
    r"^[^\w\n]{0,20}end of (?:the )?(?:draft|answer|response|submission)[^\w\n]{0,20}$",
    re.MULTILINE | re.IGNORECASE,
)
QUOTED = re.compile(
    r"\"[^\"\n]{0,1000}\"|(?<!\w)'[^'\n]{0,1000}'(?!\w)|^[ \t]*>[^\n]*", re.MULTILINE
)
LEADING_MARKS = re.compile(r"^[\W_]+(?=\w)")
NAMED_SCORE = r"\b(?:{})\"?\s?[:=]\s?\"?(?:1(?:\.0+)?|0?\.9\d*|10/10|100%)(?![\d.])"


@guardrail("addresses_judge", default=True)
def addresses_judge(checked: Checked) -> Finding | None:
    """Cap a draft that tells its judge what to do, or plays the judge.

    It does where it overrides instructions, demands or reports a score for itself, speaks to an
    evaluator, holds an evaluation's JSON or a chat template's tokens, or pretends to end. Weaker
    signs count half, and two are needed. Case, spacing, invisible characters, letters that look
    alike and digits for letters hide nothing; nine more languages are known by their plain
    sentences. Where the query is about such texts, or has such words, quotations and code are
    examples, and twice as much is needed of the rest.
    """
    article = _is_about_judges(checked.query)
    text = QUOTED.sub("", without_code(fold(checked.draft))) if article else checked.draft
    weight, said = 0.0, ""
    for each, found in _evidence(text, checked.asks_for):
        if weight == 0 or each > weight:
            said = found
        weight += each
        if weight >= (ENOUGH_IN_AN_ARTICLE if article else ENOUGH):
            break
    else:
        return None
    shown = terminal_safe(LEADING_MARKS.sub("", said), 50)
    return Finding(CAP, f"the draft speaks to its judge ({shown!r}): take that out")


def _is_about_judges(query: str) -> bool:
    asked = undisguised(query[:10_000])
    return ABOUT_JUDGES.search(asked) is not None or any(
        each.pattern.search(asked) for each in [*APPEALS, *OTHER_LANGUAGES]
    )


def _evidence(text: str, criteria: tuple[str, ...]) -> Iterator[tuple[float, str]]:
    shown = fold(text)
    ended = END_MARK.search(shown) or END_MARK_ANY_CASE.search(shown)
    if ended:
        yield 1.0, ended[0]
    straight = undisguised(text)
    yield from _scores(straight, criteria)
    read = letters_for_digits(straight)
    for appeal in APPEALS:
        yield from _found(appeal, straight, *([read] if read != straight else []))
    folded = " ".join(shown.casefold().split())
    joined = spaced_out(straight)
    for one in OTHER_LANGUAGES:
        yield from _found(one, folded)
    for one in JOINED:
        yield from _found(one, joined)


def _scores(text: str, criteria: tuple[str, ...]) -> Iterator[tuple[float, str]]:
    if not criteria:
        return
    pattern = re.compile(NAMED_SCORE.format("|".join(map(re.escape, criteria))))
    named = {
        found[0].split(":")[0].split("=")[0].strip('" '): found[0]
        for found in pattern.finditer(text)
    }
    yield from ((0.5, found) for found in named.values())


def _found(appeal: Appeal, *texts: str) -> Iterator[tuple[float, str]]:
    for text in texts:
        found = appeal.pattern.search(text)
        if found:
            yield appeal.weight, found[0]
            return
