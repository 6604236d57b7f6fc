"""What ends or delays a run: a person's review, a request to end it, and the deadline."""

from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

with workflow.unsafe.imports_passed_through():
    from reflection.run import Finish, Review

SOMEBODY = "a person"


def refusal(reason: str) -> ApplicationError:
    """Make the refusal of an update, which changes nothing."""
    return ApplicationError(reason, type="Refused", non_retryable=True)


class OneInput(Interceptor):
    """Has each update with no or several inputs refused in words, as one wrong input is."""

    def workflow_interceptor_class(
        self, _: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the part that sees the updates of a run."""
        return _OneInput


class _OneInput(WorkflowInboundInterceptor):
    def handle_update_validator(self, call: HandleUpdateInput) -> None:
        """Hand the validator one input, whatever was given: None or all of them together."""
        if len(call.args) != 1:
            call.args = [call.args or None]
        super().handle_update_validator(call)


class People:
    """A person's input to a run: the review that it waits for, and a request to end it.

    `budget_seconds` is the time until the deadline, None without one; waiting for people is free.
    """

    def __init__(self, budget_seconds: float | None = None) -> None:
        self._budget_seconds = budget_seconds
        self._given: Review | None = None
        self._since: datetime | None = None
        self._waited = timedelta()
        self.finish: Finish | None = None
        self.until: datetime | None = None

    @property
    def waiting(self) -> bool:
        """True while a review is waited for, and none has come."""
        return self._since is not None and self._given is None

    @property
    def over(self) -> bool:
        """True once the run must not wait for anything more."""
        left = self.seconds_left()
        # Less than a timer's resolution counts as nothing left, or waves would be cut off for ever.
        return self.finish is not None or (left is not None and left < 0.001)

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline, None without one."""
        if self._budget_seconds is None:
            return None
        used = workflow.now() - workflow.info().start_time - self._waited_in_all()
        return self._budget_seconds - used.total_seconds()

    def review(self, given: Review) -> None:
        """Take a review."""
        self._given = given

    def begin_wait(self, seconds: float | None) -> None:
        """Begin to wait: from now on a review is taken, for so many seconds, or for ever."""
        self._since, self._given = workflow.now(), None
        self.until = None if seconds is None else self._since + timedelta(seconds=seconds)

    async def wait(self) -> Review | Finish | None:
        """Wait for a review, or for the wish to end; None where neither came in time."""
        left = None if self.until is None else self.until - workflow.now()
        try:
            await workflow.wait_condition(
                lambda: self._given is not None or self.finish is not None, timeout=left
            )
        except TimeoutError:
            return None
        finally:
            self._waited, self._since, self.until = self._waited_in_all(), None, None
        return self._given or self.finish

    def _waited_in_all(self) -> timedelta:
        now = timedelta() if self._since is None else workflow.now() - self._since
        return self._waited + now
