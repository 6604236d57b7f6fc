"""What every run has: its request and records, reviews by people, spending and budget."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import to_json

from reflection.text import cut_encoded, cut_with_note, encoded_size

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

    model: ModelName | None = Field(None, description="Any LiteLLM name; else the worker's own.")
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

    @property
    def draft_bytes(self) -> int:
        """The size in bytes to which a draft is cut."""
        raise NotImplementedError


class Record(Frozen):
    """A part of a history or a result.

    Fields of a newer version are ignored, so that an older worker or client still reads it.
    """

    model_config = ConfigDict(extra="ignore")


StopReasonT = TypeVar("StopReasonT", bound=str)


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


# The largest event is 512 KiB.
RESULT_BYTES = 500_000
SHORTEST_CUT = 200
TOO_LARGE = "texts over {most:,} bytes, and long lists, were cut to keep this result small"
RecordT = TypeVar("RecordT", bound=Record)

MOST_ERRORS = 20
ERRORS_BYTES = 3_500
NAME_CHARACTERS = 80
MOST_MEMBERS = 1_000


def explain(error: ValueError) -> str:
    """Say in one line which fields are wrong and why, without quoting what was given.

    At most 20 errors are listed, in at most 3,500 bytes.
    """
    if not isinstance(error, ValidationError):
        return str(error)
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    said = [_explain(one["loc"], one["type"], one["msg"]) for one in errors[:MOST_ERRORS]]
    if len(errors) > MOST_ERRORS:
        said.append(f"and {len(errors) - MOST_ERRORS:,} more")
    return cut_encoded("; ".join(said), ERRORS_BYTES)


def _explain(place: tuple[int | str, ...], kind: str, message: str) -> str:
    field = ".".join(short_name(str(part)) for part in place)
    if kind == "extra_forbidden":
        return f"{field}: no such field"
    if kind == "missing":
        return f"{field}: missing"
    said = message.removeprefix("Value error, ")
    said = said.removeprefix("Input ").removeprefix("String ")
    return f"{field}: {said}" if field else said


def short_name(name: str) -> str:
    """Cut a name that somebody gave to one line of at most 80 characters."""
    line = " ".join(name[: 2 * NAME_CHARACTERS].split())
    return line if len(line) <= NAME_CHARACTERS else f"{line[: NAME_CHARACTERS - 1]}…"


def parse_request(kind: Any, data: bytes | str) -> Any:
    """Read a request of this type from JSON, where `true` is no number and "5" no integer.

    5.0 is an integer, as JSON means it. Raises ValueError, and its subclass ValidationError.
    """
    try:
        given = json.loads(data, object_pairs_hook=_members, parse_float=_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("not valid JSON") from None
    return TypeAdapter(kind).validate_json(json.dumps(given), strict=True)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(pairs) > MOST_MEMBERS:
        raise ValueError(f"an object has {len(pairs):,} members; at most {MOST_MEMBERS:,} are read")
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{short_name(name)}: stands twice in one object")
        members[name] = value
    return members


def _number(written: str) -> float | int:
    number = float(written)
    return int(number) if number.is_integer() else number


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


def fitted(result: RecordT, whole: str) -> RecordT:
    """Cut the longest texts of a result, but for the one named `whole`, to fit an event.

    Where that is not enough, early decisions and responses are left out. `warnings` says so.
    """
    data: dict[str, Any] = result.model_dump(mode="json")
    kept, said, most = data[whole], data["warnings"], 64_000
    while len(to_json(data)) > RESULT_BYTES and most > SHORTEST_CUT:
        most = most * 3 // 4
        data = {**_shortened(data, most), whole: kept}
        data["warnings"] = [*said, TOO_LARGE.format(most=most)]
    for name, count in (("decisions", 100), ("responses", 500)):
        if len(to_json(data)) > RESULT_BYTES and name in data:
            data[name] = data[name][-count:]
    return result if most == 64_000 else type(result).model_validate(data)


def _shortened(value: Any, most: int) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(inner, most) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shortened(inner, most) for inner in value]
    return cut_with_note(value, most) if isinstance(value, str) else value


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
    sums = {
        name: None if None in values else sum(values)
        for name in Spending.model_fields
        for values in [[getattr(spending, name) for spending in listed]]
    }
    return Spending(**sums)


class Usage(Spending):
    """The spending of a whole run.

    The totals cover every reply that was recorded (generating, evaluating and, where a run revises,
    revising, where it searches by meaning, retrieving). `retried` and `cancelled` count the calls
    that ended without a reply: what the provider charged for those is not known to anyone here.
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


def call_tokens(texts: Iterable[str], limit: int) -> int:
    """Estimate the most tokens of a call, by the texts in its prompt and its output limit."""
    return sum(map(encoded_size, texts)) // BYTES_A_TOKEN + INSTRUCTION_TOKENS + limit


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
    limit on something that no reply reports can't be enforced: then nothing fits. `what` names a
    call in the reason.
    """
    call = likely(spent, alike, expected)
    took = f"a {what}{' like the next' if alike else ''} took up to"
    if expected is not None and call.tokens == expected:
        took = f"the next {what} may take up to"
    tokens, costs = [one.tokens for one in spent], [one.cost_usd for one in spent]
    return min(
        _fits("tokens", budget.tokens, tokens, wanted, call.tokens, what, took),
        _fits("US dollars", budget.usd, costs, wanted, call.cost_usd, what, took),
        key=lambda fits: fits.calls,
    )


def _fits(
    unit: str,
    bound: float | None,
    spent: Sequence[float | None],
    wanted: int,
    size: float | None,
    what: str,
    took: str,
) -> Room:
    if bound is None:
        return Room(wanted, "")
    if not spent:
        return Room(min(wanted, 1), f"the first {what} shows how large a {what} is")
    known = [one for one in spent if one is not None]
    if not known or size is None:
        unseen = f"the provider does not report {unit}"
        return Room(0, f"{unseen}, so a limit of {bound:,g} can't be enforced")
    used = sum(known) + max(known) * (len(spent) - len(known))
    calls = wanted if used < bound else 0
    if size > 0:
        calls = int((bound - used) / size + 1e-9)
    said = f"{used:,.6g} of {bound:,g} {unit} are spent, and {took} {size:,.6g}"
    return Room(max(0, min(wanted, calls)), said)


class Drafted(Protocol):
    """A draft of any loop."""

    @property
    def index(self) -> int:
        """Its place among the drafts, from 0."""

    @property
    def model(self) -> str | None:
        """The model that wrote it."""


class Decided(Protocol):
    """A decision of any loop."""

    @property
    def stop(self) -> bool:
        """Whether it ends the run."""


DecisionT = TypeVar("DecisionT", bound=Decided)
DraftT = TypeVar("DraftT", bound=Drafted)


@dataclass
class RunState(Generic[DecisionT]):
    """What the state of every loop has: decisions, warnings, and the spending by part.

    `retried` and `cancelled` count the calls that ended without a reply.
    """

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

    def stop(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None
    ) -> DecisionT:
        """End the run, or wait if a person has to review the result first."""
        raise NotImplementedError

    def settle(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None
    ) -> DecisionT:
        """End the run, by what a person said of the result."""
        raise NotImplementedError

    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused; None if it is accepted."""
        raise NotImplementedError

    def no_room(self, part: Part) -> str | None:
        """Explain why the budget has no room for the next call of a part; None if it has.

        A revision has room where its judging has, too. A budget is exceeded by at most one call,
        by as much as it is larger than assumed.
        """
        spent, alike, expected = self.every_spending, self._alike(part), self._expected(part)
        fits = room(self.budget, spent, 1, alike, expected=expected)
        judges = self.judges if part == "revising" and fits.calls else 0
        if judges:
            spent = [*spent, likely(spent, alike, expected)]
            alike, expected = self._alike("evaluating"), self._expected("evaluating")
            fits = room(self.budget, spent, judges, alike, expected=expected)
        if fits.calls >= max(judges, 1):
            return None
        return f"with a revision, {fits.reason} to judge it" if judges else fits.reason

    @property
    def judges(self) -> int:
        """The calls that judge a draft; without them there is no use in revising one."""
        return 0

    def _alike(self, part: Part) -> Sequence[Spending]:
        """List the calls that show how large the next one of a part is."""
        return self.spent[part]

    def _expected(self, part: Part) -> int | None:
        """Estimate the tokens of the first call of a part; None where none has to be."""
        known = self.budget.tokens is None or self.spent[part]
        return None if known else call_tokens(*self.prompt(part))

    def prompt(self, part: Part) -> tuple[list[str], int]:
        """List the texts in the prompt of a part's next call, and give its output limit."""
        raise NotImplementedError

    def pay(self, part: Part, spending: Spending | None, attempts: int) -> None:
        """Count a reply, and the failed attempts before it."""
        self.retried += attempts - (spending is not None)
        if spending is not None:
            self.spent[part].append(spending)

    def lose(self, calls: int) -> None:
        """Count calls that were cancelled before their reply came."""
        self.cancelled += calls

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def left_out(self, names: Iterable[str]) -> None:
        """Warn about parameters that the provider does not support."""
        for name in names:
            self.warn(f"the provider does not take {name}; it was not sent")


PERSONS_REVISIONS = 5


@dataclass
class DraftState(RunState[DecisionT], Generic[DecisionT, DraftT]):
    """What the state of a loop has that revises drafts.

    `chosen` is the index of the draft that a person scored, or replaced the best one with, and
    `granted` counts the revisions that people requested.
    """

    drafts: list[DraftT] = field(default_factory=list)
    chosen: int | None = None
    granted: int = 0

    @property
    def best(self) -> DraftT | None:
        """The draft that becomes the result."""
        return self._best() if self.chosen is None else self.drafts[self.chosen]

    @property
    def model(self) -> str | None:
        """The model that wrote the newest draft, or that the request names."""
        written = [draft.model for draft in self.drafts if draft.model is not None]
        return written[-1] if written else self.request.model

    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused; None if it is accepted."""
        best = self.best
        if given.draft is not None and best is not None and given.draft != best.index:
            return f"draft {best.index + 1} is under review now"
        if encoded_size(given.replace or "") > self.request.draft_bytes:
            return f"the text is over {self.request.draft_bytes:,} bytes"
        if given.revise is None:
            return None
        reason = self.no_room("revising")
        if self.granted >= PERSONS_REVISIONS:
            reason = f"at most {PERSONS_REVISIONS} revisions can be requested"
        return f"no further revision is possible: {reason}" if reason else None

    def stop(
        self, reason: Any, explanation: str, at: datetime, author: str | None = None
    ) -> DecisionT:
        """End the run, or wait if a person has to review the result first."""
        why = self._waits(reason)
        said = f"{explanation}; {why}" if why else explanation
        return self.settle(reason, said, at, author, waits=why is not None)

    def settle(
        self,
        reason: Any,
        explanation: str,
        at: datetime,
        author: str | None = None,
        *,
        waits: bool = False,
    ) -> DecisionT:
        """Record a decision: the run ends for a reason, goes on, or waits for a person."""
        raise NotImplementedError

    def _best(self) -> DraftT | None:
        """Return the best draft, the earlier of equals."""
        raise NotImplementedError

    def _waits(self, reason: Any) -> str | None:
        """Explain why a person has to review the result; None if no review is needed."""
        raise NotImplementedError
