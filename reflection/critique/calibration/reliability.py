"""Whether a score means what it says: bins of scores beside the labels in them."""

from collections.abc import Sequence
from math import fsum

from reflection.critique.calibration.estimate import Statistic
from reflection.run import Record

BINS = 10


class Bin(Record):
    """The examples whose score is at least `low` and under `high` (in the last bin, up to 1).

    `score` and `label` are their means, None where `count` is 0.
    """

    low: float
    high: float
    count: int
    score: float | None = None
    label: float | None = None


def reliability(scores: Sequence[float], labels: Sequence[float]) -> tuple[Bin, ...]:
    """Sort scores, 0 to 1, into ten bins of equal width, for a reliability diagram.

    Source: Niculescu-Mizil and Caruana (2005), Predicting good probabilities with supervised
    learning.
    """
    inside: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for score, label in zip(scores, labels, strict=True):
        inside[_bin(score)].append((score, label))
    return tuple(_filled(place, pairs) for place, pairs in enumerate(inside))


def calibration_error(scores: Sequence[float], labels: Sequence[float]) -> Statistic:
    """Compute the expected calibration error, 0 to 1, over ten bins of equal width.

    That is the sum over bins of (examples in it / all) x |mean label - mean score|. Undefined of
    nothing. It is never negative, so that noise alone makes it positive in a small set.
    Sources: Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using
    Bayesian binning; Guo et al. (2017), On calibration of modern neural networks.
    """
    bins = [_bin(score) for score in scores]
    gaps = [label - score for score, label in zip(scores, labels, strict=True)]

    def statistic(weights: Sequence[int]) -> float | None:
        size, totals = sum(weights), [0.0] * BINS
        for place, gap, weight in zip(bins, gaps, weights, strict=True):
            totals[place] += weight * gap
        return fsum(map(abs, totals)) / size if size else None

    return statistic


def _bin(score: float) -> int:
    # An average may fall a little short of the edge that it stands on.
    return min(int(score * BINS + 1e-9), BINS - 1)


def _filled(place: int, pairs: Sequence[tuple[float, float]]) -> Bin:
    count = len(pairs)
    return Bin(
        low=place / BINS,
        high=(place + 1) / BINS,
        count=count,
        score=fsum(score for score, _ in pairs) / count if pairs else None,
        label=fsum(label for _, label in pairs) / count if pairs else None,
    )
