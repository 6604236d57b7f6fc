"""How well a judge's order agrees with that of the labels, ties and all."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

from reflection.critique.calibration.estimate import Statistic


def spearman(first: Sequence[float], second: Sequence[float]) -> Statistic:
    """Compute Spearman's rank correlation, -1 to 1: Pearson's correlation of the mid-ranks.

    A mid-rank is the mean of the ranks that equal values share. Undefined where either side is
    constant. Sources: Spearman (1904), The proof and measurement of association between two
    things; Kendall and Gibbons (1990), Rank correlation methods, for ties.
    """
    ones, twos = _places(first), _places(second)

    def statistic(weights: Sequence[int]) -> float | None:
        rank_one, rank_two = _centered(ones, weights), _centered(twos, weights)
        squares = _squares(ones, rank_one, weights) * _squares(twos, rank_two, weights)
        if squares == 0:
            return None
        triples = zip(ones, twos, weights, strict=True)
        product = sum(weight * rank_one[one] * rank_two[two] for one, two, weight in triples)
        return _within(product / sqrt(squares))

    return statistic


def kendall(first: Sequence[float], second: Sequence[float]) -> Statistic:
    """Compute Kendall's tau-b, -1 to 1: (P - Q) / sqrt((n0 - n1) (n0 - n2)).

    P and Q are the pairs in the same and in the opposite order, n0 all pairs, n1 and n2 those
    tied on the first and on the second side. Undefined where either side is constant. The pairs
    are counted in O(n log n) as by Knight, with a binary indexed tree in place of his merge sort.
    Sources: Kendall (1945), The treatment of ties in ranking problems; Knight (1966), A computer
    method for calculating Kendall's tau with ungrouped data.
    """
    ones, twos = _places(first), _places(second)
    both = _places(list(zip(ones, twos, strict=True)))
    order = sorted(range(len(both)), key=both.__getitem__)
    walked = [twos[each] for each in order]

    def statistic(weights: Sequence[int]) -> float | None:
        pairs = _pairs(sum(weights))
        one, two, tied = (_tied(places, weights) for places in (ones, twos, both))
        if pairs in {one, two}:
            return None
        opposite = _opposite(walked, [weights[each] for each in order])
        same_less_opposite = pairs - one - two + tied - 2 * opposite
        return _within(same_less_opposite / sqrt((pairs - one) * (pairs - two)))

    return statistic


def auc(scores: Sequence[float], passes: Sequence[bool]) -> Statistic:
    """Compute the area under the ROC curve, 0 to 1.

    That is the share of pairs of a pass and a fail in which the pass has the higher score, where
    a tie is half a pair. Undefined without a pass or without a fail.
    Source: Hanley and McNeil (1982), The meaning and use of the area under a ROC curve.
    """
    places = _places(scores)

    def statistic(weights: Sequence[int]) -> float | None:
        passed = [weight * right for weight, right in zip(weights, passes, strict=True)]
        failed = [weight * (not right) for weight, right in zip(weights, passes, strict=True)]
        pairs, halves, below = sum(passed) * sum(failed), 0, 0
        for high, low in zip(_counts(places, passed), _counts(places, failed), strict=True):
            halves += high * (2 * below + low)
            below += low
        return halves / (2 * pairs) if pairs else None

    return statistic


def _places(values: Sequence[Any]) -> list[int]:
    # Resampling never changes the order, so that values are sorted once for all resamples.
    ordered = {value: place for place, value in enumerate(sorted(set(values)))}
    return [ordered[value] for value in values]


def _counts(places: Sequence[int], weights: Sequence[int]) -> list[int]:
    counts = [0] * (max(places, default=-1) + 1)
    for place, weight in zip(places, weights, strict=True):
        counts[place] += weight
    return counts


def _centered(places: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Give for each place twice its mid-rank less the mean rank, which is a whole number."""
    centered, before, size = [], 0, sum(weights)
    for count in _counts(places, weights):
        centered.append(2 * before + count - size)
        before += count
    return centered


def _squares(places: Sequence[int], ranks: Sequence[int], weights: Sequence[int]) -> int:
    counts = _counts(places, weights)
    return sum(count * rank * rank for count, rank in zip(counts, ranks, strict=True))


def _tied(places: Sequence[int], weights: Sequence[int]) -> int:
    return sum(map(_pairs, _counts(places, weights)))


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _opposite(walked: Sequence[int], weights: Sequence[int]) -> int:
    """Count the pairs of which the earlier one has the higher place."""
    size = max(walked, default=-1) + 1
    tree = [0] * (size + 1)
    opposite = seen = 0
    for place, weight in zip(walked, weights, strict=True):
        if weight:
            opposite += weight * (seen - _up_to(tree, place + 1))
            _add(tree, place + 1, weight)
            seen += weight
    return opposite


def _up_to(tree: Sequence[int], at: int) -> int:
    found = 0
    while at:
        found += tree[at]
        at &= at - 1
    return found


def _add(tree: list[int], at: int, weight: int) -> None:
    while at < len(tree):
        tree[at] += weight
        at += at & -at


def _within(correlation: float) -> float:
    # Rounding may leave a perfect correlation a little outside.
    return max(-1.0, min(1.0, correlation))
