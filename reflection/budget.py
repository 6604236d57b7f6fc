"""Budgets: what still fits, by the largest call so far."""

from typing import NamedTuple

from reflection.usage import Spending


class Budget(NamedTuple):
    """The most that a run may spend: tokens in and out together, and US dollars. None: no bound."""

    tokens: int | None = None
    usd: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is any bound."""
        return self.tokens is not None or self.usd is not None


class Room(NamedTuple):
    """How many of the wanted calls fit, and what holds back the others."""

    calls: int
    reason: str


def room(budget: Budget, spent: Spending, largest: Spending | None, wanted: int) -> Room:
    """Tell how many of `wanted` calls fit, if each is as large as the largest so far.

    Before the first call nothing is known of its size, so that one call alone is let through.
    A bound on something that the provider does not report can't be kept: then nothing fits.
    """
    if not budget.bounded:
        return Room(wanted, "")
    if largest is None:
        return Room(min(wanted, 1), "the first call shows how large a call is")
    by_tokens = _fits("tokens", budget.tokens, spent.tokens, largest.tokens, wanted)
    by_usd = _fits("US dollars", budget.usd, spent.cost_usd, largest.cost_usd, wanted)
    return min(by_tokens, by_usd, key=lambda each: each.calls)


def _fits(
    unit: str, bound: float | None, spent: float | None, largest: float | None, wanted: int
) -> Room:
    if bound is None:
        return Room(wanted, "")
    if spent is None or largest is None:
        return Room(
            0, f"the provider does not report {unit}, so {bound:,g} {unit} can't be kept to"
        )
    left = bound - spent
    calls = wanted if largest <= 0 and left > 0 else max(0, _times(left, largest))
    reason = f"{spent:,.6g} of {bound:,g} {unit} are spent, and a call took up to {largest:,.6g}"
    return Room(min(wanted, calls), reason)


def _times(left: float, size: float) -> int:
    return int(left / size + 1e-9) if size > 0 else 0
