"""Turns driven without a workflow, as the package's docstring says, by scripted replies."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from mull.turn.approval import Permission, ToolRule
from mull.turn.budget import thinking
from mull.turn.conversation import StepReply
from mull.turn.loop import Turn
from mull.turn.request import ToolTurnRequest
from mull.turn.tools import AskedCall, CallStatus, Tool
from tests.unit.turn.test_budget import START

TOOLS = (
    Tool(name="read", read_only=True, idempotent=True, keys=("file:{path}",)),
    Tool(name="list", read_only=True, idempotent=True),
    Tool(name="calc", read_only=True, keys=("{path}",)),
    Tool(name="mail"),
)


def calls(*written: str, text: str = "", **known: Any) -> StepReply:
    """Make a reply with calls, each of a line such as `read a` or `read {malformed`."""
    parts = [line.partition(" ") for line in written]
    asked = tuple(
        AskedCall(name=tool, arguments=path if path[:1] == "{" else f'{{"path": "{path}"}}')
        for tool, _, path in parts
    )
    return StepReply(text=text, calls=asked, **known)


def says(text: str, **known: Any) -> StepReply:
    """Make a reply without calls."""
    return StepReply(text=text, **known)


def word(turn: Turn, call: int, *, allow: bool = True, **known: Any) -> Permission:
    """Make a person's word on a call as they saw it."""
    [seen] = (one for one in turn.calls.questions if one.call == call)
    said = {"run_id": seen.run_id, "digest": seen.digest, **known}
    return Permission(call=call, allow=allow, **said)


class Driven:
    """A turn, and what a workflow would do with it.

    Each reply takes `reply_seconds`, and each wave of calls `tool_seconds`. A call of a path that
    begins with `bad` fails; people allow what they are asked, but for paths with `no`.
    """

    def __init__(
        self,
        replies: Iterable[StepReply],
        *,
        tools: Sequence[Tool] = TOOLS,
        rules: Sequence[ToolRule] = (),
        reply_seconds: float = 1,
        tool_seconds: float = 1,
        reflections: Iterable[str | None] = (),
        **request: Any,
    ) -> None:
        """Begin the turn."""
        known = ToolTurnRequest.model_validate({"message": "Why?", **request})
        self.turn = Turn(known, started=START)
        level = thinking(known.think_level, has_effort=True)
        self.turn.begin(tools, rules, level, native=True)
        self.replies, self.reflections = iter(replies), iter(reflections)
        self.reply_seconds, self.tool_seconds = reply_seconds, tool_seconds
        self.now = START
        self.ran: list[str] = []
        self.asked: list[str] = []
        self.time_outs: list[int | None] = []
        self.systems: list[str] = []

    def run(self) -> "Driven":
        """Do what the decisions say until one stops."""
        for _ in range(500):
            decision = self.turn.decide(self.now)
            if decision.stop:
                return self
            getattr(self, str(decision.next))()
        raise AssertionError("the turn does not end")

    def later(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def ask(self) -> None:
        self.systems.append(self.turn.system)
        self.later(self.reply_seconds)
        self.turn.replied(next(self.replies))

    def call_tools(self) -> None:
        made = self.turn.calls
        for wave in made.waves():
            for index in [call.index for call in wave]:
                if made.admit(index, self.now).status == "waiting":
                    made.judge(index, self.now)
            self.ask_person()
            going = [made.made[call.index] for call in wave]
            going = [call for call in going if call.status == "waiting"]
            self.later(self.tool_seconds if going else 0)
            for call in going:
                path = str(call.given.get("path"))
                self.ran.append(f"{call.tool} {path}")
                status: CallStatus = "error" if path.startswith("bad") else "ok"
                made.finish(call.index, status, f"result of {path}")

    def ask_person(self) -> None:
        for call in self.turn.calls.with_status("asking"):
            self.asked.append(call.words)
            self.turn.turn_budget.begin_wait(self.now)
            self.turn.turn_budget.end_wait(self.later(3_600))
            allow = "no" not in str(call.given.get("path"))
            said = word(self.turn, call.index + 1, allow=allow, why="" if allow else "not now")
            assert self.turn.calls.refuses(said) is None
            self.turn.calls.permit(said, "ann", self.now)

    def reflect(self) -> None:
        seconds = self.turn.begin_reflection(self.now)
        self.time_outs.append(seconds)
        if seconds is None:
            return
        self.turn.reflected(next(self.reflections, "going well"), self.now)

    def compact(self) -> None:
        self.turn.compacted(next(self.reflections, "a summary"))
