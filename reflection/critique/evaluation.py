"""What judges say of a draft (scores, feedback, how sure they are), and what guardrails leave."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import fmean, median
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from reflection.critique.criteria import TOLERANCE, Criterion, overall, passes, rounded
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
from reflection.run import Record, Spending, cut_encoded
from reflection.text import well_formed

Panel = Literal["mean", "median"]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Confidence = Literal["low", "medium", "high"]


class Feedback(Record):
    """One thing to change: by which criterion, at which place of the draft, and what.

    `criterion` and `place` are None where the judge, or the person, did not say. `judge` names
    the model, the person or the guardrail that says so.
    """

    advice: str
    criterion: str | None = None
    place: str | None = None
    judge: str | None = None


class Cap(Record):
    """What a guardrail says: a score above `above` is no more than `cap`, and why."""

    guardrail: str
    cap: Score
    above: Score
    reason: str


class JudgeReply(Record):
    """One reply of one judge; `scores` is None where it could not be had or read, as `error` says.

    `score` is the average of `scores`, 0 to 1 by criterion, by the criteria's weights. `unreadable`
    is True where asking again, with the error shown, may help. `attempts` are the calls for it.
    """

    score: float | None = None
    scores: dict[str, float] | None = None
    feedback: tuple[Feedback, ...] = ()
    confidence: Confidence | None = None
    error: str | None = None
    unreadable: bool = False
    model: str | None = None
    left_out: tuple[str, ...] = ()
    attempts: int = 1
    spending: Spending | None = None


class Judgement(Record):
    """What one judge of the panel made of a draft; `score` is None where it failed.

    `error` says why. `judge` is the model that was asked for, None for the worker's own, and
    `model` the one that replied. `score` is the average of `scores` by the criteria's weights.
    `replies` counts them.
    """

    judge: str | None
    score: float | None = None
    scores: dict[str, float] | None = None
    confidence: Confidence | None = None
    error: str | None = None
    model: str | None = None
    replies: int = 0


class Evaluation(Record):
    """A draft's evaluation: `score` is None where it failed, as `error` says.

    `judged` is the panel's score and `score` what the guardrails leave of it, both 0 to 1.
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
    """Put the evaluation of a draft together from its judges and the guardrails' findings.

    The score is the mean or the median of the judges that could be read; one is enough. Then each
    guardrail caps it, or lowers the confidence where its cap is 1. Where no judge could be read
    there is no score, and `error` says why.
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
    reached = [cap for cap in caps if judged > cap.above + TOLERANCE]
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
NUMBER = re.compile(r"\d*\.?\d*(?<=\d)\.?")
# A grammar can't hold a number between bounds, but it can hold it to these.
STEPS = [round(step * 0.05, 2) for step in range(21)]


def _own_score(value: object) -> object:
    """Take the score where it stands in an object of its own, beside a reason for it."""
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
    """What a judge says: feedback first, which makes the scores better.

    Feedback comes in many forms, and is read by hand; `scores` has a field for each criterion.
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
    # By number, since a criterion may have the name of a method.
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
    quotes = r"[\s\\\"'`]{0,8}"
    for name, score in scores.items():
        given = re.findall(rf"{name}{quotes}:{quotes}([0-9.]{{1,20}})", draft, re.IGNORECASE)
        if score not in {float(written) for written in given if NUMBER.fullmatch(written)}:
            return False
    return True


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
