"""Budgets: what still fits, by the largest call so far."""

from collections.abc import Sequence
from typing import NamedTuple

from reflection.usage import Spending


class Budget(NamedTuple):
    """The most that a run may spend: tokens in and out together, and US dollars. None: no bound."""

    tokens: int | None = None
    usd: float | None = None


class Room(NamedTuple):
    """How many of the wanted calls fit, and what holds back the others."""

    calls: int
    reason: str


def room(budget: Budget, spent: Sequence[Spending], wanted: int) -> Room:
    """Tell how many of `wanted` calls fit after those of `spent`.

    Each is taken to be as large as the largest so far, and so is a call that reported nothing.
    Before the first call nothing is known of its size, so that one call alone is let through.
    A bound on what no reply reports can't be kept to: then nothing fits.
    """
    tokens = _fits("tokens", budget.tokens, [each.tokens for each in spent], wanted)
    dollars = _fits("US dollars", budget.usd, [each.cost_usd for each in spent], wanted)
    return min(tokens, dollars, key=lambda each: each.calls)


def _fits(unit: str, bound: float | None, spent: Sequence[float | None], wanted: int) -> Room:
    if bound is None:
        return Room(wanted, "")
    if not spent:
        return Room(min(wanted, 1), "the first call shows how large a call is")
    known = [each for each in spent if each is not None]
    if not known:
        return Room(
            0, f"the provider does not report {unit}, so {bound:,g} {unit} can't be kept to"
        )
    largest = max(known)
    used = sum(known) + largest * (len(spent) - len(known))
    left = bound - used
    calls = wanted if largest <= 0 < left else _times(left, largest)
    reason = f"{used:,.6g} of {bound:,g} {unit} are spent, and a call took up to {largest:,.6g}"
    return Room(max(0, min(wanted, calls)), reason)


def _times(left: float, size: float) -> int:
    return int(left / size + 1e-9) if size > 0 else 0
