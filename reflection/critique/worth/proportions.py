"""Shares of right answers, alone and in pairs, with what chance leaves open."""

from math import comb, sqrt

from reflection.critique.calibration.estimate import Estimate

NORMAL_95 = 1.959964


def wilson(right: int, size: int) -> Estimate:
    """Compute a share, 0 to 1, with Wilson's 95 % interval; undefined of nothing.

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    if not size:
        return Estimate()
    share, squared = right / size, NORMAL_95**2
    center = (share + squared / (2 * size)) / (1 + squared / size)
    half = sqrt(share * (1 - share) / size + squared / (4 * size * size))
    half *= NORMAL_95 / (1 + squared / size)
    # Rounding may leave the share outside its own interval where it is 0 or 1.
    low, high = max(0.0, center - half), min(1.0, center + half)
    return Estimate(value=share, low=min(low, share), high=max(high, share))


def paired_difference(gained: int, lost: int, size: int) -> Estimate:
    """Compute (gained - lost) / size, -1 to 1, with a 95 % interval; undefined of nothing.

    The interval is Wald's after half a pair is added to each of the four cells, so that it never
    has the length 0, and holds in small sets too. Source: Agresti and Min (2005), Simple improved
    confidence intervals for comparing matched proportions.
    """
    if not size:
        return Estimate()
    value, added = (gained - lost) / size, size + 2
    center = (gained - lost) / added
    half = NORMAL_95 * sqrt(gained + lost + 1 - (gained - lost) ** 2 / added) / added
    low, high = max(-1.0, center - half), min(1.0, center + half)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def mcnemar(gained: int, lost: int) -> float:
    """Compute the exact two-sided p value, 0 to 1, of a change in so many pairs each way.

    Under no difference each changed pair is a fair coin: it is twice the binomial probability of
    at most the smaller count, at most 1, and 1 where nothing changed. Sources: McNemar (1947),
    Note on the sampling error of the difference between correlated proportions or percentages;
    Liddell (1976), Practical tests of 2 x 2 tables, for the exact one.
    """
    changed = gained + lost
    tail = sum(comb(changed, count) for count in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / (1 << changed))
