"""Votes, the measures of their distribution, and how these moved from answer to answer.

Source: the self-reflection agent's pseudo-code. Thresholds are compared with a tolerance of
1e-9, since 0.55 - 0.40 is above 0.15 in binary floating point and 11/20 - 8/20 is not.
"""

from collections.abc import Sequence
from functools import cache
from math import log2
from typing import Literal, NamedTuple

from reflection.request import Record
from reflection.run import at_least, at_most

EntropyLevel = Literal["concentrated", "scattered", "uniform"]
UncertaintyLevel = Literal["low", "medium", "high"]
ConsensusType = Literal["undefined", "binary", "strong", "emerging", "divided"]


def entropy(counts: tuple[int, ...]) -> float:
    """Compute Shannon's entropy of the shares of `counts`, in bits: 0 to log2(len(counts)).

    Source: Shannon (1948); H = -sum(p log2 p).
    """
    votes = sum(counts)
    if len(counts) < 2:
        return 0.0
    return max(0.0, log2(votes) - sum(count * log2(count) for count in counts) / votes)


def normalized(entropy_bits: float, distinct: int) -> float:
    """Scale an entropy in bits by log2 of the number of distinct answers: 0 to 1."""
    return min(1.0, entropy_bits / log2(distinct)) if distinct > 1 else 0.0


def classify_entropy(normalized_entropy: float) -> EntropyLevel:
    """Name a normalized entropy: up to 0.2, up to 0.7, above."""
    if at_most(normalized_entropy, 0.2):
        return "concentrated"
    return "scattered" if at_most(normalized_entropy, 0.7) else "uniform"


def classify_uncertainty(confidence: float) -> UncertaintyLevel:
    """Name the uncertainty that a confidence leaves: from 0.8, from 0.6, below."""
    if at_least(confidence, 0.8):
        return "low"
    return "medium" if at_least(confidence, 0.6) else "high"


def classify_consensus(first: float, second: float = 0.0) -> ConsensusType:
    """Name the pattern of votes by the two largest shares, each 0 to 1; no votes: 0 and 0."""
    if first <= 0:
        return "undefined"
    if at_least(second, 0.35) and at_most(first - second, 0.15):
        return "binary"
    if at_least(first, 0.8):
        return "strong"
    return "emerging" if at_least(first, 0.4) else "divided"


@cache
def _weight(count: int) -> float:
    return count * log2(count) if count else 0.0


class Measurement(NamedTuple):
    """What the votes say after one more answer.

    `confidence` is the leader's share, 0 to 1; `entropy` is in bits; `normalized_entropy` is 0
    to 1. All three are 0 where nothing was counted yet.
    """

    leader: str | None
    leader_votes: int
    runner_up_votes: int
    votes: int
    distinct: int
    confidence: float
    entropy: float
    normalized_entropy: float


NOTHING = Measurement(None, 0, 0, 0, 0, 0.0, 0.0, 0.0)


class Tally:
    """The votes so far. Adding one costs O(1); the distribution and sorted counts cost O(k).

    The entropy is kept as log2 n - sum(c log2 c) / n, of which one vote changes one summand.
    Among equals the leader is the answer that was seen first.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._order: dict[str, int] = {}
        self._weights = 0.0
        self.measurement = NOTHING

    @property
    def counts(self) -> tuple[int, ...]:
        """The votes of each distinct answer, largest first."""
        return tuple(sorted(self._counts.values(), reverse=True))

    @property
    def votes(self) -> dict[str, int]:
        """The votes of each distinct answer, in the order first seen."""
        return dict(self._counts)

    @property
    def distribution(self) -> dict[str, float]:
        """The share of each distinct answer, 0 to 1, in the order first seen."""
        votes = self.measurement.votes
        return {answer: count / votes for answer, count in self._counts.items()}

    @property
    def tied(self) -> bool:
        """Whether two or more answers share the lead."""
        return 0 < self.measurement.leader_votes == self.measurement.runner_up_votes

    def add(self, answer: str) -> Measurement:
        """Count one vote and return the measures after it."""
        count = self._counts.get(answer, 0) + 1
        self._counts[answer] = count
        self._order.setdefault(answer, len(self._order))
        self._weights += _weight(count) - _weight(count - 1)
        votes, distinct = self.measurement.votes + 1, len(self._counts)
        leader, first, second = self.measurement[:3]
        if leader is None or leader == answer:
            leader, first = answer, count
        elif count > first or (count == first and self._order[answer] < self._order[leader]):
            leader, first, second = answer, count, first
        else:
            second = max(second, count)
        bits = log2(votes) - self._weights / votes if distinct > 1 else 0.0
        self.measurement = Measurement(
            leader, first, second, votes, distinct, first / votes, bits, normalized(bits, distinct)
        )
        return self.measurement


class ConvergenceAnalysis(Record):
    """The series of confidence and normalized entropy after each counted answer, each 0 to 1.

    A rate is (last - first) / length, 0 below two values. A stability is 1 - (max - min) of the
    last three values, 1 below three. Source: the self-reflection agent's pseudo-code.
    """

    confidence_evolution: tuple[float, ...] = ()
    entropy_evolution: tuple[float, ...] = ()
    convergence_rate: float = 0.0
    final_stability: float = 1.0
    entropy_convergence_rate: float = 0.0
    entropy_final_stability: float = 1.0


def analyse(confidences: Sequence[float], entropies: Sequence[float]) -> ConvergenceAnalysis:
    """Analyse both series, which have one value for each counted answer."""
    return ConvergenceAnalysis(
        confidence_evolution=tuple(confidences),
        entropy_evolution=tuple(entropies),
        convergence_rate=rate(confidences),
        final_stability=stability(confidences),
        entropy_convergence_rate=rate(entropies),
        entropy_final_stability=stability(entropies),
    )


def rate(series: Sequence[float]) -> float:
    """Compute the mean change for each value of the series; 0 below two values."""
    return (series[-1] - series[0]) / len(series) if len(series) >= 2 else 0.0


def stability(series: Sequence[float]) -> float:
    """Compute 1 minus the spread of the last three values; 1 below three values."""
    return 1.0 - (max(series[-3:]) - min(series[-3:])) if len(series) >= 3 else 1.0
