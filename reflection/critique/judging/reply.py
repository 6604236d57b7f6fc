"""What a judge's reply says: scores by criterion, feedback, and how sure it is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from reflection.critique.criteria import Criterion, overall
from reflection.critique.evaluation import Confidence, Feedback, JudgeReply
from reflection.critique.rule import passes
from reflection.plain import well_formed
from reflection.quoting import object_schema
from reflection.replies import (
    Members,
    Real,
    Reply,
    first_text,
    plain,
    plain_text,
    read_reply,
    reply_schema,
)
from reflection.size import cut_encoded

SCORES = "criteria_scores"
MOST_POINTS = 10
ADVICE_BYTES = 600
PLACE_BYTES = 200

ADVICE = ("advice", "suggestion", "change", "problem", "issue", "comment", "feedback", "text")
SAYS_WHERE = ("place", "quote", "location", "where")
NUMBER = re.compile(r"\d*\.?\d*(?<=\d)\.?")
SURE: dict[str, Confidence] = {"low": "low", "medium": "medium", "high": "high"}
# A grammar can't hold a number between bounds, but it can hold it to these.
STEPS = [round(step * 0.05, 2) for step in range(21)]


def _own_score(value: object) -> object:
    """Take the score where it stands in an object of its own, beside a reason for it."""
    scores = value.values_of("score") if isinstance(value, Members) else []
    return scores[0] if len(scores) == 1 else value


def _sure(value: object) -> Confidence | None:
    return SURE.get((plain(value) or "").strip().lower())


Score = Annotated[
    Real,
    Field(ge=0, le=1, allow_inf_nan=False),
    BeforeValidator(_own_score),
    WithJsonSchema({"type": "number", "enum": STEPS}),
]


class Judged(Reply):
    """What a judge says: feedback first, which makes the scores better.

    Feedback comes in many forms, and is read by hand; `scores` has a field for each criterion.
    """

    feedback: Any = None
    scores: Reply = Field(alias=SCORES)
    confidence: Annotated[
        Confidence | None,
        BeforeValidator(_sure),
        WithJsonSchema({"type": "string", "enum": list(SURE)}),
    ] = None


@lru_cache(maxsize=64)
def judged_by(criteria: tuple[Criterion, ...]) -> type[Judged]:
    """Make the model of a reply that scores these criteria."""
    text = {"type": "string", "minLength": 8, "maxLength": 200}
    name = {"type": "string", "enum": [criterion.name for criterion in criteria]}
    point = object_schema({"criterion": name, "place": text, "advice": text})
    points = WithJsonSchema({"type": "array", "items": point, "minItems": 1, "maxItems": 3})
    # By number, since a criterion may have the name of a method.
    fields: dict[str, Any] = {
        f"score_{number}": (Score, Field(alias=criterion.name))
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

    Every criterion needs one score, a number of JSON from 0 to 1. What the model says of an
    overall score counts for nothing. Scores that a draft gives itself are not believed, and
    scores under the threshold without any feedback are a defect.
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
        error = "the scores in it are those that stand in the draft"
    elif not feedback and not passes(score, threshold):
        error = f"there is no feedback, though the scores are under {threshold:g}"
    if error is not None:
        return JudgeReply(error=error, unreadable=True)
    return JudgeReply(score=score, scores=scores, feedback=feedback, confidence=said.confidence)


def _stands_in(draft: str, scores: Mapping[str, float]) -> bool:
    """Tell whether a draft that speaks of scores gives itself just these, in whatever form."""
    if SCORES not in draft.casefold():
        return False
    return all(score in _numbers_of(name, draft) for name, score in scores.items())


def _numbers_of(name: str, draft: str) -> set[float]:
    quotes = r"[\s\\\"'`]{0,8}"
    given = re.finditer(rf"{name}{quotes}:{quotes}([0-9.]{{1,20}})", draft, re.IGNORECASE)
    return {float(found[1]) for found in given if NUMBER.fullmatch(found[1])}


def _feedback(value: object, names: Sequence[str]) -> Iterator[Feedback]:
    """Read a text, a list of texts, points with their parts, or texts by criterion."""
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
    if any(map(str.isalnum, text)):
        where = cut_encoded(well_formed(place or "").strip(), PLACE_BYTES) or None
        yield Feedback(advice=cut_encoded(text, ADVICE_BYTES), criterion=criterion, place=where)
