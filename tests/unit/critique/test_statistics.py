"""Numbers that tell how well scores agree with labels, and their intervals."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflection.critique.calibration import Estimate, average
from reflection.critique.statistics import (
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

Column = Sequence[float | None]
LEVELS = st.none() | st.integers(0, 4)


def value(statistic: Statistic, *columns: Column) -> float | None:
    return estimate(statistic, columns, []).value


def close(expected: float | None) -> object:
    return None if expected is None else pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "rho", "tau"),
    [
        # Hours of television and IQ, the example of many textbooks: -29 / 165.
        (
            [106, 100, 86, 101, 99, 103, 97, 113, 112, 110],
            [7, 27, 2, 50, 28, 29, 20, 12, 6, 17],
            -0.175758,
            -0.111111,
        ),
        # The example of SciPy's manual: 2 pairs in order, 6 not, 2 and 2 tied, one of them in both.
        ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], -0.540738, -0.471405),
        ([1, 2, 2, 3], [1, 2, 3, 4], 0.948683, 0.912871),
        ([0.1, 0.5, 0.9], [0, 0, 1], 0.866025, 0.816497),
        ([1, None, 2, 3], [10, None, 100, 1000], 1.0, 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0, -1.0),
        ([1, 2, 3], [5, 5, 5], None, None),
        ([5, 5, 5], [1, 2, 3], None, None),
        ([1], [1], None, None),
        ([None], [None], None, None),
    ],
)
def test_correlations_of_ranks(
    first: Column, second: Column, rho: float | None, tau: float | None
) -> None:
    """Ties share their mid-rank, what is missing is left out, and a constant side has none."""
    assert value(spearman, first, second) == close(rho)
    assert value(kendall, first, second) == close(tau)


@pytest.mark.parametrize(
    ("scores", "passes", "expected"),
    [
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1], 0.5),
        ([0.2, 0.5, 0.5, 0.9], [0, 0, 1, 1], 0.875),
        ([0.9, 0.1], [0, 1], 0.0),
        ([0.1, 0.9], [1, 1], None),
        ([0.1, 0.9], [0, 0], None),
        ([None], [None], None),
    ],
)
def test_auc(scores: Column, passes: Column, expected: float | None) -> None:
    """The area is the share of pairs of a pass and a fail in order, a tie being half a pair."""
    assert value(auc, scores, passes) == expected


@given(st.lists(st.tuples(LEVELS, st.booleans()), min_size=1, max_size=12))
def test_auc_by_definition(rows: list[tuple[int | None, bool]]) -> None:
    """It is what counting all pairs gives, without the examples that have no score."""
    known = [(score, right) for score, right in rows if score is not None]
    wins = [
        (high > low) + (high == low) / 2
        for high, passed in known
        for low, failed in known
        if passed and not failed
    ]

    found = value(auc, [s for s, _ in rows], [None if s is None else r for s, r in rows])

    assert found == close(sum(wins) / len(wins) if wins else None)


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        # Two bins: |0.5 - 0.125| x 2/4 + |1 - 0.925| x 2/4.
        ([0.1, 0.15, 0.9, 0.95], [0, 1, 1, 1], 0.225),
        ([0.75, 0.75, 0.75, 0.75], [1, 1, 1, 0], 0.0),
        ([1.0, 1.0], [0, 0], 1.0),
        ([0.0, 1.0], [0, 1], 0.0),
        ([0.8, None, 0.3], [0.6, None, 0.4], 0.15),
        ([None], [None], None),
    ],
)
def test_calibration_error(scores: Column, labels: Column, expected: float | None) -> None:
    """The error is the gap between labels and scores, bin by bin, weighted by their sizes."""
    assert value(calibration_error, scores, labels) == close(expected)


@pytest.mark.parametrize(
    ("lengths", "scores", "labels", "expected"),
    [
        ([10, 200, 3000], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5], 1.0),
        ([10, 200, 3000], [0.3, 0.2, 0.1], [0.5, 0.5, 0.5], -1.0),
        ([10, 200, 3000], [0.4, 0.4, 0.4], [0.0, 0.5, 1.0], None),
        ([10, 10, 10], [0.1, 0.2, 0.3], [0.0, 0.5, 1.0], None),
        # The labels go with length, and the judge with the labels: that is no bias.
        ([10, 200, 3000], [0.1, 0.2, 0.3], [0.0, 0.5, 1.0], 0.0),
        # r(length, score) = 0.8, r(length, label) = r(score, label) = 0: nothing to hold fixed.
        ([1, 2, 3, 4], [0.1, 0.3, 0.2, 0.4], [0.0, 1.0, 1.0, 0.0], 0.8),
    ],
)
def test_length_bias(
    lengths: Column, scores: Column, labels: Column, expected: float | None
) -> None:
    """The bias is the rank correlation of a draft's characters and its score, label held fixed."""
    assert value(length_bias, lengths, scores, labels) == close(expected)


@pytest.mark.parametrize(
    ("own", "others", "gap"),
    [
        ([0.3, 0.1, None, None], [None, None, -0.1, None], 0.3),
        ([0.3, 0.1], [None, None], None),
        ([None, None], [0.3, 0.1], None),
    ],
)
def test_preference_gap(own: Column, others: Column, gap: float | None) -> None:
    """The gap is between a judge's own drafts and those of others, where there are both."""
    assert value(preference_gap, own, others) == close(gap)


@pytest.mark.parametrize(
    ("values", "resamples", "low", "high"),
    [
        ([0.0, 1.0], [(0, 0), (0, 1), (1, 1)], 0.025, 0.975),
        # Definition 7 of Hyndman and Fan: between the two nearest of five.
        ([1, 2, 3, 4, 5], [(place,) * 5 for place in range(5)], 1.1, 4.9),
        # A mean sees the examples that have a value, whichever others a resample draws.
        ([None, 0.2, None, 0.4], [(0, 2, 1, 1), (0, 0, 2, 3)], 0.205, 0.395),
        # A resample that drew none of them is left out.
        ([0.2, 0.4, None], [(2, 2, 2), (0, 1, 2)], 0.3, 0.3),
        # Of one example, or without resamples, there is no interval.
        ([0.2], [(0,), (0,)], None, None),
        ([0.2, 0.4], [], None, None),
        ([None, None], [(0, 1)], None, None),
    ],
)
def test_intervals(
    values: Column, resamples: list[tuple[int, ...]], low: float | None, high: float | None
) -> None:
    """The interval has the middle 95 % of what the resamples give."""
    found = estimate(mean, [values], resamples)

    assert (found.low, found.high) == (close(low), close(high))


def test_an_interval_holds_its_value() -> None:
    """It is extended to a value from which resampling only moves away."""
    found = estimate(calibration_error, [[0.5, 0.5], [0, 1]], [(0, 0), (1, 1)])

    assert found == Estimate(value=0.0, low=0.0, high=0.5)


@pytest.mark.parametrize(
    ("resamples", "low"),
    [([(0, 0), (1, 1), (0, 1)], None), ([(0, 0), (1, 1)], None), ([(0, 0), (0, 1)], 1.0)],
)
def test_too_few_defined(resamples: list[tuple[int, int]], low: float | None) -> None:
    """There is no interval where a number is undefined in more than half of the resamples."""
    found = estimate(auc, [[0.2, 0.8], [0, 1]], resamples)

    assert found == Estimate(value=1.0, low=low, high=low)


@given(st.lists(st.tuples(LEVELS, LEVELS), min_size=1, max_size=8), st.data())
def test_resamples_are_computed_as_one_by_one(
    rows: list[tuple[int | None, int | None]], data: st.DataObject
) -> None:
    """All resamples at once give what each gives alone, whatever is tied or missing."""
    both = [(one, two) if None not in (one, two) else (None, None) for one, two in rows]
    columns = list(zip(*both, strict=True))
    place = st.integers(0, len(rows) - 1)
    resample = data.draw(st.lists(place, min_size=len(rows), max_size=len(rows)))
    drawn = [[column[place] for place in resample] for column in columns]

    for statistic in (spearman, kendall, calibration_error):
        found = estimate(statistic, columns, [resample])
        alone = value(statistic, *drawn)

        assert found.low is None or min(alone or 0.0, found.value or 0.0) == close(found.low)


def test_equal_averages() -> None:
    """Averages of the same numbers are the same number, however often each was given."""
    assert {average([0.7]), average([0.7, 0.7, 0.7]), average([0.6, 0.7, 0.8])} == {0.7}
