"""Statistics of how well scores agree with labels, with bootstrap intervals.

A statistic takes rows of values, one per labelled example, NaN where missing. It works along the
last axis, so that all resamples are computed at once, and returns NaN where it is undefined. numpy
and scipy take a second to import: only a command that measures imports this.
"""

from collections.abc import Callable, Sequence
from math import isnan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

from reflection.critique.calibration import BINS, EDGE, Estimate

ROUNDING = 1e-12

Array: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[..., Array]


def estimate(
    statistic: Statistic,
    columns: Sequence[Sequence[float | None]],
    resamples: Sequence[Sequence[int]],
) -> Estimate:
    """Compute a statistic of some columns with its 95 % percentile bootstrap interval.

    A column has one value per example, None where missing. A resample has the positions of the
    examples drawn, with replacement. There is no interval for fewer than two examples, or if the
    statistic is undefined in more than half of the resamples; otherwise those are left out. If
    resampling shifts a statistic to one side, as it does a calibration error, the interval is
    extended to include the value. Raises IndexError for a position that does not exist.
    Sources: Efron (1979), Bootstrap methods: another look at the jackknife; Hyndman and Fan (1996),
    Sample quantiles in statistical packages, for percentiles (their definition 7).
    """
    rows = np.array(columns, dtype=float)
    members = int((~np.isnan(rows)).any(axis=0).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(*rows))
        if isnan(value):
            return Estimate()
        if members < 2 or not len(resamples):
            return Estimate(value=value)
        drawn = statistic(*rows[:, np.array(resamples)])
    found = drawn[~np.isnan(drawn)]
    if not len(found) or 2 * len(found) < len(drawn):
        return Estimate(value=value)
    low, high = map(float, np.percentile(found, [2.5, 97.5]))
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def mean(values: Array) -> Array:
    """Compute the mean; undefined without values."""
    return np.asarray(np.nansum(values, axis=-1) / _count(values))


def spearman(first: Array, second: Array) -> Array:
    """Compute Spearman's rank correlation, -1 to 1: Pearson's correlation of the mid-ranks.

    A mid-rank is the mean of the ranks that equal values share. Undefined where either side is
    constant. Sources: Spearman (1904), The proof and measurement of association between two
    things; Kendall and Gibbons (1990), Rank correlation methods, for ties.
    """
    one, two = (_ranks(side) - (_count(side)[..., None] + 1) / 2 for side in (first, second))
    products = np.nansum(one * two, axis=-1)
    squares = np.nansum(one**2, axis=-1) * np.nansum(two**2, axis=-1)
    # Rounding may leave a perfect correlation slightly outside -1 to 1.
    return np.asarray(np.clip(products / np.sqrt(squares), -1.0, 1.0))


def kendall(first: Array, second: Array) -> Array:
    """Compute Kendall's tau-b, -1 to 1: (P - Q) / sqrt((n0 - n1) (n0 - n2)).

    P and Q are the pairs in the same and in the opposite order, n0 all pairs, n1 and n2 those
    tied on the first and on the second side. Undefined where either side is constant.
    Source: Kendall (1945), The treatment of ties in ranking problems.
    """
    known = ~np.isnan(first)
    rows = zip(*(side.reshape(-1, side.shape[-1]) for side in (first, second, known)), strict=True)
    found = [_kendall(one[both], two[both]) for one, two, both in rows]
    return np.reshape(found, first.shape[:-1])


def _kendall(one: Array, two: Array) -> float:
    return float(kendalltau(one, two).statistic) if len(one) > 1 else np.nan


def auc(scores: Array, passes: Array) -> Array:
    """Compute the area under the ROC curve, 0 to 1; `passes` are 1, and fails 0.

    That is the share of pairs of a pass and a fail in which the pass has the higher score, where
    a tie is half a pair. Undefined without a pass or without a fail.
    Source: Hanley and McNeil (1982), The meaning and use of the area under a ROC curve.
    """
    good = np.nansum(passes, axis=-1)
    above = np.nansum(_ranks(scores) * passes, axis=-1) - good * (good + 1) / 2
    return np.asarray(above / (good * (_count(passes) - good)))


def calibration_error(scores: Array, labels: Array) -> Array:
    """Compute the expected calibration error, 0 to 1, over ten bins of equal width.

    That is the sum over bins of (examples in it / all) x |mean label - mean score|. Undefined
    without values. It is never negative, so in a small set noise alone makes it positive.
    Sources: Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using
    Bayesian binning; Guo et al. (2017), On calibration of modern neural networks.
    """
    inside = np.minimum(np.floor(scores * BINS + EDGE), BINS - 1)
    gaps = labels - scores
    totals = [np.nansum(np.where(inside == place, gaps, 0), axis=-1) for place in range(BINS)]
    return np.asarray(np.abs(totals).sum(axis=0) / _count(scores))


def preference_gap(own: Array, others: Array) -> Array:
    """Compute how much more a judge overrates its own drafts than those of others.

    Both are score - label, for drafts that the judge wrote and for drafts by other known writers.
    The gap is -2 to 2, undefined if either is empty. Sources: Panickssery, Bowman and Feng (2024),
    LLM evaluators recognize and favor their own generations, for the bias; the label accounts for
    real differences in quality, as in Chen et al. (2025), Do LLM evaluators prefer
    themselves for a reason?
    """
    return mean(own) - mean(others)


def length_bias(lengths: Array, scores: Array, labels: Array) -> Array:
    """Compute the rank correlation, -1 to 1, of a draft's characters and score, label held fixed.

    Above 0 the judge prefers length more than the labels do. It is Spearman's partial correlation,
    so labels that correlate with length do not count as bias; 0 if the label explains every score,
    and Spearman's plain correlation if all labels are equal. Undefined if lengths or scores are
    constant. Sources: Saito et al. (2023), Verbosity bias in preference labeling by large
    language models; Kendall (1942), Partial rank correlation, for holding the label fixed.
    """
    liked, expected = spearman(lengths, scores), spearman(lengths, labels)
    followed = spearman(scores, labels)
    rest = (1 - expected**2) * (1 - followed**2)
    partial = np.clip((liked - expected * followed) / np.sqrt(rest), -1.0, 1.0)
    partial = np.where(rest < ROUNDING, 0.0, partial)
    return np.where(np.isnan(expected) | np.isnan(followed), liked, partial)


def _count(values: Array) -> Array:
    return np.asarray((~np.isnan(values)).sum(axis=-1))


def _ranks(values: Array) -> Array:
    return np.asarray(rankdata(values, axis=-1, nan_policy="omit"))
