"""What judges say of a draft, and what guardrails leave of it."""

from typing import Annotated, Literal

from pydantic import Field

from reflection.request import Record
from reflection.usage import Spending

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
