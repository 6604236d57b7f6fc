"""Waiting for calls that a person, the deadline or a cancellation may end before their time."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Patience:
    """What ends a wait early: whoever asks for it, and the seconds left, None for no deadline."""

    interrupted: Callable[[], bool]
    seconds_left: Callable[[], float | None]

    @property
    def over(self) -> bool:
        """Whether nothing more shall be waited for."""
        left = self.seconds_left()
        # Less than a timer can wait is nothing left: else a wave would be cut off for ever.
        return self.interrupted() or (left is not None and left < 0.001)


async def settle(
    calls: Iterable[workflow.ActivityHandle[Any]],
    patience: Patience,
    enough: Callable[[], bool] = lambda: False,
) -> int:
    """Wait for all calls, for `enough`, or until patience is over; cancel those that still run.

    Return how many were cancelled.
    """
    awaited = list(calls)
    left = patience.seconds_left()
    try:
        await workflow.wait_condition(
            lambda: patience.interrupted() or enough() or all(call.done() for call in awaited),
            timeout=None if left is None else timedelta(seconds=max(0.0, left)),
        )
        if patience.interrupted():
            # The SDK hands over an update before the replies of the same workflow task. A reply
            # that came first shall count, on every replay, and the next task has both.
            await workflow.sleep(timedelta(milliseconds=1))
    except TimeoutError:
        workflow.logger.info("the deadline passed while calls were under way")
    finally:
        waiting = [call for call in awaited if not call.done()]
        for call in waiting:
            call.cancel()
    return len(waiting)


@dataclass(frozen=True)
class Reply(Generic[Value]):
    """What became of one call: a value, an error, or neither where it was cut short."""

    value: Value | None = None
    error: ActivityError | None = None


class Calls:
    """Calls that are awaited one by one, or side by side; `in_flight` counts those under way.

    `lost` is told how many were cancelled.
    """

    def __init__(self, patience: Patience, lost: Callable[[int], None]) -> None:
        self._patience = patience
        self._lost = lost
        self.in_flight = 0

    @property
    def over(self) -> bool:
        """Whether nothing more shall be asked."""
        return self._patience.over

    async def reply(self, call: workflow.ActivityHandle[Value]) -> Reply[Value]:
        """Wait for a call, unless patience ends before it."""
        self.in_flight += 1
        try:
            self._lost(await settle([call], self._patience))
        except asyncio.CancelledError:
            self._lost(1)
            raise
        finally:
            self.in_flight -= 1
        if not call.done() or call.cancelled():
            return Reply()
        error = call.exception()
        if error is None:
            return Reply(value=call.result())
        if not isinstance(error, ActivityError):
            raise error
        return Reply(error=error)
