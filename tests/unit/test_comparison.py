"""What rules cost and how often they are right, side by side."""

import pytest

from reflection.convergence.replaying.comparison import compare, interval
from reflection.convergence.replaying.replay import Runs


def test_outcome() -> None:
    """An outcome has means over runs, the share saved of all calls, and the share right."""
    runs = [Runs(4, 40, 20, 8, 3), Runs(4, 40, 12, 6, 1)]

    outcome = compare({"beta": runs})["beta"]

    assert (outcome.calls, outcome.rounds, outcome.saved) == (4.0, 1.75, 0.6)
    assert outcome.accuracy == 0.5
    assert outcome.accuracy_ci is not None
    assert outcome.pareto is True


def test_accuracy_where_somebody_knows() -> None:
    """Questions of which nobody knows what is right count for calls and not for accuracy."""
    runs = [Runs(2, 20, 10, 4, 1), Runs(2, 20, 20, 4, None)]

    outcome = compare({"beta": runs})["beta"]

    assert (outcome.calls, outcome.accuracy) == (7.5, 0.5)


def test_nobody_knows() -> None:
    """Without any accuracy there is no interval, and no Pareto front."""
    outcome = compare({"beta": [Runs(2, 20, 10, 4, None)]})["beta"]

    assert (outcome.accuracy, outcome.accuracy_ci, outcome.pareto) == (None, None, None)


@pytest.mark.parametrize(
    ("costs", "front"),
    [
        ({"a": (30, 7), "b": (50, 8), "c": (50, 7), "d": (100, 8)}, {"a", "b"}),
        ({"a": (30, 7), "b": (30, 7)}, {"a", "b"}),
        ({"a": (30, 7), "b": (30, 8)}, {"b"}),
        ({"a": (30, 7), "b": (40, 7)}, {"a"}),
        ({"a": (30, 9), "b": (40, 8), "c": (50, 7)}, {"a"}),
        ({"a": (30, 0), "b": (40, 5), "c": (50, 10)}, {"a", "b", "c"}),
    ],
)
def test_pareto_front(costs: dict[str, tuple[int, int]], front: set[str]) -> None:
    """A rule is on the front unless another is no worse in both, and better in one."""
    runs = {name: [Runs(10, 100, calls, 10, right)] for name, (calls, right) in costs.items()}

    outcomes = compare(runs)

    assert {name for name, outcome in outcomes.items() if outcome.pareto} == front


@pytest.mark.parametrize(
    ("shares", "low", "high"),
    [
        ([0.0] * 100, 0.0, 0.036993),
        ([1.0] * 100, 0.963007, 1.0),
        ([1.0] * 50 + [0.0] * 50, 0.403365, 0.596635),
        ([1.0] * 90 + [0.0] * 10, 0.825184, 0.944934),
        ([0.6, 0.4] * 50, 0.480317, 0.519683),
        ([1.0], 0.206549, 1.0),
        ([0.5], 0.054621, 0.945379),
    ],
)
def test_interval(shares: list[float], low: float, high: float) -> None:
    """The interval is Wilson's, with the number of runs that varies as the questions do."""
    found = interval(shares)

    assert found == pytest.approx((low, high), abs=1e-6)


def test_reorderings_do_not_narrow_the_interval() -> None:
    """A question counts once: its orderings, however many, are one share of right runs."""
    few = compare({"beta": [Runs(1, 10, 5, 2, right) for right in (0, 1, 1, 0, 1)]})
    many = compare({"beta": [Runs(40, 400, 200, 80, 40 * right) for right in (0, 1, 1, 0, 1)]})

    assert few["beta"].accuracy_ci == many["beta"].accuracy_ci
