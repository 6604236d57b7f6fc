"""The tool calls of a turn: admitted, judged by rules or a person, run, and recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reflection.request import short_name
from reflection.text import cut_with_note
from reflection.turn.approval import Action, Approval, Permission, ToolRule, approve, canonical
from reflection.turn.budget import LEAST_TOOL_SECONDS, TurnBudget
from reflection.turn.tools import (
    ERRORS,
    RAN,
    RESULT_BYTES,
    AskedCall,
    CallStatus,
    Tool,
    ToolCall,
    cut_middle,
    read_arguments,
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
    errors: list[str] = field(default_factory=list)

    def read(self, asked: Sequence[AskedCall], step: int) -> tuple[ToolCall, ...]:
        """Add the calls of one reply, with their arguments read; an id that is none is made."""
        ids, first = {call.id for call in self.made}, len(self.made)
        for index, one in enumerate(asked[:MOST_CALLS], first):
            found = read_arguments(one.arguments)
            wrong = found if isinstance(found, str) else None
            call = ToolCall(
                index=index,
                step=step,
                id=one.id if one.id and one.id not in ids else f"call{index:05d}",
                tool=short_name(one.name),
                arguments="{}" if wrong else canonical(found),
                malformed=wrong,
            )
            ids.add(call.id)
            self.made.append(call)
        return tuple(self.made[first:])

    def with_status(self, status: CallStatus) -> list[ToolCall]:
        """List the calls that are `waiting` to run, or `asking` a person, and so on."""
        return [call for call in self.made if call.status == status]

    def waves(self) -> list[list[ToolCall]]:
        """List the calls that wait, in waves: those of one wave run side by side.

        What only reads joins the wave before it if it touches nothing that the wave does. What
        writes, and what is unknown, runs alone.
        """
        waves: list[list[ToolCall]] = []
        open_to: frozenset[str] | None = None
        for call in self.with_status("waiting"):
            tool = self.tools.get(call.tool)
            touched = tool.touched(call.given) if tool and tool.read_only else None
            if touched is None or open_to is None or touched & open_to:
                waves.append([call])
                open_to = touched
            else:
                waves[-1].append(call)
                open_to |= touched
        return waves

    def admit(self, index: int, at: datetime) -> ToolCall:
        """Answer a call that is not to run, from its record or with what is wrong; claim others."""
        call = self.made[index]
        record = self._record_for(call)
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

    def _record_for(self, call: ToolCall) -> ToolCall | None:
        """Find the success of the same call of an idempotent tool.

        There is none where a later call may have written what this one touches: one that ran,
        though it may have failed, of a tool that writes and names keys.
        """
        tool = self.tools.get(call.tool)
        if tool is None or not tool.idempotent or call.malformed:
            return None
        touched = tool.touched(call.given)
        ran = [one for one in self.made if one.status in RAN and one.record_of is None]
        for before in reversed(ran):
            other = self.tools[before.tool]
            if before.status == "ok" and before.words == call.words:
                return before
            if other.keys and not other.read_only and other.touched(before.given) & touched:
                break
        return None

    def judge(self, index: int, at: datetime) -> ToolCall:
        """Apply the rules to an admitted call: it may run, is denied, or asks a person."""
        call = self.made[index]
        reads = self.tools[call.tool].read_only
        held = approve(call.tool, call.given, self.rules, self.tighter, read_only=reads)
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
        why = ": ".join(part for part in (author and f"by {author}", given.why) if part)
        action: Action = "allow" if given.allow else "deny"
        said = Approval(action=action, why=why, author=author, at=at)
        call = self._set(given.call - 1, approval=said, status="waiting")
        return call if given.allow else self.finish(call.index, "denied", why)

    def finish(
        self,
        index: int,
        status: CallStatus,
        content: str,
        *,
        seconds: float | None = None,
        at: datetime | None = None,
    ) -> ToolCall:
        """Record what became of a call; what is too long is cut in the middle."""
        kept = cut_middle(content, RESULT_BYTES)
        call = self._set(index, status=status, content=kept, seconds=seconds, at=at)
        if status in ERRORS:
            self.errors.append(f"{call.tool}: {cut_with_note(kept, ERROR_BYTES)}")
        return call

    def _set(self, index: int, **known: Any) -> ToolCall:
        self.made[index] = self.made[index].model_copy(update=known)
        return self.made[index]
