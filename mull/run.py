"""What every run has: decisions, spending, budget and warnings."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

from pydantic import Field

from mull.request import OUTPUT_TOKENS, THINKING_TOKENS, Bounded, Record, Review
from mull.text import Shown, encoded_size, fitted, tally_words, usd

StopReasonT = TypeVar("StopReasonT", bound=str)

# Why a bound can't be kept.
NO_TOKENS = "the provider does not report tokens"
NO_PRICE = "the model's price is unknown, so bound its tokens by budget_tokens"
# In binary floating point 0.55 - 0.40 is above 0.15, and 0.1 + 0.2 above 0.3.
TOLERANCE = 1e-9


def at_least(value: float, bound: float) -> bool:
    """Tell whether `value` reaches `bound`, forgiving the rounding of floats."""
    return value >= bound - TOLERANCE


def at_most(value: float, bound: float) -> bool:
    """Tell whether `value` stays within `bound`, forgiving the rounding of floats."""
    return value <= bound + TOLERANCE


def above(value: float, bound: float) -> bool:
    """Tell whether `value` exceeds `bound` by more than the rounding of floats."""
    return not at_most(value, bound)


class Ruling(NamedTuple, Generic[StopReasonT]):
    """The outcome of a rule: a stop reason, or None to go on; why; and what it compared."""

    stop_reason: StopReasonT | None = None
    reason: str = ""
    value: float | None = None
    bound: float | None = None

    @property
    def stop(self) -> bool:
        """Whether the run ends."""
        return self.stop_reason is not None


Part = Literal["generating", "evaluating", "revising", "retried", "cancelled"]


class Spending(Record):
    """What some calls of a model cost.

    Tokens are counts; `cached_tokens` is the share of `input_tokens` that the provider served
    from its own prompt cache; `cost_usd` is in US dollars. None: the provider did not say.
    """

    calls: Annotated[int, Shown("calls|number")] = 0
    input_tokens: Annotated[int | None, Shown("tokens in|number", none="unknown")] = None
    output_tokens: Annotated[int | None, Shown("tokens out|number", none="unknown")] = None
    cached_tokens: Annotated[int | None, Shown("cached|number", none="unknown")] = None
    cost_usd: Annotated[float | None, Shown("cost|number", usd, "unknown")] = None

    @property
    def tokens(self) -> int | None:
        """Tokens in and out together, or None where either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


def total(spendings: Iterable[Spending]) -> Spending:
    """Add up; one unknown value makes its sum unknown. The sums of nothing are 0."""
    listed = list(spendings)
    sums = {
        name: None if None in values else sum(values)
        for name in Spending.model_fields
        for values in [[getattr(spending, name) for spending in listed]]
    }
    return Spending(**sums)


class Usage(Spending):
    """The spending of a whole run.

    The totals cover every reply that was recorded (generating, evaluating and, where a run revises,
    revising). `retried` and `cancelled` count the calls that ended without a reply: what the
    provider charged for them is unknown.
    """

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int | None = 0
    cost_usd: float | None = 0.0
    parts: dict[Part, Spending] = Field(default_factory=dict)


def usage(spent: Mapping[Part, Iterable[Spending]], retried: int, cancelled: int) -> Usage:
    """Sum up a run by parts; `retried` and `cancelled` are numbers of calls without a reply."""
    parts = {part: total(spendings) for part, spendings in spent.items()}
    whole = total(parts.values())
    parts["retried"] = Spending(calls=retried) if retried else total([])
    parts["cancelled"] = Spending(calls=cancelled) if cancelled else total([])
    return Usage(**whole.model_dump(), parts=parts)


def add_usage(one: Usage, other: Usage) -> Usage:
    """Add up the spending of two runs, in all and by part."""
    parts: dict[Part, Spending] = dict(one.parts)
    for part, spending in other.parts.items():
        parts[part] = total([parts[part], spending]) if part in parts else spending
    return Usage(**total([one, other]).model_dump(), parts=parts)


class Budget(NamedTuple):
    """The most that a run may spend: tokens in and out together, and US dollars. None: no bound."""

    tokens: int | None = None
    usd: float | None = None


class Room(NamedTuple):
    """How many of the wanted calls fit, and what holds back the others."""

    calls: int
    reason: str


# Cautious: a token has about 4 bytes of English, and 3 or more of nearly every other script.
BYTES_A_TOKEN = 3
INSTRUCTION_TOKENS = 600


def call_tokens(texts: Iterable[str], limit: int | None) -> int:
    """Estimate the most tokens of a call, by the texts in its prompt and its output limit.

    If a limit is None, the worker sets it, and that of a model that thinks is assumed here.
    """
    shown = sum(map(encoded_size, texts)) // BYTES_A_TOKEN
    return shown + INSTRUCTION_TOKENS + (limit or THINKING_TOKENS)


def likely(
    spent: Sequence[Spending], alike: Sequence[Spending] = (), expected: int | None = None
) -> Spending:
    """Assume what a call takes: as much as the largest one of those alike, or of all in `spent`.

    It takes at most `expected` tokens. None where no reply reported any.
    """
    tokens, cost = (
        max(_known(name, alike) or _known(name, spent), default=None)
        for name in ("tokens", "cost_usd")
    )
    if tokens is not None and expected is not None:
        tokens = min(tokens, expected)
    # A limit is on tokens in and out together.
    return Spending(calls=1, input_tokens=tokens, output_tokens=0, cost_usd=cost)


def _known(name: str, calls: Sequence[Spending]) -> list[Any]:
    return [size for call in calls if (size := getattr(call, name)) is not None]


def room(
    budget: Budget,
    spent: Sequence[Spending],
    wanted: int,
    alike: Sequence[Spending] = (),
    what: str = "call",
    expected: int | None = None,
) -> Room:
    """Return how many of `wanted` calls fit in the budget after those in `spent`.

    Each is assumed to be as large as the largest of the calls `alike`, or of all so far if there
    are none, but not larger than `expected` tokens; and a call without reported usage as large as
    the largest so far. Before the first call its size is unknown, so only one call is allowed. A
    limit on something that no reply reports can't be kept: then nothing fits. `what` names a
    call in the reason.
    """
    call = likely(spent, alike, expected)
    took = f"a {what}{' like the next' if alike else ''} took up to"
    if expected is not None and call.tokens == expected:
        took = f"the next {what} may take up to"
    tokens, costs = [one.tokens for one in spent], [one.cost_usd for one in spent]
    return min(
        room_for("tokens", budget.tokens, tokens, wanted, call.tokens, what, took),
        room_for("US dollars", budget.usd, costs, wanted, call.cost_usd, what, took),
        key=lambda fits: fits.calls,
    )


def room_for(
    unit: str,
    bound: float | None,
    spent: Sequence[float | None],
    wanted: int,
    size: float | None,
    what: str,
    took: str,
) -> Room:
    """Return how many of `wanted` calls of this size fit one bound, after those that were spent."""
    if bound is None:
        return Room(wanted, "")
    if not spent:
        return Room(min(wanted, 1), f"the first {what} shows how large a {what} is")
    known = [one for one in spent if one is not None]
    in_dollars = unit == "US dollars"
    shown: Any = usd if in_dollars else "{:,}".format
    most = usd(bound) if in_dollars else tally_words(int(bound), "token")
    if not known or size is None:
        why = NO_PRICE if in_dollars else NO_TOKENS
        return Room(0, f"a limit of {most} can't be kept: {why}")
    used = sum(known) + max(known) * (len(spent) - len(known))
    calls = int((bound - used) / size + TOLERANCE) if size > 0 else wanted * (used < bound)
    said = f"{shown(used)} of {most} are spent, and {took} {shown(size)}"
    return Room(max(0, min(wanted, calls)), said)


class Counts(Record):
    """How runs ended, with their known tokens and US dollars, and those of the largest run."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    not_started: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unknown_tokens: int = 0
    unknown_usd: int = 0
    largest_tokens: int | None = None
    largest_usd: float | None = None

    def __add__(self, other: "Counts") -> "Counts":
        sums = dict[str, Any]()
        for name, mine in self:
            known = [size for size in (mine, getattr(other, name)) if size is not None]
            sums[name] = max(known, default=None) if name.startswith("largest") else sum(known)
        return Counts(**sums)

    @property
    def total(self) -> int:
        """The number of runs."""
        return self.completed + self.failed + self.cancelled + self.not_started

    @classmethod
    def of(cls, costs: Sequence[tuple[int | None, float | None]], **ended: int) -> Self:
        """Count what runs took, in tokens and US dollars, of which so many `ended` in each way."""
        tokens = [known for known, _ in costs if known is not None]
        dollars = [known for _, known in costs if known is not None]
        return cls(
            **ended,
            tokens=sum(tokens),
            cost_usd=fsum(dollars),
            unknown_tokens=len(costs) - len(tokens),
            unknown_usd=len(costs) - len(dollars),
            largest_tokens=max(tokens, default=None),
            largest_usd=max(dollars, default=None),
        )

    def no_room(self, budget: Budget, in_flight: int) -> str | None:
        """Explain why one more run does not fit a budget, beside those in flight; None if it does.

        A run without a result is assumed to cost as much as the largest. Until one has a result
        the size of a run is unknown, so runs are made one at a time.
        """
        if budget == Budget():
            return None
        if not self.completed:
            return "the first run shows how large a run is" if in_flight else None
        for unit, bound, known, unknown, largest in (
            ("tokens", budget.tokens, self.tokens, self.unknown_tokens, self.largest_tokens),
            ("US dollars", budget.usd, self.cost_usd, self.unknown_usd, self.largest_usd),
        ):
            spent = None if largest is None else known + largest * (unknown + in_flight)
            room = room_for(unit, bound, [spent], 1, largest, "run", "a run took up to")
            if not room.calls:
                return room.reason
        return None


class Decided(Record):
    """What every decision says: whether it ends the run, and why; `author` is who made it, `at`."""

    stop: bool
    stop_reason: str | None
    reason: str
    author: str | None = None
    at: datetime | None = None


DecisionT = TypeVar("DecisionT", bound=Decided)


@dataclass
class RunState(ABC, Generic[DecisionT]):
    """What the state of every loop has: decisions, warnings, and the spending by part.

    `retried` and `cancelled` count the calls that ended without a reply.
    """

    record_type: ClassVar[type[Any]]

    request: Bounded
    decisions: list[DecisionT] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    spent: dict[Part, list[Spending]] = field(
        default_factory=lambda: {"generating": [], "evaluating": []}
    )
    retried: int = 0
    cancelled: int = 0

    @property
    def last(self) -> DecisionT | None:
        """The newest decision."""
        return self.decisions[-1] if self.decisions else None

    @property
    def stopped(self) -> bool:
        """Whether the newest decision ends the run."""
        return self.last is not None and self.last.stop

    @property
    @abstractmethod
    def model(self) -> str | None:
        """The model that replied last, or that the request names."""

    @property
    def subject(self) -> str:
        """The question, query or prompt."""
        subject: str = getattr(self.request, self.request.subject_field)
        return subject

    @property
    def budget(self) -> Budget:
        """What the request allows."""
        return Budget(self.request.budget_tokens, self.request.budget_usd)

    @property
    def every_spending(self) -> list[Spending]:
        """The spending of each reply, part by part."""
        return [spending for spendings in self.spent.values() for spending in spendings]

    @property
    def used(self) -> Usage:
        """What was spent so far, in all and by part."""
        return usage(self.spent, self.retried, self.cancelled)

    def record(self, **under_way: Any) -> Any:
        """Say what is seen of the run: its result, or what that would be now.

        `under_way` are the fields that are empty in the end: `step`, `in_flight` and so on.
        """
        last = self.last if self.stopped else None
        return self.record_type(
            model=self.model,
            usage=self.used,
            decisions=tuple(self.decisions),
            stop_reason=last.stop_reason if last else None,
            stop_explanation=last.reason if last else "",
            warnings=tuple(self.warnings),
            **self._shown(),
            **under_way,
        )

    def result(self) -> Any:
        """Return the record of a run that has ended, cut to an event. Raises ValueError before."""
        if not self.stopped:
            raise ValueError("the run has not ended")
        return fitted(self.record())

    @abstractmethod
    def _shown(self) -> dict[str, Any]:
        """List the fields of the record that are the loop's own."""

    @abstractmethod
    def stop(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None
    ) -> DecisionT:
        """End the run, or wait if a person has to review the result first."""

    @abstractmethod
    def settle(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None
    ) -> DecisionT:
        """End the run, by what a person said of the result."""

    @abstractmethod
    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused; None if it is accepted."""

    def no_room(self, part: Part) -> str | None:
        """Explain why the budget has no room for the next call of a part; None if it has.

        A revision has room where its judging has, too. A budget is exceeded by at most one call,
        by as much as it is larger than assumed.
        """
        spent, alike, expected = self.every_spending, self.spent[part], self._expected(part)
        fits = room(self.budget, spent, 1, alike, expected=expected)
        judges = self.judges if part == "revising" and fits.calls else 0
        if judges:
            spent = [*spent, likely(spent, alike, expected)]
            alike, expected = self.spent["evaluating"], self._expected("evaluating")
            fits = room(self.budget, spent, judges, alike, expected=expected)
        if fits.calls >= max(judges, 1):
            return None
        return f"with a revision, {fits.reason} to judge it" if judges else fits.reason

    @property
    def judges(self) -> int:
        """The calls that judge a draft; without them there is no use in revising one."""
        return 0

    def _expected(self, part: Part) -> int | None:
        """Estimate the tokens of the first call of a part; None where none has to be."""
        known = self.budget.tokens is None or self.spent[part]
        return None if known else call_tokens(*self.prompt(part))

    def prompt(self, part: Part) -> tuple[list[str], int | None]:
        """List the texts in the prompt of a part's next call, and give its output limit, if set."""
        del part  # for loops whose calls differ
        return [self.subject], OUTPUT_TOKENS

    def pay(self, part: Part, spending: Spending | None, attempts: int) -> None:
        """Count a reply, and the failed attempts before it."""
        self.retried += attempts - (spending is not None)
        if spending is not None:
            self.spent[part].append(spending)
            if self.budget.usd is not None and spending.calls and spending.cost_usd is None:
                said = f"the price of a call for {part} is unknown"
                self.warn(f"{said}: budget_usd counts it as the dearest call so far")

    def lose(self, calls: int) -> None:
        """Count calls that were cancelled before their reply came."""
        self.cancelled += calls

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def left_out(self, names: Iterable[str]) -> None:
        """Warn about parameters that were not sent, unless it is a default temperature."""
        for name in names:
            if name != "temperature" or name in self.request.model_fields_set:
                self.warn(f"{name} was not sent: the model refused it, or LiteLLM does not list it")
