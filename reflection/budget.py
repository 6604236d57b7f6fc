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


def refusal(budget: Budget, spent: Sequence[Spending], alike: Sequence[Spending]) -> str | None:
    """Say why the next call does not fit; None where it does.

    It is taken to be as large as the largest of the calls `alike`, or of all where there was none
    like it. So a budget is overrun by one call at the most, by as much as that one is larger.
    """
    tokens = _refused("tokens", budget.tokens, [x.tokens for x in spent], [x.tokens for x in alike])
    costs, like = [each.cost_usd for each in spent], [each.cost_usd for each in alike]
    return tokens or _refused("US dollars", budget.usd, costs, like)


def _refused(
    unit: str,
    bound: float | None,
    spent: Sequence[float | None],
    alike: Sequence[float | None],
) -> str | None:
    fits = _fits(unit, bound, spent, 1)
    known = [each for each in alike if each is not None]
    if bound is None or not known:
        return None if fits.calls else fits.reason
    largest = max(each for each in spent if each is not None)
    used = sum(largest if each is None else each for each in spent)
    if used + max(known) <= bound + 1e-9:
        return None
    took = f"a call like the next took up to {max(known):,.6g}"
    return f"{used:,.6g} of {bound:,g} {unit} are spent, and {took}"


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
