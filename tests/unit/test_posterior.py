"""The closed-form probabilities about votes that are not cast yet."""

from fractions import Fraction
from math import comb

import pytest

from reflection.sampling.posterior import (
    beta_binomial_ways,
    flip_probability,
    lead_probability,
    reach_probability,
)


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


def test_probabilities_of_a_thousand_answers() -> None:
    """At the greatest allowance no probability overflows or leaves 0 to 1."""
    found = [
        flip_probability(500, 499, 1),
        flip_probability(0, 0, 1000),
        lead_probability(1000, 0),
        lead_probability(600, 600),
        reach_probability(1, 5, 995, 0.8),
    ]

    assert all(0.0 <= chance <= 1.0 for chance in found)
    assert found[1] == found[3] == 0.5


@pytest.mark.parametrize(("calls", "alpha", "beta"), [(0, 1, 1), (1, 2, 3), (7, 1, 4), (12, 5, 2)])
def test_beta_binomial_ways(calls: int, alpha: int, beta: int) -> None:
    """The ways are those of the Beta-binomial distribution, and together all there are."""
    found = list(beta_binomial_ways(calls, alpha, beta))

    assert found == [
        comb(k + alpha - 1, k) * comb(calls - k + beta - 1, calls - k) for k in range(calls + 1)
    ]
    assert sum(found) == comb(calls + alpha + beta - 1, calls)


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
