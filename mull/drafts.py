"""The record of a run, and what every loop has that writes drafts: the best one, and its review.

A loop that needs no records of its own takes those of this file: docs/a-new-workflow.md.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import PrivateAttr

from mull.request import Record, Review
from mull.run import Decided, DecisionT, RunState, Spending, Usage
from mull.text import encoded_size, terminal_safe

NO_ANSWER = "there is no answer"


class Result(Record):
    """What a run returns; `answer_field` names the text that is never cut."""

    answer_field: ClassVar[str] = "answer"
    # How a notebook draws it: the loops' sheets, which know their results, say so.
    drawn_by: ClassVar[Callable[[Any], str | None]] = lambda _: None
    # No part of what is recorded: whoever reads the record knows whose it is.
    _id: str = PrivateAttr("")

    @property
    def id(self) -> str:
        """The id of its run, which is known to whoever got it from the server; empty elsewhere."""
        return self._id

    @property
    def doubt(self) -> str:
        """Why not to build on it once its run has ended, in a phrase; empty if nothing says so."""
        return ""

    def __repr__(self) -> str:
        reason, answer = (getattr(self, name, None) for name in ("stop_reason", self.answer_field))
        named, shown = f"{type(self).__name__} {self.id}", terminal_safe(answer or "", 100)
        return f"<{named.rstrip()}: {reason}, {shown!r}>"

    __str__ = __repr__

    if not TYPE_CHECKING:  # who checks types is told to leave out the `await`

        def __await__(self) -> Generator[None, None, Self]:
            """Return it: who awaits a call of `mull.ask` itself has paid for it already."""
            yield from ()
            return self

    def _repr_html_(self) -> str | None:
        return type(self).drawn_by(self)


class RunRecord(Result):
    """What is seen of a run: what `progress` returns while it goes on, and its result in the end.

    While it goes on, it says what the result would be now, without a `stop_reason` unless it waits
    for a review; `step` is under way, with `in_flight` calls, and `review_until` is when a wait for
    a person ends by itself, None for never. `model` replied last, or is named by the request.
    """

    model: str | None = None
    usage: Usage
    decisions: tuple[Decided, ...] = ()
    stop_reason: str | None = None
    stop_explanation: str = ""
    warnings: tuple[str, ...] = ()
    step: str = ""
    in_flight: int = 0
    review_until: datetime | None = None

    def because(self, doubt: str) -> str:
        """Add to a doubt, if there is one, the bound that cut the run short."""
        cut = doubt and self.stop_reason in {"budget", "deadline"}
        return f"{doubt} ({self.stop_explanation})" if cut else doubt


class Receipt(Record):
    """The model that replied, the parameters left out of the call, its attempts and its cost.

    `spending` is None if none of the calls brought a reply, and for what a person made.
    """

    model: str | None = None
    finish_reason: str | None = None
    max_output_tokens: int | None = None
    left_out: tuple[str, ...] = ()
    attempts: int = 1
    spending: Spending | None = None


class Made(Receipt):
    """What a model or a person made, counted from 0; `author` is the person behind it."""

    index: int
    author: str | None = None
    seed: int | None = None
    timestamp: datetime | None = None


class Drafted(Protocol):
    """A draft of any loop."""

    @property
    def index(self) -> int:
        """Its place among the drafts, from 0."""

    @property
    def text(self) -> str:
        """What was written."""

    @property
    def origin(self) -> str:
        """How it came to be: `generated`, or `replaced` by a person."""

    @property
    def author(self) -> str | None:
        """The person who wrote it or asked for it."""

    @property
    def model(self) -> str | None:
        """The model that wrote it."""


class PlainDraft(Made):
    """One draft. `cut` is true if the text was cut to the size limit of a result."""

    text: str
    origin: str
    cut: bool = False
    attempts: int = 0

    @property
    def doubt(self) -> str:
        """Say why not to build on it, whatever became of the run; empty for a whole text."""
        cut = "the draft was cut off by its provider: raise max_output_tokens"
        return cut if self.finish_reason == "length" else ""


class PlainDecision(Decided):
    """The end of a run, or a wait for a person: of a loop that compares no numbers.

    `best` is the index of the best draft.
    """

    best: int | None
    waits_for_review: bool = False


class PlainResult(RunRecord):
    """The best draft as the answer, why the run ended, and what it cost."""

    subject: str
    answer: str | None
    drafts: tuple[PlainDraft, ...]
    best: int | None
    decisions: tuple[PlainDecision, ...]

    @property
    def doubt(self) -> str:
        """Say why not to build on the answer; empty if a person accepted it, or it is whole."""
        if (best := best_of(self)) is None:
            return self.because(NO_ANSWER)
        return "" if self.stop_reason == "accepted_by_person" else best.doubt


def best_of(seen: PlainResult) -> PlainDraft | None:
    """Return the draft that is the answer, or would be now."""
    return None if seen.best is None else seen.drafts[seen.best]


class ReviewedState(RunState[DecisionT], Generic[DecisionT]):
    """The state of a loop whose result a person may replace."""

    @abstractmethod
    def replace(self, text: str, author: str, at: datetime) -> None:
        """Take a person's text as the result."""


DraftT = TypeVar("DraftT", bound=Drafted)
PERSONS_REVISIONS = 5


@dataclass
class DraftState(ReviewedState[DecisionT], Generic[DecisionT, DraftT]):
    """What the state of a loop has that revises drafts.

    `chosen` is the index of the draft that a person scored, or replaced the best one with, and
    `granted` counts the revisions that people requested. A loop that needs no records of its own
    takes those of this file, and says what its best draft and its reviews are.
    """

    draft_type: ClassVar[type[Any]] = PlainDraft
    decision_type: ClassVar[type[Any]] = PlainDecision
    record_type: ClassVar[type[Any]] = PlainResult
    actions: ClassVar[tuple[str, ...]] = ("accept", "replace")

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
        if given.action not in self.actions:
            return f"this result does not take {given.action}: choose {' or '.join(self.actions)}"
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
        **more: Any,
    ) -> DecisionT:
        """Record a decision: the run ends for a reason, goes on, or waits for a person."""
        decision: DecisionT = self.decision_type(
            **self._compared(),
            **more,
            stop=reason is not None and not waits,
            stop_reason=reason,
            reason=explanation,
            author=author,
            at=at,
            waits_for_review=waits,
        )
        self.decisions.append(decision)
        return decision

    def replace(self, text: str, author: str, at: datetime) -> None:
        """Take a person's text as the result."""
        self.chosen = len(self.drafts)
        own = self.draft_type(
            index=self.chosen, text=text, origin="replaced", author=author, timestamp=at
        )
        self.drafts.append(own)

    def _shown(self) -> dict[str, Any]:
        best = self.best
        return {
            "subject": self.subject,
            "answer": best.text if best else None,
            "drafts": tuple(self.drafts),
            "best": best.index if best else None,
        }

    def _compared(self) -> dict[str, Any]:
        """List the fields of a decision that say what it is based on."""
        return {"best": self.best.index if self.best else None}

    @abstractmethod
    def _best(self) -> DraftT | None:
        """Return the best draft, the earlier of equals."""

    @abstractmethod
    def _waits(self, reason: Any) -> str | None:
        """Explain why a person has to review the result; None if no review is needed."""
