"""How likely an answer is right: a map from its votes to a probability, fitted on labelled runs.

The share of votes is agreement, and no probability: models agree on wrong answers too. `replay`
fits a map for one model, prompt, kind of answers and rule; nothing here needs more than the map.
"""

from bisect import bisect
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from reflection.request import Record
from reflection.sampling.prompts import PLACE_OF_QUESTION, build_prompt
from reflection.sampling.request import AnswerKind
from reflection.sampling.rules import Share, Stopping

MOST_KNOTS = 50


class Knot(NamedTuple):
    """A point of a map: a smoothed share of the votes, and how likely the answer is right there."""

    share: Share
    probability: Share


def _rising(knots: tuple[Knot, ...]) -> tuple[Knot, ...]:
    for (share, low), (following, high) in pairwise(knots):
        if share >= following or low > high:
            raise ValueError("shares must rise from knot to knot, and probabilities must not fall")
    return knots


Knots = Annotated[
    tuple[Knot, ...], Field(min_length=1, max_length=MOST_KNOTS), AfterValidator(_rising)
]


class Target(Record):
    """The least probability from which on answers reach a target; None where none does.

    `coverage` is the share of questions with such an answer, `accuracy` how many of them are right.
    """

    at_least: Share | None = None
    coverage: Share = 0.0
    accuracy: Share | None = None


class Measured(Record):
    """How good a map is on those of its `questions` that were held out when it was fitted.

    `ece` is the expected calibration error, `ece_floor` that of a perfect map on as many questions,
    `brier` Brier's score, and `_raw` those of the share of votes. `targets` are shares as text.
    """

    method: Literal["isotonic", "platt"]
    questions: int
    held_out: int
    ece: float
    ece_raw: float
    ece_floor: float
    brier: float
    brier_raw: float
    targets: dict[str, Target]


class Source(Record):
    """What answered, and how it was asked; None where nobody says."""

    model: str | None = None
    temperature: float | None = None
    prompt_hash: str | None = None


class CalibrationMap(Source):
    """A map, what the runs have in common that it was fitted on, and how good it is."""

    name: str
    answers: AnswerKind
    stopping: Stopping
    knots: Knots
    measured: Measured


def probability(knots: Sequence[Knot], first: int, votes: int) -> float:
    """Return how likely the leader is right with `first` of the `votes`, at least 1, to 6 digits.

    It is linear between knots, and constant beyond them.
    """
    share = smoothed(first, votes)
    place = bisect(knots, share, key=lambda knot: knot.share)
    below, above = knots[max(place - 1, 0)], knots[min(place, len(knots) - 1)]
    width = above.share - below.share
    part = (share - below.share) / width if width else 0.0
    return round(below.probability + part * (above.probability - below.probability), 6)


def smoothed(first: int, votes: int) -> float:
    """Compute the leader's share with half a vote more for it, and half a vote against it.

    So 3 of 3 votes are less than 10 of 10, as they must be where a rule stops early.
    Source: Krichevsky and Trofimov (1981), The performance of universal encoding.
    """
    return (first + 0.5) / (votes + 1)


def hash_prompt(template: str | None, answers: AnswerKind) -> str:
    """Hash all that is asked but the question: the template, and how to reply."""
    return sha256(build_prompt(PLACE_OF_QUESTION, template, answers).encode()).hexdigest()
