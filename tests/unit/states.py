"""Every state that a run of few answers can be in, and settings of every sort."""

from collections.abc import Iterator
from random import Random

from mull.sampling.rules import RULES, Stopping

Counts = tuple[int, ...]


def partitions(total: int, largest: int | None = None) -> Iterator[Counts]:
    """Yield all ways to split so many votes over distinct answers, largest first."""
    if total == 0:
        yield ()
        return
    for first in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


def states(most: int) -> Iterator[tuple[Counts, int]]:
    """Yield all votes and unreadable answers that are at most so many together."""
    for total in range(most + 1):
        for unreadable in range(total + 1):
            for counts in partitions(total - unreadable):
                yield counts, unreadable


def next_states(counts: Counts, unreadable: int) -> Iterator[tuple[Counts, int]]:
    """Yield what one more answer can lead to: unreadable, new, or a vote for any answer."""
    yield counts, unreadable + 1
    yield (*counts, 1), unreadable
    for index in range(len(counts)):
        votes = list(counts)
        votes[index] += 1
        yield tuple(sorted(votes, reverse=True)), unreadable


def random_settings(chance: Random, most: int) -> Stopping:
    """Draw any rule, with thresholds at and near their ends, and at most so many answers."""
    return Stopping(
        rule=chance.choice(list(RULES)),
        confidence_threshold=chance.choice([0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0]),
        entropy_threshold=chance.choice([0.0, 0.3, 0.7, 0.9, 0.95, 0.98, 1.0]),
        entropy_weight=chance.choice([0.0, 0.3, 1.0]),
        min_responses=chance.randint(1, min(8, most)), min_entropy_samples=chance.randint(1, 9),
        epsilon=chance.choice([0.0, 0.02, 0.05, 0.2, 0.5]),
        beta_threshold=chance.choice([0.5, 0.8, 0.95, 1.0]), ahead_by=chance.randint(1, 6),
        futility=chance.choice([None, 0.0, 0.05, 0.5]), quorum=chance.randint(1, min(6, most)),
        max_responses=most,
    )  # fmt: skip
