"""What each queue's worker is configured with, as its own process sees it: for `mull doctor`."""

import asyncio
from datetime import timedelta

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.doctor import Check, DoctorRequest, DoctorResult, Examination
    from workflows.calls import explain, priority, require

# Long enough for the sandbox's self-test and a call of a slow model. A queue without workers fails
# by the first.
TO_START, TO_END = timedelta(seconds=10), timedelta(seconds=60)


@workflow.defn(failure_exception_types=[ValidationError])
class DoctorWorkflow:
    """Examine the worker of each queue, side by side; one that does not answer is a finding."""

    def __new__(cls, *inputs: object) -> "DoctorWorkflow":
        """Reject a start without a valid request, which would fail every workflow task."""
        require(DoctorRequest, inputs, '{"offline": true}')
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: DoctorRequest) -> None:
        """Begin with nothing examined."""

    @workflow.run
    async def run(self, request: DoctorRequest) -> DoctorResult:
        """Ask each worker once."""
        found = await asyncio.gather(*(self._examine(queue, request) for queue in request.queues))
        return DoctorResult(checks=tuple(check for checks in found for check in checks))

    async def _examine(self, queue: str, request: DoctorRequest) -> list[Check]:
        try:
            return await workflow.execute_activity_method(
                Examination.examine,
                request,
                task_queue=queue,
                summary=queue,
                priority=priority(),
                schedule_to_start_timeout=TO_START,
                start_to_close_timeout=TO_END,
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError as error:
            said = f"The worker could not be examined: {explain(error)}"
            return [Check("workers", f"{queue}, examined", "wrong", said)]
