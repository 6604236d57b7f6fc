"""Tools, the calls of them, which calls run side by side, and which are answered from records.

Source: the scheduling rules and the decision rules for repeated calls in the public documentation
of the agent harness that the reflection engine is a part of.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from pydantic_core import from_json, to_json

from reflection.request import Record, unambiguous_json
from reflection.text import cut_encoded, encoded_size
from reflection.turn.approval import Approval, canonical
from reflection.turn.budget import TOOL_SECONDS

ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

ARGUMENT_BYTES = 32_000
RESULT_BYTES = 32_000
LEFT_OUT = "\n\n[{bytes:,} bytes left out here: the result was too long]\n\n"

CallStatus = Literal[
    "waiting", "asking", "ok", "error", "timeout", "unknown", "invalid", "denied", "not_run"
]
ERRORS: frozenset[CallStatus] = frozenset({"error", "timeout", "unknown", "invalid"})
"""Errors of tools, which ask for a reflection. What a rule, a person or the budget keeps from
running is none."""


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

    def touched(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Name what a call with these arguments touches."""

        def given(place: re.Match[str]) -> str:
            return canonical(arguments.get(place[1]))

        return frozenset(re.sub(r"\{(\w+)\}", given, key) for key in self.keys or (self.name,))


class AskedCall(Record):
    """A tool call as the model wrote it; `arguments` are to be JSON."""

    id: str | None = None
    name: str
    arguments: str


class ToolCall(Record):
    """One call that the model asked for, and what became of it.

    `index` counts from 0 through the turn; people see it from 1. `id` is the provider's.
    `arguments` are JSON; `malformed` says why the model's own can't be read. `content` is what the
    model is told. `record_of` is the index of the call from whose result it was answered.
    """

    index: int
    step: int
    id: str
    tool: str
    arguments: str = "{}"
    malformed: str | None = None
    status: CallStatus = "waiting"
    content: str = ""
    cut: bool = False
    record_of: int | None = None
    approval: Approval | None = None
    attempts: int = 0
    seconds: float | None = None
    at: datetime | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The arguments as they are given to the tool."""
        given: dict[str, Any] = json.loads(self.arguments)
        return given

    @property
    def words(self) -> str:
        """The call on one line: `search({"query": "tides"})`; equal calls have the same words."""
        return f"{self.tool}({self.arguments})"


def chosen(
    tools: Sequence[Tool], names: Sequence[str] | None
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Choose the tools with these names or groups, all for None; return also unknown names."""
    if names is None:
        return tuple(tools), ()
    known = {name for tool in tools for name in (tool.name, tool.group)}
    kept = tuple(tool for tool in tools if tool.name in names or tool.group in names)
    return kept, tuple(name for name in names if name not in known)


def schedule(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> list[list[ToolCall]]:
    """Order the calls of one reply: those of one wave run side by side, the waves in order.

    What only reads joins the wave before it if it touches nothing that the wave does. What writes,
    and what is unknown, runs alone.
    """
    waves: list[list[ToolCall]] = []
    open_to: frozenset[str] | None = None
    for call in calls:
        tool = tools.get(call.tool)
        touched = tool.touched(call.given) if tool and tool.read_only else None
        if touched is None or open_to is None or touched & open_to:
            waves.append([call])
            open_to = touched
        else:
            waves[-1].append(call)
            open_to |= touched
    return waves


@dataclass
class Records:
    """The successful results of idempotent calls in one turn, by tool and arguments."""

    kept: dict[str, tuple[ToolCall, frozenset[str]]] = field(default_factory=dict)

    def find(self, call: ToolCall) -> ToolCall | None:
        """Return the call whose result answers this one."""
        found = None if call.malformed else self.kept.get(call.words)
        return found[0] if found else None

    def note(self, call: ToolCall, tool: Tool) -> None:
        """Take in a call that ran.

        What writes makes the records of calls stale that touch the same keys, where its tool names
        keys; it may have written even if it failed.
        """
        touched = tool.touched(call.given)
        if tool.keys and not tool.read_only:
            kept = self.kept.items()
            self.kept = {words: record for words, record in kept if not record[1] & touched}
        if tool.idempotent and call.status == "ok":
            self.kept[call.words] = call, touched


def read_arguments(written: str) -> dict[str, Any] | str:
    """Read the arguments of a call, or say in one line what is wrong with them; never raises."""
    if len(written) > ARGUMENT_BYTES or encoded_size(written) > ARGUMENT_BYTES:
        return f"the arguments are over {ARGUMENT_BYTES:,} bytes"
    try:
        given = unambiguous_json(written.strip() or "{}")
        if not isinstance(given, dict):
            return "the arguments are no JSON object"
        # Neither an infinite number, half a character, nor a great depth can be kept in a history.
        arguments: dict[str, Any] = from_json(to_json(given), allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        return f"the arguments can't be read: {cut_encoded(str(error), 200)}"
    return arguments


def cut_middle(text: str, most: int) -> str:
    """Keep the beginning and the end of a text that is longer than `most` bytes as JSON."""
    size = encoded_size(text)
    if size <= most:
        return text
    half = (most - len(LEFT_OUT) - 10) // 2
    head = cut_encoded(text, half)
    tail = cut_encoded(text[-half:][::-1], half)[::-1]
    kept = encoded_size(head) + encoded_size(tail)
    return f"{head}{LEFT_OUT.format(bytes=size - kept)}{tail}"
