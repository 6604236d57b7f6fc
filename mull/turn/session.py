"""A session of turns: what starts it, its messages, its state, its answers and its sheet; pure.

Earlier messages stay verbatim until a turn summarizes the older ones; where that can't keep up with
large messages, the oldest are left out, and a warning says so. A message whose turn failed is not
among them. All that goes on to a new history stands in a `SessionRequest`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import FailFast, Field, ValidationError, model_validator
from pydantic_core import to_json

from mull import sheet as parts
from mull.drafts import RunRecord
from mull.request import (
    FRAMING_BYTES,
    MESSAGE_BYTES,
    MOST_LISTED,
    MOST_MEMBERS,
    ROLE_BYTES,
    EarlierMessage,
    MessageText,
    Record,
    Request,
    Seconds,
    explain,
    user_message,
)
from mull.run import Usage, add_usage
from mull.text import cut_with_note, encoded_size, shortened, tally_words
from mull.turn.request import SUMMARY_BYTES, ToolTurnRequest, TurnOptions
from mull.turn.result import StopReason, ToolTurnResult
from mull.turn.tools import cut_middle

# The server holds ten updates of a run in flight; two are left for what a person may say.
MOST_WAITING = 8
MOST_ANSWERS = 100
ID_BYTES = 200
# These three together, with what stands around each text, are under the 512 KiB of an event.
OPTION_BYTES = 100_000
CONVERSATION_BYTES = 220_000
ANSWERS_BYTES = 60_000
CARRIED_BYTES = 150_000
SHORT_BYTES = 400
LEFT_OUT = "[older messages had no room, and were left out]"

# The types of two refusals: the client tries again, or begins a session that goes on.
SESSION_CONTINUES = "SessionContinues"
SESSION_ENDED = "SessionEnded"

SessionEnd = Literal["idle", "finished_by_person"]


class SessionMessage(Request):
    """A message to a session, and texts that it is about; its id is the id of the update.

    With `stream` its turn publishes the answer while it is written.
    """

    subject_field = "message"

    message: MessageText
    context: Annotated[tuple[MessageText, ...], FailFast()] = Field(
        default=(), max_length=50, description="Texts that it is about, quoted as material."
    )
    stream: bool = Field(default=False, description="Show the answer while it is written.")


class SessionAnswer(Record):
    """The answer to a message; without one, what the turn has, or the error for which it failed.

    `number` is that of its turn, whose own result is under the id `{session}-turn-{number}`.
    """

    number: int
    answer: str | None = None
    so_far: str | None = None
    stop_reason: StopReason | None = None
    error: str | None = None


class Carried(Record):
    """What a session that goes on in a new history has besides its messages.

    `answers` are the last ones, by the ids of their messages.
    """

    answers: dict[str, SessionAnswer] = Field(default_factory=dict, max_length=MOST_MEMBERS)
    usage: Usage = Usage()
    failed: int = 0
    warnings: tuple[str, ...] = Field(default=(), max_length=MOST_LISTED)

    @model_validator(mode="after")
    def _small(self) -> Self:
        if (size := len(to_json(self))) > CARRIED_BYTES:
            raise ValueError(f"{size:,} bytes exceed the limit of {CARRIED_BYTES:,}")
        return self


class SessionRequest(TurnOptions):
    """What every turn of a session is held to, and the messages that it begins with.

    `context` is shown with each message, and `turn_count` is the number of the next turn. `carried`
    is for a session that goes on.
    """

    subject_field = "model"

    idle_seconds: Seconds = Field(
        default=7 * 86_400, description="Seconds without a message after which the session ends."
    )
    turns_per_execution: int = Field(
        default=500, ge=1, le=500, description="Turns after which it goes on in a new history."
    )
    carried: Carried = Carried()

    @model_validator(mode="after")
    def _carriable(self) -> Self:
        size = len(
            to_json(self.model_dump(mode="json", exclude={"messages", "summary", "carried"}))
        )
        if size > OPTION_BYTES:
            raise ValueError(f"the options are {size:,} bytes, over the limit of {OPTION_BYTES:,}")
        return self


class SessionResult(RunRecord):
    """Where a session stands, and in the end why it ended.

    `waiting` are the ids of the messages that wait, and `turn` is the number of the turn for the
    first of them, if it is under way. `turns` counts those of earlier histories too, and `failed`
    those without a result, whose spending is not known and not in `usage`. The next turn reads so
    many `messages`, verbatim. `going_on` is the request by which another session goes on with one
    that ended.
    """

    turns: int
    failed: int
    turn: int | None
    waiting: tuple[str, ...]
    messages: int
    conversation_bytes: int
    summarized: bool
    stop_reason: SessionEnd | None = None
    going_on: SessionRequest | None = None


def turn_id(session: str, number: int) -> str:
    """Name the workflow of a turn."""
    return f"{session}-turn-{number}"


@dataclass
class PendingMessage:
    """A message that waits for its answer."""

    id: str
    message: SessionMessage
    answer: SessionAnswer | None = None


@dataclass
class Session:
    """The state of a session: its conversation, who waits, and what was answered.

    `turn` is the number of the turn under way, whose message is the first that waits.
    """

    request: SessionRequest
    waiting: list[PendingMessage] = field(default_factory=list)
    turn: int | None = None
    made: int = 0
    ended: tuple[SessionEnd, str] | None = None

    def __post_init__(self) -> None:
        request, carried = self.request, self.request.carried
        self.messages, self.summary = list(request.messages), request.summary
        self.next, self.model = request.turn_count, request.model
        self.answers, self.usage = dict(carried.answers), carried.usage
        self.failed, self.warnings = carried.failed, list(carried.warnings)

    def warn(self, warning: str) -> None:
        """Keep a warning, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def refuses(self, message: SessionMessage, its_id: str) -> str | None:
        """Explain why a message is refused; None if it is taken."""
        if len(self.waiting) >= MOST_WAITING:
            return f"{MOST_WAITING} messages wait already: send this one again after an answer"
        if encoded_size(its_id) > ID_BYTES:
            return f"the id of a message has at most {ID_BYTES} bytes"
        try:
            self._request(message, (), "-" * SUMMARY_BYTES)
        except ValidationError as error:
            return explain(error)
        return None

    def take(self, message: SessionMessage, its_id: str) -> PendingMessage:
        """Take a message, which is answered in its turn, or at once if it was answered before."""
        taken = PendingMessage(its_id, message, self.answers.get(its_id))
        if taken.answer is None:
            self.waiting.append(taken)
        return taken

    def begin(self) -> ToolTurnRequest:
        """Begin the turn of the message that came first, and return its request."""
        message = self.waiting[0].message
        self.turn, self.next = self.next, self.next + 1
        texts = [self.request.system or "", *self.request.context, *message.context]
        self._fit(FRAMING_BYTES - SUMMARY_BYTES - sum(map(encoded_size, texts)))
        return self._request(message, self.messages, self.summary)

    def _request(
        self, message: SessionMessage, earlier: Sequence[EarlierMessage], summary: str | None
    ) -> ToolTurnRequest:
        own = self.request.model_dump(include={*TurnOptions.model_fields}, exclude_unset=True)
        known = {
            "message": message.message,
            "context": (*self.request.context, *message.context),
            "stream": message.stream,
            "messages": tuple(earlier),
            "summary": summary,
            "turn_count": self.turn or self.next,
        }
        return ToolTurnRequest(**own | known)

    def answered(self, result: ToolTurnResult) -> None:
        """Answer the message under way, and go on with what its turn summarized."""
        asked, said = self.waiting[0].message, cut_with_note(result.reply, MESSAGE_BYTES)
        self.summary = result.summary
        self.messages = [
            *self.messages[result.summarized :],
            EarlierMessage(role="user", content=_as_asked(asked)),
            EarlierMessage(role="assistant", content=said),
        ]
        self._fit(CONVERSATION_BYTES)
        self.usage, self.model = add_usage(self.usage, result.usage), result.model
        key = "so_far" if result.answer is None else "answer"
        self._answer({key: said, "stop_reason": result.stop_reason})

    def lost(self, error: str) -> None:
        """Answer the message under way with an error, and go on without it."""
        self.failed += 1
        self._answer({"error": cut_with_note(error, SHORT_BYTES)})

    def _answer(self, known: dict[str, Any]) -> None:
        first, self.made = self.waiting.pop(0), self.made + 1
        first.answer = SessionAnswer(number=self.turn or 0, **known)
        self.answers[first.id], self.turn = first.answer, None
        kept, room = dict[str, SessionAnswer](), ANSWERS_BYTES
        for its_id, answer in list(self.answers.items())[: -MOST_ANSWERS - 1 : -1]:
            room -= len(to_json(answer))
            short = room < 0 and SessionAnswer(**shortened(answer.model_dump(), SHORT_BYTES))
            kept[its_id] = short or answer
        self.answers = dict(reversed(kept.items()))

    def _fit(self, room: int) -> None:
        """Leave out the oldest messages that have no room, each with the reply to it."""
        sizes = [encoded_size(one.content) + ROLE_BYTES for one in self.messages]
        first, left = 0, sum(sizes)
        while left > room or (0 < first < len(sizes) and self.messages[first].role == "assistant"):
            if first == len(sizes):
                break
            left -= sizes[first]
            first += 1
        if first:
            self.warn(LEFT_OUT.strip("[]"))
            told = (self.summary or "").removesuffix(LEFT_OUT).strip()
            self.summary = f"{cut_middle(told, SUMMARY_BYTES - 100)}\n{LEFT_OUT}".strip()
            del self.messages[:first]

    def going_on(self) -> SessionRequest:
        """Return the request by which the session goes on in a new history."""
        known: dict[str, Any] = {
            "messages": tuple(self.messages),
            "summary": self.summary,
            "turn_count": self.next,
            "carried": Carried(
                answers=self.answers,
                usage=self.usage,
                failed=self.failed,
                warnings=tuple(self.warnings),
            ),
        }
        return self.request.model_copy(update=known)

    @property
    def stopped(self) -> bool:
        """Whether the session has ended."""
        return self.ended is not None

    def record(self, **under_way: Any) -> SessionResult:
        """Say where the session stands, and how it ended; `under_way` is empty in the end."""
        reason, said = self.ended or (None, "")
        return SessionResult(
            turns=self.next - 1,
            failed=self.failed,
            turn=self.turn,
            waiting=tuple(one.id for one in self.waiting),
            messages=len(self.messages),
            conversation_bytes=sum(len(to_json(one.content)) for one in self.messages),
            summarized=self.summary is not None,
            model=self.model,
            usage=self.usage,
            stop_reason=reason,
            stop_explanation=said,
            warnings=tuple(self.warnings),
            going_on=self.going_on() if self.ended else None,
            **under_way,
        )


def _as_asked(asked: SessionMessage) -> str:
    """Write a message as its turn showed it; what it is about is cut where it is too long."""
    most, shown = MESSAGE_BYTES, user_message(asked.message, asked.context)
    while encoded_size(shown) > MESSAGE_BYTES:
        most //= 2
        if most < SHORT_BYTES:
            return asked.message
        shown = user_message(asked.message, [cut_middle(one, most) for one in asked.context])
    return shown


def sheet(seen: SessionResult, request: SessionRequest | None = None) -> parts.Sheet:
    """Build the sheet of a session, open or ended; the texts are in the results of its turns."""
    del request  # for the signature that every loop's sheet has
    turns, doing = tally_words(seen.turns, "turn"), "it waits for a message"
    if seen.stop_reason is not None:
        doing = parts.ended_words(seen.stop_explanation)
    elif seen.turn is not None:
        doing = f"turn {seen.turn:,} is under way"
    kept = f"{tally_words(seen.messages, 'message')}, {seen.conversation_bytes:,} bytes"
    failed = f"{seen.failed:,} of them failed" if seen.failed else ""
    waiting = parts.Fact("waiting", tally_words(len(seen.waiting), "message"))
    return parts.Sheet(
        subject=turns,
        verdict=parts.Verdict(
            words=f"{turns}; {doing}",
            tone="plain" if seen.stop_reason else "running",
            stop_reason=seen.stop_reason,
        ),
        facts=(
            parts.Fact("turns", f"{seen.turns:,}", failed),
            *(() if seen.stop_reason else (waiting,)),
            parts.Fact("conversation", kept, "after a summary" if seen.summarized else ""),
            parts.Fact("spent", parts.spent_words(seen.usage)),
        ),
        warnings=seen.warnings,
        busy=doing,
    )
