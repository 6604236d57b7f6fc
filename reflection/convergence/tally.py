"""Counting votes, one at a time, with every measure kept up to date."""

from functools import cache
from math import log2
from typing import NamedTuple

from reflection.convergence.measures import normalized


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
    def answers(self) -> tuple[str, ...]:
        """The distinct answers, in the order in which they were first seen."""
        return tuple(self._counts)

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
        self.measurement = self._measure(answer, count)
        return self.measurement

    def _measure(self, answer: str, count: int) -> Measurement:
        votes, distinct = self.measurement.votes + 1, len(self._counts)
        leader, first, second = self._ranks(answer, count)
        bits = log2(votes) - self._weights / votes if distinct > 1 else 0.0
        scaled = normalized(bits, distinct)
        return Measurement(leader, first, second, votes, distinct, first / votes, bits, scaled)

    def _ranks(self, answer: str, count: int) -> tuple[str, int, int]:
        leader, first, second = self.measurement[:3]
        if leader is None or leader == answer:
            return answer, count, second
        ahead = count > first or (count == first and self._order[answer] < self._order[leader])
        if ahead:
            return answer, count, first
        return leader, first, max(second, count)
