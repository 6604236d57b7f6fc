"""The tool calls of a turn: admitted, judged by rules or a person, run, and recorded.

A workflow takes the calls that wait in waves. It hands each call to `admit` and `judge`, waits for
a person where a call asks, runs what still waits, and hands over what came to `finish`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reflection.request import short_name
from reflection.text import cut_with_note
from reflection.turn.approval import Approval, Permission, ToolRule, approve, canonical
from reflection.turn.budget import LEAST_TOOL_SECONDS, TurnBudget
from reflection.turn.tools import (
    ERRORS,
    RESULT_BYTES,
    AskedCall,
    CallStatus,
    Records,
    Tool,
    ToolCall,
    cut_middle,
    read_arguments,
    schedule,
)

# More calls in one reply are no honest reply, and each of them would have to be answered.
MOST_CALLS = 64
ERROR_BYTES = 400


@dataclass
class ToolCalls:
    """The calls of a turn, by index, and what they may use.

    `rules` are the worker's, `tighter` the request's. `errors` are tool errors that no reflection
    has cleared.
    """

    budget: TurnBudget
    tighter: tuple[ToolRule, ...] = ()
    tools: dict[str, Tool] = field(default_factory=dict)
    rules: tuple[ToolRule, ...] = ()
    made: list[ToolCall] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    errors: list[str] = field(default_factory=list)

    def read(self, asked: Sequence[AskedCall], step: int) -> tuple[ToolCall, ...]:
        """Number the calls of one reply, and read their arguments; ids that are no good are new."""
        ids, calls = {call.id for call in self.made}, []
        for index, one in enumerate(asked[:MOST_CALLS], len(self.made)):
            found = read_arguments(one.arguments)
            own = one.id if one.id and len(one.id) <= 200 and one.id not in ids else None
            call = ToolCall(
                index=index,
                step=step,
                id=own or f"call{index:05d}",
                tool=short_name(one.name),
                arguments="{}" if isinstance(found, str) else canonical(found),
                malformed=found if isinstance(found, str) else None,
            )
            ids.add(call.id)
            calls.append(call)
        return tuple(calls)

    def with_status(self, status: CallStatus) -> list[ToolCall]:
        """List the calls that are `waiting` to run, or `asking` a person, and so on."""
        return [call for call in self.made if call.status == status]

    def waves(self) -> list[list[ToolCall]]:
        """List the calls that wait, in waves: those of one wave run side by side."""
        return schedule(self.with_status("waiting"), self.tools)

    def admit(self, index: int, at: datetime) -> ToolCall:
        """Answer a call that is not to run, from its record or with what is wrong; claim others."""
        call = self.made[index]
        record = self.records.find(call)
        if record is not None:
            return self._set(index, status="ok", content=record.content, record_of=record.index)
        if self.budget.remaining(at) < LEAST_TOOL_SECONDS:
            return self.finish(index, "not_run", f"under {LEAST_TOOL_SECONDS:g} s are left")
        if not self.budget.claim("tool_calls"):
            return self.finish(index, "not_run", "the tool calls of this turn are used up")
        if call.tool not in self.tools:
            known = ", ".join(self.tools) or "none"
            return self.finish(index, "unknown", f"there is no such tool; the tools are: {known}")
        return self.finish(index, "invalid", call.malformed) if call.malformed else call

    def judge(self, index: int, at: datetime) -> ToolCall:
        """Apply the rules to an admitted call: it may run, is denied, or asks a person."""
        call = self.made[index]
        held = approve(
            call.tool,
            call.given,
            read_only=self.tools[call.tool].read_only,
            workers=self.rules,
            requests=self.tighter,
        )
        self._set(index, approval=held.model_copy(update={"at": at}))
        if held.action == "deny":
            return self.finish(index, "denied", held.why)
        return self._set(index, status="asking" if held.action == "ask" else "waiting")

    def refuses(self, given: Permission) -> str | None:
        """Explain why a person's word on a call is refused; None if it is taken."""
        numbers = [call.index + 1 for call in self.with_status("asking")]
        if given.call in numbers:
            return None
        listed = ", ".join(map(str, numbers)) or "none"
        return f"call {given.call} is not waiting for anyone; waiting: {listed}"

    def permit(self, given: Permission, author: str | None, at: datetime) -> ToolCall:
        """Take a person's word on a call that asks; without an author nobody came in time."""
        index, action = given.call - 1, "allow" if given.allow else "deny"
        why = ": ".join(part for part in (author and f"by {author}", given.why) if part)
        said = {"action": action, "why": why, "author": author, "at": at}
        call = self._set(index, approval=Approval.model_validate(said), status="waiting")
        return call if given.allow else self.finish(index, "denied", why)

    def finish(
        self,
        index: int,
        status: CallStatus,
        content: str,
        *,
        attempts: int = 0,
        seconds: float | None = None,
        at: datetime | None = None,
    ) -> ToolCall:
        """Record what became of a call; what is too long is cut in the middle."""
        kept = cut_middle(content, RESULT_BYTES)
        known = {"status": status, "content": kept, "cut": kept != content, "at": at}
        call = self._set(index, **known, attempts=attempts, seconds=seconds)
        if status in ERRORS:
            self.errors.append(f"{call.tool}: {cut_with_note(kept, ERROR_BYTES)}")
        if status in {"ok", "error", "timeout"}:
            self.records.note(call, self.tools[call.tool])
        return call

    def _set(self, index: int, **known: object) -> ToolCall:
        self.made[index] = self.made[index].model_copy(update=known)
        return self.made[index]
