"""Waiting, durably, for a person to say what becomes of a result."""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.run import Review
    from workflows import failures


class Reviewing:
    """The wait for a person's review; `finished` tells that the run shall end instead."""

    def __init__(self, finished: Callable[[], bool]) -> None:
        self._finished = finished
        self._given: Review | None = None
        self._since: datetime | None = None
        self._waited = timedelta()
        self.until: datetime | None = None

    @property
    def waiting(self) -> bool:
        """Whether a review is waited for, and none has come."""
        return self._since is not None and self._given is None

    def waited(self) -> timedelta:
        """Tell how long the run has waited for people, in all."""
        now = timedelta() if self._since is None else workflow.now() - self._since
        return self._waited + now

    def refuse_unless_waiting(self) -> None:
        """Raise ApplicationError, which refuses an update, unless a review is waited for."""
        if not self.waiting or self._finished():
            raise failures.refusal("the run does not wait for a review")

    def take(self, given: Review) -> None:
        """Take a person's review."""
        self._given = given

    def begin(self, seconds: float | None) -> None:
        """Begin to wait: from now on a review is taken, for so many seconds, or for ever."""
        self._since, self._given = workflow.now(), None
        self.until = None if seconds is None else self._since + timedelta(seconds=seconds)

    async def wait(self) -> Review | None:
        """Wait for a review; None where the run shall end instead. Raises TimeoutError."""
        left = None if self.until is None else self.until - workflow.now()
        try:
            await workflow.wait_condition(
                lambda: self._given is not None or self._finished(), timeout=left
            )
        finally:
            self._waited, self._since, self.until = self.waited(), None, None
        given, self._given = self._given, None
        return given
