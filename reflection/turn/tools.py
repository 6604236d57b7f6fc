"""Tools, and the calls of them: what a model may ask for, and what became of it.

Source: the scheduling rules and the decision rules for repeated calls in the public documentation
of the agent harness that the reflection engine is a part of.
"""

import json
import re
from collections.abc import Mapping
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
    record_of: int | None = None
    approval: Approval | None = None
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
    return kept if isinstance(kept, dict) else "the arguments are no JSON object"


def cut_middle(text: str, most: int) -> str:
    """Keep the beginning and the end of a text that is longer than `most` bytes as JSON."""
    size, half = encoded_size(text), (most - len(LEFT_OUT) - 10) // 2
    if size <= most:
        return text
    head, tail = cut_encoded(text, half), cut_encoded(text[-half:][::-1], half)[::-1]
    left_out = size - encoded_size(head) - encoded_size(tail)
    return f"{head}{LEFT_OUT.format(bytes=left_out)}{tail}"
