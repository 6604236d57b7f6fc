"""The closed-form probabilities about votes that are not cast yet."""

from fractions import Fraction

import pytest

from mull.sampling.posterior import flip_probability, lead_probability, reach_probability


@pytest.mark.parametrize(
    ("leader", "runner_up", "left", "chance"),
    [
        (3, 0, 7, Fraction(1, 33)),
        (4, 1, 5, Fraction(37, 924)),
        (5, 2, 3, Fraction(1, 33)),
        (2, 2, 6, Fraction(1, 2)),
        (5, 5, 0, Fraction(1, 2)),
        (6, 4, 0, Fraction(0)),
    ],
)
def test_flip_probability(leader: int, runner_up: int, left: int, chance: Fraction) -> None:
    """The probability that the leader is overtaken is Beta-binomial, a final tie half of it."""
    assert flip_probability(leader, runner_up, left) == pytest.approx(float(chance), abs=1e-15)


@pytest.mark.parametrize(
    ("leader", "runner_up", "chance"), [(4, 0, 0.96875), (6, 1, 0.96484375), (3, 3, 0.5)]
)
def test_lead_probability(leader: int, runner_up: int, chance: float) -> None:
    """The probability of the lead is that of at most so many heads in one toss more."""
    assert lead_probability(leader, runner_up) == chance


@pytest.mark.parametrize(
    ("leader", "votes", "left", "share", "chance"),
    [
        (2, 5, 5, 0.8, 0.0),
        (3, 5, 5, 0.8, 56 / 462),
        (4, 5, 5, 0.8, 266 / 462),
        (5, 5, 5, 0.8, 434 / 462),
        (2, 2, 2, 1.0, 0.6),
        (2, 2, 2, 0.75, 0.9),
        (7, 10, 0, 0.7, 1.0),
        (7, 10, 0, 0.71, 0.0),
    ],
)
def test_reach_probability(leader: int, votes: int, left: int, share: float, chance: float) -> None:
    """The probability that the leader reaches a share at the end is Beta-binomial."""
    assert reach_probability(leader, votes, left, share) == pytest.approx(chance, abs=1e-15)
