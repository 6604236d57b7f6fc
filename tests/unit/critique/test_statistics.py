"""Numbers that tell how well scores agree with labels, and their intervals."""

import warnings
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mull.critique.estimates import Estimate
from mull.critique.statistics import (
    Statistic,
    auc,
    calibration_error,
    estimate,
    kendall,
    length_bias,
    mean,
    preference_gap,
    spearman,
)

NONE: list[float] = []


def value(statistic: Statistic, *columns: Sequence[float]) -> float | None:
    return estimate(statistic, *columns).value


def close(expected: float | None) -> object:
    return None if expected is None else pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "rho", "tau"),
    [
        # Hours of television and IQ, the example of many textbooks: -29 / 165.
        ([106, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7, 27, 2, 50, 28, 29, 20, 12, 6, 17],
         -0.175758, -0.111111),
        # The example of SciPy's manual: 2 pairs in order, 6 not, 2 and 2 tied, one of them in both.
        ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], -0.540738, -0.471405),
        ([0.1, 0.5, 0.9], [0, 0, 1], 0.866025, 0.816497),
        ([1, 2, 3], [3, 2, 1], -1.0, -1.0),
        ([1, 2, 3], [5, 5, 5], None, None),
        ([1], [1], None, None),
        (NONE, NONE, None, None),
    ],
)  # fmt: skip
def test_correlations_of_ranks(
    first: list[float], second: list[float], rho: float | None, tau: float | None
) -> None:
    """Ties share their mid-rank, and a constant side has no correlation."""
    assert value(spearman, first, second) == close(rho)
    assert value(kendall, first, second) == close(tau)


@pytest.mark.parametrize(
    ("statistic", "columns", "expected"),
    [
        (auc, ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]), 0.75),
        # A bin for each: (0.1 + 0.85 + 0.1 + 0.05) / 4.
        (calibration_error, ([0.1, 0.15, 0.9, 0.95], [0, 1, 1, 1]), 0.275),
        # Ten bins of two, though all scores are within 0.9 and 1: (0.08 + 0.06 + 0.04 + 0.02) / 4.
        (calibration_error, ([0.91, 0.93, 0.95, 0.97] * 5, [0.99] * 20), 0.05),
        (calibration_error, ([0.75, 0.75, 0.75, 0.75], [1, 1, 1, 0]), 0.0),
        (calibration_error, ([1.0, 1.0], [0, 0]), 1.0),
        (calibration_error, (NONE, NONE), None),
        (preference_gap, ([0.3, 0.1, -0.1], [1, 1, 0]), 0.3),
        (preference_gap, ([0.3, 0.1], [1, 1]), None),
        (preference_gap, ([0.3, 0.1], [0, 0]), None),
        (mean, ([0.2, 0.4],), 0.3),
        (mean, (NONE,), None),
        (length_bias, ([10, 200, 3000], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5]), 1.0),
        (length_bias, ([10, 200, 3000], [0.3, 0.2, 0.1], [0.5, 0.5, 0.5]), -1.0),
        (length_bias, ([10, 200, 3000], [0.4, 0.4, 0.4], [0.0, 0.5, 1.0]), None),
        (length_bias, ([10, 10, 10], [0.1, 0.2, 0.3], [0.0, 0.5, 1.0]), None),
        # The labels go with length, and the judge with the labels: that is no bias.
        (length_bias, ([10, 200, 3000], [0.1, 0.2, 0.3], [0.0, 0.5, 1.0]), 0.0),
        # r(length, score) = 0.8, r(length, label) = r(score, label) = 0: nothing to hold fixed.
        (length_bias, ([1, 2, 3, 4], [0.1, 0.3, 0.2, 0.4], [0.0, 1.0, 1.0, 0.0]), 0.8),
    ],
)
def test_numbers(
    statistic: Statistic, columns: tuple[list[float], ...], expected: float | None
) -> None:
    """Each is what its definition says, and None where that says nothing."""
    assert value(statistic, *columns) == close(expected)


def test_an_interval() -> None:
    """It has the middle 95 % of 1,000 resamples, the same ones in each call, and the value."""
    values = [place / 100 for place in range(101)]

    found = estimate(mean, values)

    # The mean's standard error is 0.2915 / sqrt(101) = 0.0290.
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.443, 0.557), abs=0.004)
    assert estimate(mean, values) == found
    assert estimate(mean, [0.25, 0.75]) == Estimate(value=0.5)
    # Resampling only moves away from the value, to which the interval is extended.
    assert estimate(calibration_error, [0.5] * 4, [0, 1, 0, 1]).low == 0.0
    # Of a resample without a pass nothing is said.
    assert estimate(auc, [0.2, 0.8, 0.9], [0, 1, 1]) == Estimate(value=1.0, low=1.0, high=1.0)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=8), st.randoms())
def test_all_at_once_is_one_by_one(first: list[int], chance: Random) -> None:
    """A statistic of many rows at once is that of each row alone, whatever is tied."""
    rows = np.array([chance.sample(first, len(first)) for _ in range(3)], dtype=float)
    labels = np.array([chance.sample(first, len(first)) for _ in range(3)], dtype=float)

    for statistic in (spearman, kendall, calibration_error):
        with warnings.catch_warnings(action="ignore"):
            found = statistic(rows / 4, labels / 4)
            alone = [statistic(one, two) for one, two in zip(rows / 4, labels / 4, strict=True)]

        assert found == pytest.approx(np.array(alone), nan_ok=True)
