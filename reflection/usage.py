"""What a run spent, in parts. Unknown is None, never 0."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from reflection.request import Record

Part = Literal["retrieving", "generating", "evaluating", "revising", "retried", "cancelled"]


class Spending(Record):
    """What some calls of a model cost.

    Tokens are counts; `cached_tokens` is the share of `input_tokens` that the provider served
    from its own prompt cache; `cost_usd` is in US dollars. None: the provider did not say.
    """

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def tokens(self) -> int | None:
        """Tokens in and out together, or None where either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


def total(spendings: Iterable[Spending]) -> Spending:
    """Add up, where one unknown makes its sum unknown. Of nothing at all the sums are 0."""
    listed = list(spendings)
    return Spending(
        calls=sum(each.calls for each in listed),
        input_tokens=_add([each.input_tokens for each in listed]),
        output_tokens=_add([each.output_tokens for each in listed]),
        cached_tokens=_add([each.cached_tokens for each in listed]),
        cost_usd=_add_usd([each.cost_usd for each in listed]),
    )


def _add(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _add_usd(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class Usage(Record):
    """The spending of a whole run.

    The totals cover every reply that was recorded (generating, evaluating and, where a run revises,
    revising, where it searches by meaning, retrieving). `retried` and `cancelled` count the calls
    that ended without a reply: what the provider charged for those is not known to anyone here.
    """

    calls: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int | None = 0
    cost_usd: float | None = 0.0
    parts: dict[Part, Spending] = Field(default_factory=dict)

    @property
    def tokens(self) -> int | None:
        """Tokens in and out together, or None where either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


def usage(
    generating: Iterable[Spending],
    evaluating: Iterable[Spending],
    retried: int,
    cancelled: int,
    revising: Iterable[Spending] | None = None,
    retrieving: Iterable[Spending] | None = None,
) -> Usage:
    """Sum up a run by parts; `retried` and `cancelled` are numbers of calls without a reply."""
    replied: dict[Part, Spending] = {} if retrieving is None else {"retrieving": total(retrieving)}
    replied |= {"generating": total(generating), "evaluating": total(evaluating)}
    if revising is not None:
        replied["revising"] = total(revising)
    return Usage(
        **total(replied.values()).model_dump(),
        parts={**replied, "retried": _unanswered(retried), "cancelled": _unanswered(cancelled)},
    )


def _unanswered(calls: int) -> Spending:
    return Spending(calls=calls) if calls else total([])
