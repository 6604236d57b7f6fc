"""The port through which `doctor` asks a worker what it is configured with."""

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from temporalio import activity

from connection import CODEC, chosen_codec
from reflection.request import Record, Request

State = Literal["ok", "warning", "wrong"]


class Check(NamedTuple):
    """One check: its area and name, what was found, and lines that say what to do.

    `commands` can be copied to fix the problem.
    """

    area: str
    name: str
    state: State
    said: str
    do: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class DoctorRequest(Request):
    """The queues whose workers are examined; `offline` leaves out the calls of models."""

    queues: tuple[str, ...] = ("mull",)
    offline: bool = False


class DoctorResult(Record):
    """What the workers found, each in its own environment; keys by their names alone."""

    checks: tuple[Check, ...]


def encryption_check(where: str) -> Check:
    """Say whether this process encrypts payloads, and by which keys."""
    said = "off: the server holds all texts in the clear"
    if codec := chosen_codec():
        said = f"on: {getattr(codec, 'described', f'by the codec of {CODEC}')}"
    return Check("encryption", where, "ok", said)


Checks = Callable[[], Awaitable[list[Check]]]


class Examination:
    """Makes the checks that the worker of a queue is given; `calls` are those that call models."""

    def __init__(self, checks: Checks, calls: Checks | None = None) -> None:
        self._checks, self._calls = checks, calls

    @activity.defn
    async def examine(self, request: DoctorRequest) -> list[Check]:
        """Check what this worker needs, in its own process."""
        called = [] if request.offline or self._calls is None else await self._calls()
        encryption = encryption_check(activity.info().task_queue)
        return [*called, *await self._checks(), encryption]
