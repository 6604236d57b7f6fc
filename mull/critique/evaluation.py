"""The evaluation of a draft: the judges' scores, feedback and confidence, capped by guardrails."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import fmean, median
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from mull.critique.criteria import Criterion, overall, passes, rounded
from mull.drafts import Receipt
from mull.replies import (
    Members,
    Real,
    Reply,
    first_text,
    plain,
    plain_text,
    read_reply,
    reply_schema,
)
from mull.request import Record
from mull.run import above
from mull.text import Shown, cut_encoded, object_schema, well_formed

Panel = Literal["mean", "median"]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Confidence = Literal["low", "medium", "high"]


class Feedback(Record):
    """One thing to change: the criterion, the place in the draft, and the advice.

    `criterion` and `place` are None if not given. `judge` names the model, person or guardrail
    that gave the feedback.
    """

    advice: str
    criterion: str | None = None
    place: str | None = None
    judge: str | None = None


class Cap(Record):
    """A guardrail's finding: a score above `above` is capped at `cap`, for `reason`."""

    guardrail: Annotated[str, Shown("guardrail")]
    cap: Annotated[Score, Shown("caps at|number", "{:g}".format)]
    above: Annotated[Score, Shown("scores above|number|extra", "{:g}".format)]
    reason: Annotated[str, Shown("because")]


class JudgeReply(Receipt):
    """One reply of one judge; `scores` is None if the call failed or the reply is unreadable.

    `score` is the average of `scores`, 0 to 1 by criterion, by the criteria's weights. `error`
    says what went wrong. `unreadable` is True if asking again, with the error shown, may help.
    """

    score: float | None = None
    scores: dict[str, float] | None = None
    feedback: tuple[Feedback, ...] = ()
    confidence: Confidence | None = None
    error: str | None = None
    unreadable: bool = False


class Judgement(Record):
    """One judge's evaluation of a draft; `score` is None if it failed, and `error` says why.

    `judge` is the model that was requested, None for the worker's own, and `model` the one that
    replied. `score` is the average of `scores` by the criteria's weights. `replies` is the number
    of replies.
    """

    judge: str | None
    score: Annotated[float | None, Shown("score|share")] = None
    scores: dict[str, float] | None = None
    confidence: Annotated[Confidence | None, Shown("confidence|extra")] = None
    error: Annotated[str | None, Shown("left out because")] = None
    model: str | None = None
    max_output_tokens: int | None = None
    replies: Annotated[int, Shown("replies|number|extra")] = 0


class Evaluation(Record):
    """A draft's evaluation; `score` is None if it failed, and `error` says why.

    `judged` is the panel's score, and `score` is that score after the guardrails, both 0 to 1.
    `criteria` are the panel's scores by criterion. `spread` is the largest difference between two
    judges' scores. `confidence` is the lowest that a judge gave, and `low` where a guardrail
    capped the score. `author` is the person who scored it.
    """

    score: float | None = None
    judged: float | None = None
    criteria: dict[str, float] = Field(default_factory=dict)
    confidence: Confidence | None = None
    spread: float | None = None
    feedback: tuple[Feedback, ...] = ()
    guardrails: tuple[Cap, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    author: str | None = None
    error: str | None = None


LOWEST_FIRST: tuple[Confidence, ...] = ("low", "medium", "high")


def evaluate(
    judgements: Sequence[Judgement],
    feedback: Sequence[Feedback],
    caps: Sequence[Cap],
    panel: Panel,
) -> Evaluation:
    """Combine the judgements and the guardrails' findings into one evaluation.

    The score is the mean or median of the readable judgements; one is enough. Each guardrail then
    caps it, or lowers the confidence if its cap is 1. Without a readable judgement there is no
    score, and `error` says why.
    """
    scores = [judgement.score for judgement in judgements if judgement.score is not None]
    if not scores:
        said = [f"{one.judge or 'the judge'}: {one.error}" for one in judgements if one.error]
        return Evaluation(
            judgements=tuple(judgements), error="; ".join(said) or "there was no judge"
        )
    middle = median if panel == "median" else fmean
    judged = rounded(middle(scores))
    tables = [judgement.scores for judgement in judgements if judgement.scores is not None]
    sure = {judgement.confidence for judgement in judgements if judgement.score is not None}
    reached = [cap for cap in caps if above(judged, cap.above)]
    fired = tuple(cap for cap in reached if cap.cap < judged)
    doubted = fired or any(cap.cap == 1 for cap in reached)
    advice = [
        Feedback(advice=cap.reason, judge=f"guardrail {cap.guardrail}")
        for cap in caps
        if cap in fired or cap.above <= cap.cap < 1
    ]
    return Evaluation(
        score=min([judged, *(cap.cap for cap in fired)]),
        judged=judged,
        criteria={name: rounded(middle([table[name] for table in tables])) for name in tables[0]},
        confidence="low" if doubted else next(filter(sure.__contains__, LOWEST_FIRST), None),
        spread=rounded(max(scores) - min(scores)) if len(scores) > 1 else None,
        feedback=(*advice, *feedback),
        guardrails=fired,
        judgements=tuple(judgements),
    )


SCORES = "criteria_scores"
MOST_POINTS = 10
ADVICE_BYTES = 600
PLACE_BYTES = 200

ADVICE = ("advice", "suggestion", "change", "problem", "issue", "comment", "feedback", "text")
SAYS_WHERE = ("place", "quote", "location", "where")
# Advice of such words alone ("Needs improvement.", "could be better") says nothing to change.
EMPTY_WORDS = frozenset(
    {
        "a", "all", "an", "and", "answer", "at", "be", "better", "can", "could", "do", "draft",
        "enough", "fine", "fix", "further", "good", "great", "has", "improve", "improved",
        "improvement", "improvements", "in", "is", "it", "little", "look", "looks", "made",
        "make", "more", "much", "n", "na", "need", "needed", "needs", "nice", "no", "none", "not",
        "nothing", "of", "ok", "okay", "overall", "please", "poor", "quality", "really",
        "required", "requires", "response", "revise", "revised", "revision", "rewrite", "should",
        "so", "some", "text", "the", "there", "this", "to", "very", "weak", "well", "work",
        "would",
    }
)  # fmt: skip
# What small models give as a place: the line around the data, whole or not, and the form's dots.
PROMPT_ALONE = re.compile(
    r"""\A[\s='"`]*(?:data[\s:_-]*(?:[0-9a-f]{16}|[0-9a-f]{0,15}(?:\.\.\.|…))|\.\.\.|…)[\s='"`]*\Z""",
    re.IGNORECASE,
)
WORD = re.compile(r"[^\W_]+")
NUMBER = re.compile(r"\d*\.?\d*(?<=\d)\.?")
# A grammar can't restrict a number to a range, but it can restrict it to these values.
STEPS = [round(step * 0.05, 2) for step in range(21)]


def _own_score(value: object) -> object:
    """Unwrap a score that is given as an object, next to its reason."""
    scores = value.values_of("score") if isinstance(value, Members) else []
    return scores[0] if len(scores) == 1 else value


def _sure(value: object) -> str | None:
    said = (plain(value) or "").strip().lower()
    return said if said in LOWEST_FIRST else None


JudgedScore = Annotated[
    Real,
    Field(ge=0, le=1, allow_inf_nan=False),
    BeforeValidator(_own_score),
    WithJsonSchema({"type": "number", "enum": STEPS}),
]


class Judged(Reply):
    """A judge's reply: feedback first, which improves the scores.

    Feedback comes in many forms and is parsed by `_feedback`; `scores` has a field per criterion.
    """

    feedback: Any = None
    scores: Reply = Field(alias=SCORES)
    confidence: Annotated[
        Confidence | None,
        BeforeValidator(_sure),
        WithJsonSchema({"type": "string", "enum": list(LOWEST_FIRST)}),
    ] = None


@lru_cache(maxsize=64)
def judged_by(criteria: tuple[Criterion, ...]) -> type[Judged]:
    """Make the model of a reply that scores these criteria."""
    text = {"type": "string", "minLength": 8, "maxLength": 200}
    name = {"type": "string", "enum": [criterion.name for criterion in criteria]}
    point = object_schema({"criterion": name, "place": text, "advice": text})
    points = WithJsonSchema({"type": "array", "items": point, "minItems": 1, "maxItems": 3})
    # Numbered, because a criterion may have the name of a method.
    fields: dict[str, Any] = {
        f"score_{number}": (JudgedScore, Field(alias=criterion.name))
        for number, criterion in enumerate(criteria)
    }
    return create_model(
        "JudgedBy",
        __base__=Judged,
        feedback=(Annotated[Any, points], None),
        scores=(create_model("Scores", __base__=Reply, **fields), Field(alias=SCORES)),
    )


def judge_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    """Return the JSON schema of a judge's reply."""
    return reply_schema(judged_by(tuple(criteria)))


def parse_judgement(
    text: str, criteria: Sequence[Criterion], threshold: float, draft: str = ""
) -> JudgeReply:
    """Read a judge's reply, or say in one line why it can't be used; never raises.

    Every criterion needs one score, a JSON number from 0 to 1. An overall score in the reply is
    ignored. Scores copied from the draft are rejected, and so are scores below the threshold
    without feedback.
    """
    said = read_reply(text, SCORES, judged_by(tuple(criteria)))
    if isinstance(said, str):
        return JudgeReply(error=said, unreadable=True)
    names = [criterion.name for criterion in criteria]
    scores: dict[str, float] = said.scores.model_dump(by_alias=True)
    score = overall(scores, tuple(criteria))
    feedback = tuple(_feedback(said.feedback, names))[:MOST_POINTS]
    error = None
    if _stands_in(draft, scores):
        error = "its scores are copied from the draft"
    elif not feedback and not passes(score, threshold):
        what = "it has no feedback that says what to change"
        error = f"{what}, although its score is below {threshold:g}"
    if error is not None:
        return JudgeReply(error=error, unreadable=True)
    return JudgeReply(score=score, scores=scores, feedback=feedback, confidence=said.confidence)


def _stands_in(draft: str, scores: Mapping[str, float]) -> bool:
    """Tell whether the draft itself contains exactly these scores, in any form."""
    if SCORES not in draft.casefold():
        return False
    quotes = r"[\s\\\"'`]{0,8}"
    for name, score in scores.items():
        given = re.findall(rf"{name}{quotes}:{quotes}([0-9.]{{1,20}})", draft, re.IGNORECASE)
        if score not in {float(written) for written in given if NUMBER.fullmatch(written)}:
            return False
    return True


def _feedback(value: object, names: Sequence[str]) -> Iterator[Feedback]:
    """Read feedback given as a text, a list of texts, objects, or texts by criterion."""
    points = value if isinstance(value, list) and not isinstance(value, Members) else [value]
    for point in points:
        if not isinstance(point, Members):
            yield from _point(point)
        elif advice := first_text(point, ADVICE):
            name = (first_text(point, ("criterion",)) or "").strip().lower()
            place = first_text(point, SAYS_WHERE)
            yield from _point(advice, name if name in names else None, place)
        else:
            for name in names:
                for text in point.values_of(name):
                    yield from _point(text, name)


def _point(
    advice: object, criterion: str | None = None, place: str | None = None
) -> Iterator[Feedback]:
    text = plain_text(advice) or ""
    if not EMPTY_WORDS.issuperset(WORD.findall(text[:ADVICE_BYTES].lower())):
        shown = PROMPT_ALONE.sub("", well_formed(place or "")).strip()
        where = cut_encoded(shown, PLACE_BYTES) or None
        yield Feedback(advice=cut_encoded(text, ADVICE_BYTES), criterion=criterion, place=where)
