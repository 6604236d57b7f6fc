"""Run every item by every variant as child workflows, a bounded number at a time."""

import asyncio

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.batch.loop import Batch
    from reflection.batch.request import BatchRequest, Planned
    from reflection.batch.result import BatchProgress, BatchResult, RunResult
    from reflection.batch.sheet import standing
    from reflection.sheet import Sheet
    from reflection.text import encoded_size
    from workflows import base
    from workflows.base import Workflow
    from workflows.calls import SOMEBODY


@workflow.defn(failure_exception_types=[ValidationError])
class BatchWorkflow(Workflow):
    """Make the runs of a plan; a run that fails is recorded and does not fail the batch."""

    request_type = BatchRequest

    @workflow.init
    def __init__(self, request: BatchRequest) -> None:
        """Begin with the runs that are carried over alone."""
        super().__init__()
        self._request = request
        self._batch = Batch(request, workflow.info().workflow_id)
        self._tasks: dict[Planned, asyncio.Task[None]] = {}
        self._made = 0

    @workflow.run
    async def run(self, request: BatchRequest) -> BatchResult:
        """Make every run that fits the budgets, and return what became of each."""
        if encoded_size(workflow.info().workflow_id) > request.id_bytes:
            said = f"workflow id over {request.id_bytes} bytes; the ids of the runs begin with it"
            raise ApplicationError(said, type=base.INVALID_REQUEST, non_retryable=True)
        with self._running(**{"batch.runs": request.total}) as span:
            await self._find_attributes()
            try:
                await self._make_runs()
            except asyncio.CancelledError:
                await self._cancel_runs()
                raise
            if not self._batch.over:
                # Go on in a new history, with the records of all runs so far.
                carried = {"carried": self._batch.carried()}
                workflow.continue_as_new(request.model_copy(update=carried))
            return self._conclude(span)

    def _progress(self) -> BatchProgress:
        return self._batch.progress()

    def _sheet(self) -> Sheet:
        return standing(self._batch)

    def _has_ended(self) -> bool:
        return self._batch.stop_reason is not None

    def _warn(self, warning: str) -> None:
        self._batch.warnings.append(warning)

    async def _make_runs(self) -> None:
        """Start runs as slots become free, until none is left or this history is full."""
        while self._people.finish is None:
            planned = None if self._full else self._batch.next()
            if planned is not None:
                self._tasks[planned] = asyncio.create_task(self._make(planned))
            elif self._tasks:
                await self._until_one_ends()
            else:
                return
        by = self._people.finish.author or SOMEBODY
        self._batch.stop("finished_by_person", f"finished by {by}")
        await self._cancel_runs()

    @property
    def _full(self) -> bool:
        """Whether the history is long enough; it goes on in a new one once nothing is in flight."""
        started = self._made + len(self._tasks)
        suggested = workflow.info().is_continue_as_new_suggested()
        return started > 0 and (suggested or started >= self._request.runs_per_execution)

    async def _until_one_ends(self) -> None:
        made = self._made
        await workflow.wait_condition(lambda: self._made > made or self._people.finish is not None)

    async def _cancel_runs(self) -> None:
        """Cancel the runs in flight, and wait until each has ended."""
        for task in self._tasks.values():
            task.cancel()
        await workflow.wait_condition(lambda: not self._tasks)

    async def _make(self, planned: Planned) -> None:
        """Make one run to its end, whatever that is."""
        try:
            result: RunResult = await workflow.execute_child_workflow(
                self._request.variants[planned.variant].workflow,
                self._request.fields_of(planned),
                id=self._batch.id_of(planned),
                result_type=RunResult,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                # A run that has a result is never paid for again.
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                static_summary=self._batch.summary_of(planned),
            )
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled_exception(error):
                self._batch.ended(planned, "cancelled")
            else:
                self._batch.ended(planned, "failed", error=why_it_failed(error))
        else:
            self._batch.ended(planned, "completed", result.usage)
        del self._tasks[planned]
        self._made += 1

    def _conclude(self, span: Span) -> BatchResult:
        result = self._batch.result()
        self._write(
            telemetry.STOP_REASON.value_set(result.stop_reason),
            base.set_or_clear(telemetry.TOKENS, result.tokens),
            base.set_or_clear(telemetry.COST_USD, result.cost_usd),
        )
        workflow.upsert_memo(
            {"stop_reason": result.stop_reason, "stop_explanation": result.stop_explanation}
        )
        counts = result.model_dump(include={"completed", "failed", "cancelled", "not_started"})
        span.set_attributes({f"mull.batch.{name}": count for name, count in counts.items()})
        span.set_attribute("mull.stop_reason", result.stop_reason)
        return result


def why_it_failed(error: BaseException) -> str:
    """Say in one line why a child workflow has no result."""
    if isinstance(error, WorkflowAlreadyStartedError):
        return "a workflow with this id has already run"
    cause = error.cause if isinstance(error, ChildWorkflowError) else error
    if isinstance(cause, ApplicationError):
        return f"{cause.type}: {cause.message}"
    return f"{type(cause).__name__}: {cause}"
