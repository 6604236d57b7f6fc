"""The closed-form probabilities about votes that are not cast yet."""

import pytest

from mull.sampling.posterior import flip_probability, lead_probability, reach_probability


@pytest.mark.parametrize(
    ("found", "chance"),
    [
        (flip_probability(3, 0, 7), 1 / 33),
        (flip_probability(4, 1, 5), 37 / 924),
        (flip_probability(5, 2, 3), 1 / 33),
        (flip_probability(2, 2, 6), 1 / 2),
        (flip_probability(5, 5, 0), 1 / 2),
        (flip_probability(6, 4, 0), 0),
        (reach_probability(2, 5, 5, 0.8), 0.0),
        (reach_probability(3, 5, 5, 0.8), 56 / 462),
        (reach_probability(4, 5, 5, 0.8), 266 / 462),
        (reach_probability(5, 5, 5, 0.8), 434 / 462),
        (reach_probability(2, 2, 2, 1.0), 0.6),
        (reach_probability(2, 2, 2, 0.75), 0.9),
        (reach_probability(7, 10, 0, 0.7), 1.0),
        (reach_probability(7, 10, 0, 0.71), 0.0),
    ],
)
def test_chances_of_the_leader(found: float, chance: float) -> None:
    """To be overtaken, a final tie half of it, and to reach a share: both are Beta-binomial."""
    assert found == pytest.approx(chance, abs=1e-15)


@pytest.mark.parametrize(
    ("leader", "runner_up", "chance"), [(4, 0, 0.96875), (6, 1, 0.96484375), (3, 3, 0.5)]
)
def test_lead_probability(leader: int, runner_up: int, chance: float) -> None:
    """The probability of the lead is that of at most so many heads in one toss more."""
    assert lead_probability(leader, runner_up) == chance
