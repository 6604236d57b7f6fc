"""What every run has: its request and records, reviews by people, spending and budget."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]


class Frozen(BaseModel):
    """A value that never changes; an error about it names fields and never quotes the input."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Request(Frozen):
    """The one object that starts a workflow. Unknown fields are refused by name."""


class Bounded(Request):
    """A request whose run is bounded: in tokens, US dollars, seconds, tries and waiting."""

    budget_tokens: int | None = Field(None, ge=1, description="The most tokens, in and out.")
    budget_usd: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="The most US dollars."
    )
    budget_seconds: Seconds | None = Field(
        None, description="The most seconds, the wait for a person not counted."
    )
    max_attempts: int = Field(
        5, ge=1, le=100, description="Attempts at one call, retries included."
    )
    review_timeout_seconds: Seconds | None = Field(
        None, description="Seconds to wait for a person's review; no limit by default."
    )


class Record(Frozen):
    """A part of a history or a result.

    Fields of a newer version are ignored, so that an older worker or client still reads it.
    """

    model_config = ConfigDict(extra="ignore")


def explain(error: ValidationError) -> str:
    """Say in one line which fields are wrong and why, without quoting what was given."""
    return "; ".join(_explain(each["loc"], each["type"], each["msg"]) for each in error.errors())


def _explain(place: tuple[int | str, ...], kind: str, message: str) -> str:
    field = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"{field}: no such field"
    if kind == "missing":
        return f"{field}: missing"
    said = message.removeprefix("Value error, ")
    said = said.removeprefix("Input ").removeprefix("String ")
    return f"{field}: {said}" if field else said


REPLACEMENT_CHARACTERS = 100_000


class Review(Request):
    """A person's review: one of four actions, and who did it.

    `accept` takes the result as it is, `revise` says what to change, `replace` is a text to take
    instead, and `score` (0 to 1) is the person's own. `draft` is the index, from 0, of the draft
    that they looked at: if another one is under review meanwhile, the review is refused.
    """

    accept: bool = False
    revise: str | None = Field(None, min_length=1, max_length=4_000)
    replace: str | None = Field(None, min_length=1, max_length=REPLACEMENT_CHARACTERS)
    score: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    author: str | None = Field(None, min_length=1, max_length=200)
    draft: int | None = Field(None, ge=0)

    @property
    def action(self) -> str:
        """The name of the action."""
        given = {"revise": self.revise, "replace": self.replace, "score": self.score}
        return next((name for name, value in given.items() if value is not None), "accept")

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        given = [self.accept, *(x is not None for x in (self.revise, self.replace, self.score))]
        if sum(given) != 1:
            raise ValueError("give one of accept, revise, replace and score")
        if not (self.revise or self.replace or "x").strip():
            raise ValueError("give some text, not white space alone")
        return self


class Finish(Request):
    """A person's request to end a run with what there is."""

    author: str | None = Field(None, min_length=1, max_length=200)


def encoded_size(text: str) -> int:
    """Count the bytes of a text within the quotes of JSON, where a control character takes six."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def within(text: str, most: int) -> str:
    """Return a text of at most `most` bytes as JSON writes them. Raises ValueError."""
    size = encoded_size(text)
    if size > most:
        raise ValueError(f"{size:,} bytes exceed the limit of {most:,}")
    return text


def cut_encoded(text: str, most: int) -> str:
    """Keep the beginning of a text, so that it takes at most `most` bytes as JSON."""
    short = text[:most]
    while encoded_size(short) > most:
        short = short[: min(len(short) - 1, len(short) * most // encoded_size(short))]
    return short


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
    """Add up; one unknown value makes its sum unknown. The sums of nothing are 0."""
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


class Budget(NamedTuple):
    """The most that a run may spend: tokens in and out together, and US dollars. None: no bound."""

    tokens: int | None = None
    usd: float | None = None


class Room(NamedTuple):
    """How many of the wanted calls fit, and what holds back the others."""

    calls: int
    reason: str


def room(budget: Budget, spent: Sequence[Spending], wanted: int) -> Room:
    """Return how many of `wanted` calls fit in the budget after those in `spent`.

    Each is assumed to be as large as the largest so far, and so is a call without reported usage.
    Before the first call its size is unknown, so only one call is allowed. A limit on something
    that no reply reports can't be enforced: then nothing fits.
    """
    tokens = _fits("tokens", budget.tokens, [each.tokens for each in spent], wanted)
    dollars = _fits("US dollars", budget.usd, [each.cost_usd for each in spent], wanted)
    return min(tokens, dollars, key=lambda each: each.calls)


def refusal(budget: Budget, spent: Sequence[Spending], alike: Sequence[Spending]) -> str | None:
    """Explain why the next call does not fit; None if it does.

    It is assumed to be as large as the largest of the calls `alike`, or of all calls if there are
    none. So a budget is exceeded by at most one call, by as much as it is larger than assumed.
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
            0,
            f"the provider does not report {unit}, so a limit of {bound:,g} can't be enforced",
        )
    largest = max(known)
    used = sum(known) + largest * (len(spent) - len(known))
    left = bound - used
    calls = wanted if largest <= 0 < left else _times(left, largest)
    reason = f"{used:,.6g} of {bound:,g} {unit} are spent, and a call took up to {largest:,.6g}"
    return Room(max(0, min(wanted, calls)), reason)


def _times(left: float, size: float) -> int:
    return int(left / size + 1e-9) if size > 0 else 0
