"""Statistics of how well scores agree with labels, with bootstrap intervals.

A statistic takes arrays with one value per labelled example along `axis`, and returns NaN where it
is undefined. numpy and scipy take a second to import: only a command that measures imports this.
"""

import warnings
from collections.abc import Callable, Sequence
from math import isnan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, kendalltau, rankdata, spearmanrho

from mull.critique.estimates import BINS, EDGE, RESAMPLES, Bin, Estimate, average

LEAST = 3
DRAWS = 200
# Rounding errors of an exact 1 are smaller.
DIGITS = 12
ROUNDING = 1e-12

Array: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[..., Array]


def estimate(statistic: Statistic, *columns: Sequence[float]) -> Estimate:
    """Compute a statistic of some columns with its 95 % percentile bootstrap interval.

    A column has one value per example. Every call draws the same resamples of as many examples;
    those in which the statistic is undefined are left out. There is no interval for fewer than
    three examples. If resampling shifts a statistic to one side, as it does a calibration error,
    the interval is extended to include the value.
    Source: Efron (1979), Bootstrap methods: another look at the jackknife.
    """
    rows = [np.array(column, dtype=float) for column in columns]
    with warnings.catch_warnings():
        # numpy and scipy warn about each undefined value.
        warnings.simplefilter("ignore")
        value = round(float(statistic(*rows)), DIGITS)
        if isnan(value) or len(rows[0]) < LEAST:
            return Estimate(value=None if isnan(value) else value)
        drawn = bootstrap(
            rows, statistic, n_resamples=RESAMPLES, paired=True, axis=-1, method="percentile", rng=0
        ).bootstrap_distribution
    low, high = (round(float(end), DIGITS) for end in np.nanpercentile(drawn, [2.5, 97.5]))
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def mean(values: Array, axis: int = -1) -> Array:
    """Compute the mean; undefined without values."""
    return np.asarray(np.mean(values, axis=axis))


def spearman(first: Array, second: Array, axis: int = -1) -> Array:
    """Compute Spearman's rank correlation, -1 to 1; undefined if either side is constant.

    Sources: Spearman (1904), The proof and measurement of association between two things;
    Kendall and Gibbons (1990), Rank correlation methods, for ties.
    """
    return np.asarray(spearmanrho(first, second, axis=axis).statistic)


def kendall(first: Array, second: Array, axis: int = -1) -> Array:
    """Compute Kendall's tau-b, -1 to 1; undefined if either side is constant.

    Source: Kendall (1945), The treatment of ties in ranking problems.
    """
    return np.asarray(kendalltau(first, second, axis=axis).statistic)


def auc(scores: Array, passes: Array, axis: int = -1) -> Array:
    """Compute the area under the ROC curve, 0 to 1; `passes` are 1, and fails 0.

    That is the share of pairs of a pass and a fail in which the pass has the higher score, where
    a tie is half a pair. Undefined without a pass or without a fail.
    Source: Hanley and McNeil (1982), The meaning and use of the area under a ROC curve.
    """
    good = passes.sum(axis=axis)
    above = (rankdata(scores, axis=axis) * passes).sum(axis=axis) - good * (good + 1) / 2
    return np.asarray(above / (good * (passes.shape[axis] - good)))


def mass_bins(scores: Array, axis: int = -1, bins: int = BINS) -> Array:
    """Sort scores into bins, numbered from 0, with as many scores in each; equal scores share one.

    So a bin may be larger than others, or empty.
    """
    middles = rankdata(scores, axis=axis) - 0.5
    return np.asarray(np.floor(middles * bins / scores.shape[axis] + EDGE))


def calibration_error(scores: Array, labels: Array, axis: int = -1) -> Array:
    """Compute the expected calibration error, 0 to 1, over ten bins of equal mass.

    That is the sum over bins of (examples in it / all) x |mean label - mean score|. Undefined
    without values. It is never negative, so noise alone makes it positive: see `noise_errors`.
    Sources: Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using
    Bayesian binning; Nixon et al. (2019), Measuring calibration in deep learning, for the bins.
    """
    inside = mass_bins(scores, axis)
    totals = [((labels - scores) * (inside == place)).sum(axis=axis) for place in range(BINS)]
    return np.asarray(np.abs(totals).sum(axis=0) / np.float64(scores.shape[axis]))


def reliability(scores: Sequence[float], labels: Sequence[float]) -> tuple[Bin, ...]:
    """Sort scores, 0 to 1, into the calibration error's bins, for a reliability diagram.

    Source: Niculescu-Mizil and Caruana (2005), Predicting good probabilities with supervised
    learning.
    """
    pairs = np.array([scores, labels], dtype=float)
    places = mass_bins(pairs[0])
    return tuple(
        Bin(
            low=min(given),
            high=max(given),
            count=len(given),
            score=average(given),
            label=average(expected),
        )
        for given, expected in (pairs[:, places == place].tolist() for place in np.unique(places))
    )


def noise_errors(scores: Array) -> Array:
    """Compute the calibration errors that a perfectly calibrated scorer shows, for noise alone.

    Labels are drawn as the scores say, 200 times. Scores in one row are of one question and share
    its draw, as answers to one question are mostly all right or all wrong; where they are not,
    the errors are somewhat smaller. Source: Broecker and Smith (2007), Increasing the reliability
    of reliability diagrams.
    """
    drawn = np.random.default_rng(0).random((DRAWS, len(scores), *[1] * (scores.ndim - 1)))
    places = mass_bins(scores.ravel()).astype(int)
    totals = [np.bincount(places, ((one < scores) - scores).ravel()) for one in drawn]
    return np.asarray(np.abs(totals).sum(axis=1) / scores.size)


def estimate_error(scores: Sequence[float], labels: Sequence[float]) -> tuple[Estimate, float]:
    """Estimate the calibration error, and what it would be for noise alone; at least one score.

    A resample adds noise to that of the scores, so that the bootstrap never comes near to 0: the
    interval reaches as far below the value as above it.
    """
    found, floor = estimate(calibration_error, scores, labels), noise_errors(np.array(scores))
    if found.value is not None and found.high is not None:
        low = max(0.0, round(2 * found.value - found.high, DIGITS))
        found = found.model_copy(update={"low": min(low, found.low or 0.0)})
    return found, round(float(floor.mean()), DIGITS)


def preference_gap(gaps: Array, own: Array, axis: int = -1) -> Array:
    """Compute how much more a judge overrates its own drafts than those of others.

    `gaps` are score - label for drafts by known writers, and `own` is 1 for those that the judge
    wrote. The result is -2 to 2, undefined if all or none are its own. Sources: Panickssery,
    Bowman and Feng (2024), LLM evaluators recognize and favor their own generations, for the bias;
    the label accounts for real differences in quality, as in Chen et al. (2025), Do LLM evaluators
    prefer themselves for a reason?
    """
    mine, others = (np.where(own == side, gaps, np.nan) for side in (1, 0))
    return np.asarray(np.nanmean(mine, axis=axis) - np.nanmean(others, axis=axis))


def length_bias(lengths: Array, scores: Array, labels: Array, axis: int = -1) -> Array:
    """Compute the rank correlation, -1 to 1, of a draft's characters and score, label held fixed.

    Above 0 the judge prefers length more than the labels do. It is Spearman's partial correlation,
    so labels that correlate with length do not count as bias; 0 if the label explains every score,
    and Spearman's plain correlation if all labels are equal. Undefined if lengths or scores are
    constant. Sources: Saito et al. (2023), Verbosity bias in preference labeling by large
    language models; Kendall (1942), Partial rank correlation, for holding the label fixed.
    """
    liked, expected = spearman(lengths, scores, axis), spearman(lengths, labels, axis)
    followed = spearman(scores, labels, axis)
    rest = (1 - expected**2) * (1 - followed**2)
    partial = np.clip((liked - expected * followed) / np.sqrt(rest), -1.0, 1.0)
    partial = np.where(rest < ROUNDING, 0.0, partial)
    return np.where(np.isnan(expected) | np.isnan(followed), liked, partial)
