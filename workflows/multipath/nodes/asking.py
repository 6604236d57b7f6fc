"""Calls of a node: paid for, and made once more where their reply can't be read."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.multipath import Replied
    from reflection.multipath.loop import Run
    from reflection.multipath.result import StopReason
    from reflection.run import Part
    from workflows import failures
    from workflows.calls import Calls

Value = TypeVar("Value", bound=Replied)

AGAIN = " again: the reply could not be read"


class Ended(NamedTuple):
    """Why a run ends at a node, and not by the transition function; None: it was cut short."""

    reason: StopReason | None
    said: str = ""


class Lost(NamedTuple):
    """Why there is no reply that can be used: the error's kind, and its words."""

    kind: str
    said: str

    def __str__(self) -> str:
        """Say both on one line."""
        return f"{self.kind}: {self.said}"

    @property
    def failure(self) -> ApplicationError:
        """The failure of the run, where it can't do without the reply."""
        return ApplicationError(self.said, type=self.kind, non_retryable=True)


def lost(error: str | None) -> Lost:
    """Take a line with its kind before the colon apart."""
    kind, _, said = (error or "nothing came").partition(": ")
    return Lost(kind, said) if said and " " not in kind else Lost("NoReply", error or kind)


class Asking:
    """The calls of a run for language models."""

    def __init__(self, run: Run, calls: Calls) -> None:
        self._run = run
        self._calls = calls
        self._most = run.request.max_attempts

    async def read(
        self, part: Part, start: Callable[[str | None], workflow.ActivityHandle[Value]]
    ) -> Value | Lost | Ended:
        """Ask, and once more with what was wrong where the reply can't be read.

        The second reply counts, whatever it is: its `error` says where it can't be used.
        """
        reply = await self._reply(part, start(None))
        if isinstance(reply, Replied) and reply.unreadable:
            full = self._run.ledger.no_room(part)
            if self._calls.over or full:
                return Ended(None) if self._calls.over else Ended("budget", full or "")
            reply = await self._reply(part, start(reply.error))
        return reply

    async def _reply(
        self, part: Part, call: workflow.ActivityHandle[Value]
    ) -> Value | Lost | Ended:
        reply = await self._calls.reply(call)
        if reply.error is not None:
            tried = failures.attempts(reply.error, self._most)
            self._run.ledger.pay(part, None, tried)
            return lost(failures.explain(reply.error))
        if reply.value is None:
            return Ended(None)
        receipt = reply.value.receipt
        self._run.ledger.pay(part, receipt.spending, receipt.attempts)
        self._run.left_out(receipt.left_out)
        return reply.value
