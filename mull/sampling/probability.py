"""How likely an answer is right: a map from its votes to a probability, fitted on labelled runs.

The share of votes is agreement, not a probability: models agree on wrong answers too. `replay`
fits a map for one model, prompt, kind of answers and rule, and for no other.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from mull.request import MOST_MEMBERS, Record
from mull.sampling.rules import Share, Stopping

MOST_KNOTS = 50
# What a worker hands to a run whose model only the replies will name.
MOST_MAPS = 20


class Knot(NamedTuple):
    """A point of a map: a smoothed share of the votes, and how likely the answer is right there."""

    share: Share
    probability: Share


def _rising(knots: list[Knot]) -> list[Knot]:
    for (share, low), (following, high) in pairwise(knots):
        if share >= following or low > high:
            raise ValueError("shares must rise from knot to knot, and probabilities must not fall")
    return knots


Knots = Annotated[list[Knot], Field(min_length=1, max_length=MOST_KNOTS), AfterValidator(_rising)]


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
    targets: dict[str, Target] = Field(max_length=MOST_MEMBERS)


class Provenance(Record):
    """The model and the prompt of a run; None where unknown."""

    model: str | None = None
    temperature: float | None = None
    prompt_hash: str | None = None


class Setup(Provenance):
    """The settings that a run must share with those that a map was fitted on."""

    answers: str
    stopping: Stopping


class CalibrationMap(Setup):
    """A map, the settings of the runs that it was fitted on, and how good it is."""

    name: str
    knots: Knots
    measured: Measured

    @property
    def unknown(self) -> list[str]:
        """The settings that the log did not state."""
        return [name for name in Provenance.model_fields if getattr(self, name) is None]

    def differences(self, run: Setup, *, by_hand: bool = False) -> list[str]:
        """List how a run differs; settings that the log left out fit only a map given `by_hand`."""
        own, other = _traits(self), _traits(run)
        ignored = self.unknown if by_hand else ()
        return [
            f"{name} {other[name]}, where the map has {'none' if value is None else value}"
            for name, value in own.items()
            if name in other and value != other[name] and name not in ignored
        ]


class Calibrated(Record):
    """The map that a run was given; `reason` says why it does not apply, if it does not."""

    name: str
    questions: int
    ece: float
    reason: str | None = None


def _traits(setup: Setup) -> dict[str, object]:
    whole = setup.model_dump(include={*Provenance.model_fields, "answers"})
    # Hurry changes how many votes the rule fixed counts, and no decision of another rule.
    less = {"preset"} if setup.stopping.rule == "fixed" else {"preset", "hurry"}
    return whole | setup.stopping.model_dump(include=set(Stopping.model_fields) - less)


def nearest(maps: Iterable[CalibrationMap], run: Setup) -> tuple[CalibrationMap, ...]:
    """Choose the map that differs least from a run; several where its model is not known yet."""
    ranked = sorted(
        maps, key=lambda made: (made.model != run.model, len(made.differences(run)), made.name)
    )
    return tuple(ranked[: 1 if run.model else MOST_MAPS])


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
