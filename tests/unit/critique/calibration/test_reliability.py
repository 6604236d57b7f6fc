"""Bins of scores beside the labels in them."""

import pytest

from reflection.critique.calibration.reliability import calibration_error, reliability


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        # Two bins: |0.5 - 0.125| x 2/4 + |1 - 0.925| x 2/4.
        ([0.1, 0.15, 0.9, 0.95], [0, 1, 1, 1], 0.225),
        ([0.75, 0.75, 0.75, 0.75], [1, 1, 1, 0], 0.0),
        ([1.0, 1.0], [0, 0], 1.0),
        ([0.0, 1.0], [0, 1], 0.0),
        ([0.8, 0.3], [0.6, 0.4], 0.15),
        ([0.4], [1], 0.6),
        ([], [], None),
    ],
)
def test_calibration_error(
    scores: list[float], labels: list[float], expected: float | None
) -> None:
    """The error is the gap between labels and scores, bin by bin, weighted by their sizes."""
    found = calibration_error(scores, labels)([1] * len(scores))

    assert found == (expected if expected is None else pytest.approx(expected))


def test_weights() -> None:
    """An example that was drawn twice counts twice, and one that was not, not at all."""
    statistic = calibration_error([0.1, 0.15, 0.9], [0, 1, 1])

    found = statistic([2, 0, 1])

    assert found == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("score", "place"),
    [(0.0, 0), (0.0999, 0), (0.1, 1), (0.3, 3), (0.6, 6), (0.7, 7), (0.7 - 1e-16, 7), (1.0, 9)],
)
def test_edges(score: float, place: int) -> None:
    """A bin begins with its lower edge, and the last one ends with 1."""
    bins = reliability([score], [1.0])

    assert [each.count for each in bins].index(1) == place


def test_bins() -> None:
    """There are always ten bins, each with its means, which an empty one has not."""
    bins = reliability([0.62, 0.66, 0.9], [0, 1, 1])

    assert len(bins) == 10
    assert (bins[6].low, bins[6].high, bins[6].count) == (0.6, 0.7, 2)
    assert bins[6].score == pytest.approx(0.64)
    assert bins[6].label == 0.5
    assert (bins[5].count, bins[5].score, bins[5].label) == (0, None, None)
