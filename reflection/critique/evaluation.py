"""The evaluation of a draft: what a judge replies, what a panel makes of it, what caps leave."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Annotated, Literal

from pydantic import Field

from reflection.critique.criteria import TOLERANCE, Criterion, overall, passes, rounded
from reflection.objects import Members, Number, every_object, first_text, plain, without_objects
from reflection.run import Record, Spending, cut_encoded
from reflection.text import well_formed
from reflection.thinking import spoken

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
    guardrail caps it. Where no judge could be read there is no score, and `error` says why.
    """
    read = [each for each in judgements if each.score is not None]
    if not read:
        return Evaluation(judgements=tuple(judgements), error=_error(judgements))
    judged = _middle([each.score for each in read if each.score is not None], panel)
    fired = tuple(each for each in caps if judged > each.above + TOLERANCE and each.cap < judged)
    advice = [
        Feedback(advice=each.reason, judge=f"guardrail {each.guardrail}")
        for each in caps
        if each in fired or each.above <= each.cap
    ]
    return Evaluation(
        score=min([judged, *(each.cap for each in fired)]),
        judged=judged,
        criteria=_by_criterion(read, panel),
        confidence="low" if fired else _lowest(read),
        spread=_spread(read),
        feedback=(*advice, *feedback),
        guardrails=fired,
        judgements=tuple(judgements),
    )


def _middle(scores: Sequence[float], panel: Panel) -> float:
    return rounded(median(scores) if panel == "median" else fmean(scores))


def _by_criterion(read: Sequence[Judgement], panel: Panel) -> dict[str, float]:
    tables = [each.scores for each in read if each.scores is not None]
    return {name: _middle([each[name] for each in tables], panel) for name in tables[0]}


def _lowest(read: Sequence[Judgement]) -> Confidence | None:
    given = {each.confidence for each in read}
    return next((each for each in LOWEST_FIRST if each in given), None)


def _spread(read: Sequence[Judgement]) -> float | None:
    scores = [each.score for each in read if each.score is not None]
    return rounded(max(scores) - min(scores)) if len(scores) > 1 else None


def _error(judgements: Sequence[Judgement]) -> str:
    said = [f"{each.judge or 'the judge'}: {each.error}" for each in judgements if each.error]
    return "; ".join(said) or "there was no judge"


SCORES = "criteria_scores"
MOST_POINTS = 10
ADVICE_BYTES = 600
PLACE_BYTES = 200

ADVICE = ("advice", "suggestion", "change", "problem", "issue", "comment", "feedback", "text")
SAYS_WHERE = ("place", "quote", "location", "where")
NUMBER = re.compile(r"\d*\.?\d*(?<=\d)\.?")
NAMED = re.compile(rf"{SCORES}\W{{0,4}}:", re.IGNORECASE)
SURE: dict[str, Confidence] = {"low": "low", "medium": "medium", "high": "high"}


class _UnreadableError(Exception):
    """The reply can't be used; the message says why."""


def parse_judgement(
    text: str, criteria: Sequence[Criterion], threshold: float, draft: str = ""
) -> JudgeReply:
    """Read a judge's reply, or say in one line why it can't be used; never raises.

    Every criterion needs one score from 0 to 1, a number of JSON: NaN, infinity, truth values,
    strings, and two different scores are none. What the model says of an overall score counts for
    nothing. Scores that may be the draft's are unreadable: two objects with different scores, an
    object that stands in the draft, and one beside another that is malformed. What a model thinks
    aloud is no part of its reply. Scores under the threshold without any feedback are a defect.
    """
    try:
        return _read(spoken(text), criteria, threshold, draft)
    except _UnreadableError as error:
        return JudgeReply(error=str(error), unreadable=True)


def _read(text: str, criteria: Sequence[Criterion], threshold: float, draft: str) -> JudgeReply:
    said = _object(text)
    names = [each.name for each in criteria]
    scores = _scores(said, names)
    if _stands_in(draft, scores):
        raise _UnreadableError("the scores in it are those that stand in the draft")
    score = overall(scores, tuple(criteria))
    feedback = tuple(_feedback(said, names))[:MOST_POINTS]
    if not feedback and not passes(score, threshold):
        raise _UnreadableError(f"there is no feedback, though the scores are under {threshold:g}")
    return JudgeReply(score=score, scores=scores, feedback=feedback, confidence=_confidence(said))


def _object(text: str) -> Members:
    found = every_object(text, SCORES)
    if found is None:
        raise _UnreadableError("the JSON in it breaks off or nests too deep")
    if not found:
        raise _UnreadableError(f'there is no JSON object with "{SCORES}" in it')
    if any(each.values_of(SCORES) != found[-1].values_of(SCORES) for each in found):
        raise _UnreadableError("there are several JSON objects in it with different scores")
    if NAMED.search(without_objects(text)):
        raise _UnreadableError(f'there is a malformed JSON object with "{SCORES}" in it')
    return found[-1]


def _stands_in(draft: str, scores: Mapping[str, float]) -> bool:
    """Tell whether a draft that speaks of scores gives itself just these, in whatever form."""
    if SCORES not in draft.casefold():
        return False
    return all(score in _numbers_of(name, draft) for name, score in scores.items())


def _numbers_of(name: str, draft: str) -> set[float]:
    quotes = r"[\s\\\"'`]{0,8}"
    given = re.finditer(rf"{name}{quotes}:{quotes}([0-9.]{{1,20}})", draft, re.IGNORECASE)
    return {float(each[1]) for each in given if NUMBER.fullmatch(each[1])}


def _scores(said: Members, names: Sequence[str]) -> dict[str, float]:
    given = said.values_of(SCORES)
    if any(each != given[0] for each in given) or not isinstance(given[0], Members):
        raise _UnreadableError(f'"{SCORES}" is no object of one score for each criterion')
    return {name: _score(name, given[0]) for name in names}


def _score(name: str, scores: Members) -> float:
    values = scores.values_of(name)
    if not values:
        raise _UnreadableError(f"there is no score for {name}")
    if any(each != values[0] for each in values):
        raise _UnreadableError(f"there are two different scores for {name}")
    value = values[0]
    if isinstance(value, Members) and len(value.values_of("score")) == 1:
        value = value.values_of("score")[0]
    if not isinstance(value, Number):
        raise _UnreadableError(f"the score for {name} is no number")
    number = float(value)
    if not 0 <= number <= 1:
        raise _UnreadableError(f"the score for {name} is not from 0 to 1")
    return number


def _feedback(said: Members, names: Sequence[str]) -> Iterator[Feedback]:
    for value in said.values_of("feedback"):
        points = value if isinstance(value, list) and not isinstance(value, Members) else [value]
        for point in points:
            yield from _points(point, names)


def _points(point: object, names: Sequence[str]) -> Iterator[Feedback]:
    if not isinstance(point, Members):
        yield from _point(plain(point), None, None)
        return
    advice = first_text(point, ADVICE)
    if advice:
        criterion = (first_text(point, ("criterion",)) or "").strip().lower()
        yield from _point(
            advice, criterion if criterion in names else None, first_text(point, SAYS_WHERE)
        )
        return
    for name in names:
        for value in point.values_of(name):
            yield from _point(plain(value), name, None)


def _point(advice: str | None, criterion: str | None, place: str | None) -> Iterator[Feedback]:
    text = well_formed(advice or "").strip()
    if any(each.isalnum() for each in text):
        where = cut_encoded(well_formed(place).strip(), PLACE_BYTES) if place else None
        yield Feedback(
            advice=cut_encoded(text, ADVICE_BYTES), criterion=criterion, place=where or None
        )


def _confidence(said: Members) -> Confidence | None:
    words = [plain(each) or "" for each in said.values_of("confidence")]
    return SURE.get(words[0].strip().lower()) if len(words) == 1 else None
