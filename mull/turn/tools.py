"""Tools, and the calls of them: admitted, judged by rules or a person, run, and recorded."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from pydantic_core import from_json, to_json

from mull.request import Record, short_name, unambiguous_json
from mull.text import cut_encoded, cut_with_note, encoded_size
from mull.turn.approval import Approval, Permission, Question, ToolRule, approve, canonical
from mull.turn.budget import LEAST_TOOL_SECONDS, TOOL_SECONDS, TurnBudget

ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

ARGUMENT_BYTES = 32_000
RESULT_BYTES = 32_000
ERROR_BYTES = 400
# Of one reply so many calls are read, with so many bytes of arguments: each has to be answered.
MOST_CALLS, CALLS_BYTES = 64, 200_000
LEFT_OUT = "\n\n[{bytes:,} bytes left out here: the result was too long]\n\n"

CallStatus = Literal[
    "waiting", "asking", "ok", "error", "timeout", "unknown", "invalid", "denied", "not_run"
]
ERRORS: frozenset[CallStatus] = frozenset({"error", "timeout", "unknown", "invalid"})
"""Errors of tools, which ask for a reflection. What a rule, a person or the budget keeps from
running is none."""
MAY_BE_DONE = "it may already have happened"
RAN: frozenset[CallStatus] = frozenset({"ok", "error", "timeout"})


class Tool(Record):
    """A tool as a turn knows it. The activity behind it is the worker's.

    `parameters` is the JSON schema of its arguments. A tool counts as writing unless it is
    `read_only`. `idempotent`: the same call gives the same result throughout a turn. `keys` name
    what a call touches, with arguments in braces (`"file:{path}"`); without any it is the tool
    itself. `group` is what a request can choose it by besides its name, such as its server.
    """

    name: ToolName
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    read_only: bool = False
    idempotent: bool = False
    keys: tuple[str, ...] = ()
    group: str = ""
    timeout_seconds: float = Field(TOOL_SECONDS, gt=0, le=TOOL_SECONDS)

    def fits(self, rule: ToolRule) -> bool:
        """Tell whether a rule can be about calls of this tool."""
        known = self.parameters.get("properties")
        has = known is None or rule.arguments.keys() <= known.keys()
        return fnmatchcase(self.name, rule.tool) and has

    def touched(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Name what a call with these arguments touches."""
        return frozenset(
            re.sub(r"\{(\w+)\}", lambda place: canonical(arguments.get(place[1])), key)
            for key in self.keys or (self.name,)
        )


class AskedCall(Record):
    """A tool call as the model wrote it; `arguments` are to be JSON."""

    id: str | None = None
    name: str
    arguments: str


class ToolCall(Record):
    """One call that the model asked for, and what became of it.

    `index` counts from 0 through the turn; people see it from 1. `id` is the provider's.
    `arguments` are JSON; `malformed` says why the model's own can't be read. `content` is what the
    model is told. A call that was answered from a record has none: `record_of` is the index of the
    call whose result it was.
    """

    index: int
    step: int
    id: str
    tool: str
    arguments: str = "{}"
    malformed: str | None = None
    status: CallStatus = "waiting"
    content: str = ""
    record_of: int | None = None
    approval: Approval | None = None
    seconds: float | None = None
    at: datetime | None = None

    @property
    def given(self) -> Any:
        """The arguments, by name, as they are given to the tool."""
        return json.loads(self.arguments)

    @property
    def words(self) -> str:
        """The call on one line: `search({"query": "tides"})`; equal calls have the same words."""
        return f"{self.tool}({self.arguments})"


@dataclass
class ToolCalls:
    """The calls of a turn, by index, and what they may use.

    `rules` are the worker's, `tighter` the request's. `errors` are tool errors that no reflection
    has cleared. `doubts` are about all calls, or about the one with this index, and `unclear` are
    the indices of those of which the worker told no outcome.
    """

    budget: TurnBudget
    run_id: str = ""
    tighter: tuple[ToolRule, ...] = ()
    tools: dict[str, Tool] = field(default_factory=dict)
    rules: tuple[ToolRule, ...] = ()
    made: list[ToolCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    doubts: dict[int | None, str] = field(default_factory=dict)
    unclear: set[int] = field(default_factory=set)

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

    def told(self, index: int) -> ToolCall:
        """Return a call as the model sees it: with its record's result, if it has one."""
        call = self.made[index]
        if call.record_of is None:
            return call
        return call.model_copy(update={"content": self.made[call.record_of].content})

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
            return self._set(index, status="ok", record_of=record.index)
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

    def ask_again(self, index: int, why: str, tool: Tool | None) -> ToolCall:
        """Ask a person about a call that the worker did not make, with the tool as it is now."""
        self.tools |= {tool.name: tool} if tool else {}
        self.doubts[index] = why
        return self._set(index, status="asking")

    @property
    def questions(self) -> tuple[Question, ...]:
        """What people are asked now."""
        return tuple(self._question(call) for call in self.with_status("asking"))

    def _question(self, call: ToolCall) -> Question:
        schema, number = self.tools[call.tool].parameters, call.index + 1
        doubts = [self.doubts[about] for about in (None, call.index) if about in self.doubts]
        for one in self.made[: call.index]:
            unclear = one.status == "timeout" or one.index in self.unclear
            if one.tool == call.tool and unclear:
                same = "the same" if one.given == call.given else "one of the same tool"
                doubts.append(f"call {one.index + 1}, {same}, has no known outcome: {MAY_BE_DONE}")
        return Question.of(self.run_id, number, call.tool, schema, call.given, *doubts)

    def refuses(self, given: Permission) -> str | None:
        """Explain why a person's word on a call is refused; None if it is taken."""
        asked = {question.call: question for question in self.questions}
        question, said = asked.get(given.call), None
        if question is None:
            listed = ", ".join(map(str, asked)) or "none"
            said = f"is not waiting for anyone; waiting: {listed}"
        elif given.allow and None in {given.run_id, given.digest}:
            said = "is allowed with the run_id and the digest of its question in `progress`,"
            said += " which `mull review` sends: upgrade a client that does not"
        elif given.run_id not in {None, question.run_id}:
            said = f"was shown in another run, {given.run_id}: look at it again"
        elif given.digest not in {None, question.digest}:
            said = "is not the one that was shown: look at it again"
        return said and f"call {given.call} {said}"

    def permit(self, given: Permission, author: str | None, at: datetime) -> ToolCall:
        """Take a person's decision on a call that asks; without an author it timed out."""
        why = ": ".join(part for part in (author and f"by {author}", given.why) if part)
        said = Approval(action="allow" if given.allow else "deny", why=why, author=author, at=at)
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


def read_arguments(written: str) -> dict[str, Any] | str:
    """Read the arguments of a call, or say in one line what is wrong with them; never raises."""
    if len(written) > ARGUMENT_BYTES or encoded_size(written) > ARGUMENT_BYTES:
        return f"the arguments are over {ARGUMENT_BYTES:,} bytes"
    try:
        given = unambiguous_json(written.strip() or "{}")
        # Neither an infinite number, half a character, nor a great depth can be kept in a history.
        kept = from_json(to_json(given), allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        return f"the arguments can't be read: {cut_encoded(str(error), 200)}"
    return kept if isinstance(kept, dict) else "the arguments are not a JSON object"


def cut_middle(text: str, most: int) -> str:
    """Keep the beginning and the end of a text that is longer than `most` bytes as JSON."""
    size, half = encoded_size(text), (most - len(LEFT_OUT) - 10) // 2
    if size <= most:
        return text
    head, tail = cut_encoded(text, half), cut_encoded(text[-half:][::-1], half)[::-1]
    left_out = size - encoded_size(head) - encoded_size(tail)
    return f"{head}{LEFT_OUT.format(bytes=left_out)}{tail}"
