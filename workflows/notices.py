"""Notices to a webhook: each is a run of its own, and no other run waits for it or fails by it."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from activities.webhook import Notice, WebhookActivities
    from workflows.calls import require

# The last of six attempts is made about six minutes after the first.
ONE_ATTEMPT = timedelta(seconds=20)
ATTEMPTS = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=4.0,
    maximum_interval=timedelta(minutes=5),
    maximum_attempts=6,
)


@workflow.defn(failure_exception_types=[ValidationError])
class WebhookWorkflow:
    """Post one notice, and try again until it is accepted or the attempts are used up."""

    def __new__(cls, *inputs: object) -> "WebhookWorkflow":
        """Reject a start without a valid request, which would fail every workflow task."""
        require(Notice, inputs, '{"event": "waiting", ...}')
        return super().__new__(cls)

    @workflow.init
    def __init__(self, notice: Notice) -> None:
        """Begin with nothing sent."""

    @workflow.run
    async def run(self, notice: Notice) -> None:
        """Post it. Raises ActivityError where no attempt is accepted."""
        await workflow.execute_activity_method(
            WebhookActivities.send_notice,
            notice,
            start_to_close_timeout=ONE_ATTEMPT,
            retry_policy=ATTEMPTS,
        )


def tell(event: Literal["waiting", "failed"], **reason: str | None) -> "asyncio.Task[Any]":
    """Start the run that posts a notice of this one. The task ends once that run has started."""
    info = workflow.info()
    notice = Notice(
        id=f"webhook-{workflow.uuid4()}",
        event=event,
        workflow_id=info.workflow_id,
        run_id=info.run_id,
        workflow_type=info.workflow_type,
        time=workflow.now(),
        **reason,
    )
    started = workflow.start_child_workflow(
        WebhookWorkflow.run,
        notice,
        id=notice.id,
        parent_close_policy=workflow.ParentClosePolicy.ABANDON,
    )
    return asyncio.create_task(started)


async def tell_failure(error: BaseException) -> None:
    """Send a notice of the error that this run is about to end with, by its type.

    Children send none: their parent says how they ended, as a batch does of its lines. The server
    starts no child of a run that has ended, so wait for the child's start.
    """
    if workflow.info().parent is not None:
        return
    kind = getattr(error, "type", None) or type(error).__name__
    with suppress(FailureError, asyncio.CancelledError):
        await asyncio.shield(tell("failed", error_type=kind))
