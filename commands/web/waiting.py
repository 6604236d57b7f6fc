"""What a run asks of a person: to decide on its result, or on a tool call."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mull import Run
from mull.sheet import Sheet, reason_words
from mull.text import lasting_words, revealed
from mull.turn.approval import Question


class WaitingCall(NamedTuple):
    """A tool call that waits: its texts with hidden characters shown, and what a decision names."""

    tool: str
    arguments: tuple[tuple[str, str], ...]
    doubts: tuple[str, ...]
    question: Question


class WaitingItem(NamedTuple):
    """One thing that waits for a person: the result of a run, or a tool call of it.

    `draft` is the index of the draft that is shown, where the loop has drafts.
    """

    run: Run[Any]
    run_id: str
    sheet: Sheet
    since: datetime | None
    why: str = ""
    draft: int | None = None
    call: WaitingCall | None = None

    @property
    def key(self) -> str:
        """Its name, which no other item of a page has."""
        return f"{self.run_id}-{self.call.question.call}" if self.call else self.run_id

    @property
    def waited(self) -> str:
        """How long it has waited."""
        seconds = (datetime.now(UTC) - self.since).total_seconds() if self.since else 0
        return lasting_words(max(0, int(seconds)))

    @property
    def judged(self) -> Sequence[str]:
        """What the last decision said of the result, a line for each thing."""
        return self.sheet.steps[-1].below if self.sheet.steps else ()


def items_of(run: Run[Any], run_id: str, seen: Any) -> Iterator[WaitingItem]:
    """Yield what a run asks of a person now, by its record."""
    loop = run.loop
    sheet = loop.sheet(seen)
    if sheet.waiting is None:
        return
    questions = getattr(seen, "questions", ())
    for question in questions:
        made, first = seen.calls[question.call - 1], f"attention, call {question.call}: "
        asked = sheet.waiting.asked
        call = WaitingCall(
            revealed(made.tool),
            tuple((revealed(name), _laid_out(value)) for name, value in made.given.items()),
            tuple(one.removeprefix(first) for one in asked if one.startswith(first)),
            question,
        )
        yield WaitingItem(run, run_id, sheet, made.approval and made.approval.at, call=call)
    if not questions:
        best, last = loop.best(seen) if loop.best else None, seen.decisions[-1]
        draft = getattr(best, "index", None)
        yield WaitingItem(run, run_id, sheet, last.at, reason_words(last), draft)


def _laid_out(value: Any) -> str:
    """Write an argument for a person, with invisible characters as escapes."""
    known = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return revealed(known)
