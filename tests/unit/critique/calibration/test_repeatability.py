"""Whether a judge says the same when it is asked again."""

import pytest

from reflection.critique.calibration.repeatability import Repeatability, repeatability


@pytest.mark.parametrize(
    ("repeats", "examples", "deviation", "same"),
    [
        ([[0.6, 0.8], [0.5, 0.5], [0.9]], 2, 0.070711, 0.5),
        ([[0.7, 0.8, 0.9]], 1, 0.1, 1.0),
        ([[0.5, 0.5], [0.9, 0.9, 0.9]], 2, 0.0, 1.0),
        ([[0.0, 1.0]], 1, 0.707107, 0.0),
    ],
)
def test_repeatability(
    repeats: list[list[float]], examples: int, deviation: float, same: float
) -> None:
    """Deviation and verdicts are those within the examples that have two scores or more."""
    found = repeatability(repeats)

    assert (found.examples, found.same_verdict) == (examples, same)
    assert found.deviation == pytest.approx(deviation, abs=1e-6)


def test_another_threshold() -> None:
    """Verdicts are the same or not at the threshold that is given."""
    found = repeatability([[0.6, 0.8]], 0.5)

    assert (found.threshold, found.same_verdict) == (0.5, 1.0)


@pytest.mark.parametrize("repeats", [[], [[0.5]], [[0.5], [0.9]]])
def test_asked_once(repeats: list[list[float]]) -> None:
    """Where nothing was judged twice, nothing is said of it."""
    found = repeatability(repeats)

    assert found == Repeatability(examples=0, threshold=0.7, deviation=None, same_verdict=None)
