"""Numbers with intervals, by resampling."""

import pytest

from reflection.critique.calibration.estimate import (
    Estimate,
    Measure,
    average,
    estimate,
    mean,
    percentile,
)
from reflection.critique.calibration.ranks import auc
from reflection.critique.calibration.reliability import calibration_error


@pytest.mark.parametrize(
    ("ordered", "share", "expected"),
    [
        ([1, 2, 3, 4, 5], 0.025, 1.1),
        ([1, 2, 3, 4, 5], 0.975, 4.9),
        ([1, 2, 3, 4, 5], 1.0, 5.0),
        ([1, 2], 0.5, 1.5),
        ([7], 0.025, 7.0),
    ],
)
def test_percentile(ordered: list[float], share: float, expected: float) -> None:
    """A percentile lies between the two values nearest to it."""
    found = percentile(ordered, share)

    assert found == pytest.approx(expected)


def test_interval() -> None:
    """The interval has the middle 95 % of what the resamples give."""
    measures = {"mean": Measure([0, 1], mean([0.0, 1.0]))}

    found = estimate(measures, 2, [(0, 0), (0, 1), (1, 1)])["mean"]

    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((0.025, 0.975))


def test_members() -> None:
    """A measure sees its own examples alone, whichever others a resample draws."""
    measures = {"mean": Measure([1, 3], mean([0.2, 0.4]))}

    found = estimate(measures, 4, [(0, 2, 1, 1), (0, 0, 2, 3)])["mean"]

    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx((0.205, 0.395))


def test_resamples_without_a_member() -> None:
    """A resample that drew none of a measure's examples is left out."""
    measures = {"mean": Measure([0, 1], mean([0.2, 0.4]))}

    found = estimate(measures, 3, [(2, 2, 2), (0, 1, 2)])["mean"]

    assert (found.low, found.high) == pytest.approx((0.3, 0.3))


def test_one_sided() -> None:
    """An interval is extended to hold a value from which resampling only moves away."""
    measures = {"error": Measure([0, 1], calibration_error([0.5, 0.5], [0, 1]))}

    found = estimate(measures, 2, [(0, 0), (1, 1)])["error"]

    assert found == Estimate(value=0.0, low=0.0, high=0.5)


@pytest.mark.parametrize(
    ("resamples", "low"),
    [
        ([], None),
        ([(0, 0), (1, 1), (0, 1)], None),
        ([(0, 0), (1, 1)], None),
        ([(0, 0), (0, 1)], 1.0),
    ],
)
def test_too_few_defined(resamples: list[tuple[int, int]], low: float | None) -> None:
    """There is no interval where a measure is undefined in more than half of the resamples."""
    measures = {"auc": Measure([0, 1], auc([0.2, 0.8], [False, True]))}

    found = estimate(measures, 2, resamples)["auc"]

    assert found == Estimate(value=1.0, low=low, high=low)


def test_one_example() -> None:
    """One example has a mean, and no interval: resampling it says nothing."""
    found = estimate({"mean": Measure([0], mean([0.2]))}, 1, [(0,), (0,)])["mean"]

    assert found == Estimate(value=0.2)


def test_nothing() -> None:
    """A measure of nothing is undefined."""
    found = estimate({"mean": Measure([], mean([]))}, 3, [(0, 1, 2)])["mean"]

    assert found == Estimate()


def test_equal_averages() -> None:
    """Averages of the same numbers are the same number, however often each was given."""
    found = {average([0.7]), average([0.7, 0.7, 0.7]), average([0.6, 0.7, 0.8])}

    assert found == {0.7}
