"""Which tool calls run, which do not, and which wait for a person: by rules, first match wins.

A worker has rules, and so may a request: the stricter of the two holds, so that a request
can only tighten. Without a rule, calls that only read are allowed, and calls that may write ask.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints
from pydantic_core import from_json, to_json

from mull.request import Frozen, Record, Request

Action = Literal["allow", "ask", "deny"]
STRICTER: tuple[Action, ...] = ("allow", "ask", "deny")
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ToolRule(Frozen):
    """One rule: which calls it is about, and what holds for them.

    `tool` and the values in `arguments` are patterns as in a shell (`*`, `?`, `[abc]`), compared
    letter by letter: `docs/*` also matches `docs/../secret`. An argument that is not a string is
    compared as JSON. A call without one of the arguments does not match.
    """

    tool: Pattern
    arguments: Annotated[dict[Pattern, Pattern], Field(max_length=50)] = Field(default_factory=dict)
    action: Action
    why: Annotated[str, StringConstraints(max_length=1_000)] = ""

    def matches(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Tell whether the rule applies to a call."""
        return fnmatchcase(tool, self.tool) and all(
            name in arguments and fnmatchcase(canonical(arguments[name]), pattern)
            for name, pattern in self.arguments.items()
        )


class Approval(Record):
    """Whether a call may run, who said so, and why. `author` is a person; without one a rule."""

    action: Action
    why: str
    author: str | None = None
    at: datetime | None = None


class Question(Record):
    """A call that waits for a person, and `doubts`; a word on it repeats `run_id` and `digest`."""

    call: int
    run_id: str
    digest: str
    doubts: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, run_id: str, call: int, tool: str, schema: object, arguments: object, *doubts: str
    ) -> Self:
        """Ask about a call. The digest covers all that a person decides on."""
        # As it reads once it was in a history.
        asked = from_json(to_json([run_id, call, tool, schema, arguments], inf_nan_mode="null"))
        digest = blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=16).hexdigest()
        return cls(call=call, run_id=run_id, digest=digest, doubts=doubts)


class Permission(Request):
    """A person's word on a call that waits for it: its number, from 1, as the turn shows it.

    `run_id` and `digest` are those of the `Question`; a denial may leave them out.
    """

    call: int = Field(ge=1)
    allow: bool
    why: str = Field("", max_length=4_000)
    author: str | None = Field(None, min_length=1, max_length=200)
    run_id: str | None = Field(None, max_length=200)
    digest: str | None = Field(None, max_length=200)


def approve(
    tool: str,
    arguments: Mapping[str, Any],
    workers: Sequence[ToolRule],
    requests: Sequence[ToolRule] = (),
    *,
    read_only: bool,
) -> Approval:
    """Judge a call by the worker's rules, or the default, and then by the request's."""
    held = _first(workers, tool, arguments) or Approval(
        action="allow" if read_only else "ask",
        why="it only reads" if read_only else "it may write, and no rule of the worker allows it",
    )
    own = _first(requests, tool, arguments)
    return max(held, own or held, key=lambda one: STRICTER.index(one.action))


def _first(rules: Sequence[ToolRule], tool: str, arguments: Mapping[str, Any]) -> Approval | None:
    for rule in rules:
        if rule.matches(tool, arguments):
            said = f"the rule for {rule.tool} says {rule.action}"
            return Approval(action=rule.action, why=rule.why or said)
    return None


def canonical(value: object) -> str:
    """Write a value so that equal ones read the same: a string as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
