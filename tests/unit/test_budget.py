"""What still fits into a budget."""

import pytest

from reflection.run import Budget, Spending, room


def spent(tokens: int | None, usd: float | None = None) -> Spending:
    return Spending(calls=1, input_tokens=tokens, output_tokens=0, cost_usd=usd)


@pytest.mark.parametrize(
    ("budget", "calls", "wanted", "fits"),
    [
        (Budget(), [], 5, 5),
        (Budget(tokens=1_000), [], 5, 1),
        (Budget(tokens=1_000), [spent(100)], 5, 5),
        (Budget(tokens=350), [spent(100)], 5, 2),
        (Budget(tokens=350), [spent(50), spent(150)], 5, 1),
        (Budget(tokens=300), [spent(100), spent(100), spent(100)], 5, 0),
        (Budget(tokens=300), [spent(400)], 5, 0),
        (Budget(tokens=400), [spent(100), spent(None)], 5, 2),
        (Budget(tokens=400), [spent(None)], 5, 0),
        (Budget(usd=0.05), [spent(100, 0.01)], 5, 4),
        (Budget(usd=0.05), [spent(100, None)], 5, 0),
        (Budget(usd=0.05), [spent(100, 0.0)], 5, 5),
        (Budget(tokens=1_000, usd=0.03), [spent(100, 0.01)], 5, 2),
    ],
)
def test_as_many_calls_fit_as_the_largest_so_far_allows(
    budget: Budget, calls: list[Spending], wanted: int, fits: int
) -> None:
    """Each call is taken to be as large as the largest so far; the first goes alone."""
    found = room(budget, calls, wanted)

    assert found.calls == fits
    assert found.reason or fits == wanted
