"""Run every item by every variant as child workflows, a bounded number at a time.

The items of a large batch come in pages. Each page is a batch of its own, in a child workflow that
is held from the moment the page is accepted, until its parent allows it to make runs. Parent and
page tell each other by signals, so that the parent goes on in new histories as often as it likes.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import Priority, WorkflowIDReusePolicy
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from mull import telemetry
    from mull.batch.loop import Batch, Pages
    from mull.batch.request import (
        BATCH_CONTINUES,
        ID_BYTES,
        REQUESTS,
        RUNS,
        BatchPage,
        BatchRequest,
        Planned,
    )
    from mull.batch.result import Allowance, BatchResult, PageEnd, RunResult
    from mull.batch.sheet import sheet, standing
    from mull.request import BATCH_PRIORITY, TASK_TIMEOUT, Finish
    from mull.sheet import Sheet
    from workflows import base
    from workflows.base import Workflow, refusal, refuse_if
    from workflows.calls import failure
    from workflows.children import Children, check_id, why_it_failed

# A page that is silent for so long is told again what it may do, or turns out to be gone.
SILENCE = timedelta(minutes=10)
CANCELLED_AT_ONCE = 100
# Pages that were accepted or have ended in one history, each of a dozen events.
PAGE_NEWS = 100
FAIRNESS_BYTES = 64


@workflow.defn(failure_exception_types=[ValidationError])
class BatchWorkflow(Workflow):
    """Make the runs of a plan; a run that fails is recorded and does not fail the batch."""

    request_type = BatchRequest
    _state: Batch | Pages

    @workflow.init
    def __init__(self, request: BatchRequest) -> None:
        """Begin with the runs that are carried over alone; a page may come before `run` begins."""
        identity = workflow.info().workflow_id
        self._request = request
        self._batch = Batch(request, identity)
        self._pages = Pages(request, identity)
        super().__init__(self._pages if request.pages else self._batch)
        self._children = Children()
        # Whether a signal or an update came, and whether the pages have to be told of it.
        self._news = False
        self._untold = bool(self._pages.in_flight)
        self._adding = asyncio.Lock()

    @workflow.run
    async def run(self, request: BatchRequest) -> BatchResult:
        """Make every run that fits the budgets, and return what became of each."""
        # The id of a page is made of its batch's.
        if request.page is None:
            check_id(ID_BYTES, "runs")
        with self._running(**{"batch.runs": request.total}) as span:
            try:
                await self._find_attributes()
                await self._make_all()
                # Updates that come meanwhile count too: a new history would lose them.
                await self._close()
            except asyncio.CancelledError:
                await self._close()
                await self._cancel_pages()
                await self._children.cancel()
                await self._tell_parent()
                raise
            if self._people.finish is not None and not self._state.over:
                self._state.finished(self._people.finish)
            if not self._state.over:
                # Go on in a new history, with the records of all runs so far.
                workflow.continue_as_new(self._state.going_on())
            await self._tell_parent()
            return self._conclude(span, self._state.result())

    @workflow.update(description="Add a page of items, and get the number of pages that are here")
    async def add_page(self, page: BatchPage) -> int:
        """Hold a page in a child workflow. The same page is taken once, however often it comes."""
        async with self._adding:
            refuse_if(self._pages.refuses(page))
            if not self._pages.has(page):
                await self._hold(page)
                self._pages.accept(page)
                self._children.steps += 1
                self._news = True
        return len(self._pages.accepted)

    @add_page.validator
    def _takes_page(self, page: BatchPage) -> None:
        if not isinstance(page, BatchPage):
            raise refusal('give one JSON object, such as {"number": 0, "items": [...]}')
        if not self._request.pages:
            raise refusal("this batch was started with its items")
        if self._people.finish is not None:
            raise refusal("the batch is being finished")
        refuse_if(self._pages.refuses(page))
        if (self._full or self._closing) and not self._pages.has(page):
            said = "the batch goes on in a new history: send the page again"
            raise failure(BATCH_CONTINUES, said)

    @workflow.update(description="Start no more runs until it is resumed")
    def pause(self, by: Finish | None = None) -> None:  # noqa: ARG002 - kept in the history
        """Start no more runs; those in flight go on."""
        self._pause(paused=True)

    @workflow.update(description="Go on after a pause")
    def resume(self, by: Finish | None = None) -> None:  # noqa: ARG002 - kept in the history
        """Start runs again."""
        self._pause(paused=False)

    @pause.validator
    @resume.validator
    def _takes_pause(self, by: Finish | None = None) -> None:
        if self._request.page is not None:
            raise refusal("this is a page of a batch: pause or resume the batch")
        if self._has_ended() or self._people.finish is not None:
            raise refusal("the batch has already stopped")
        if not (by is None or isinstance(by, Finish)):
            raise refusal('give nothing, or one JSON object, such as {"author": "..."}')

    @workflow.signal(description="A batch tells a page of its own what it may do")
    def allow(self, given: Allowance) -> None:
        """Make so many runs at once, or end."""
        if given.finish is not None and self._people.finish is None:
            self._people.finish = given.finish
        self._batch.allow(given)
        self._news = True

    @workflow.signal(description="A page tells its batch how it ended")
    def page_ended(self, end: PageEnd) -> None:
        """Add the page's runs to the sums."""
        self._pages.ended(end)
        self._children.steps += 1
        self._news = True

    def _progress(self) -> BatchResult:
        return self._state.progress()

    def _sheet(self) -> Sheet:
        return sheet(self._progress()) if self._request.pages else standing(self._batch)

    def _has_ended(self) -> bool:
        return self._state.stop_reason is not None

    def _pause(self, *, paused: bool) -> None:
        self._state.pause(paused=paused)
        self._news = self._untold = True

    async def _hold(self, page: BatchPage) -> None:
        """Start the workflow of a page, which waits until it is allowed to make runs."""
        fairness = workflow.info().workflow_id.encode()[:FAIRNESS_BYTES].decode(errors="ignore")
        identity = self._pages.id_of(page.number)
        try:
            held = await workflow.start_child_workflow(
                "BatchWorkflow",
                self._request.of_page(page),
                id=identity,
                task_timeout=TASK_TIMEOUT,
                # It outlives this history, and tells the next one how it ended.
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                static_summary=f"page {page.number + 1:,} of {self._request.pages:,}",
                priority=Priority(priority_key=BATCH_PRIORITY, fairness_key=fairness),
            )
        except WorkflowAlreadyStartedError:
            said = f"{identity} still runs, from an earlier batch: cancel it first"
            raise refusal(said) from None
        # The page signals how it ended.
        held.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _make_all(self) -> None:
        """Begin runs, or let pages go, until all have ended or this history is full.

        Runs in flight are waited for; pages tell the next history how they ended. Once the batch is
        to stop, the pages that were held are told so in the same order.
        """
        state, pages = self._state, self._pages
        while True:
            if self._people.finish is not None and state.finish is None:
                state.finished(self._people.finish)
                self._untold = True
                await self._children.cancel()
            if state.over or (self._full and not self._children.in_flight):
                return
            if self._untold:
                self._untold = False
                await self._tell(*pages.in_flight)
            elif not self._full and (planned := state.next()) is not None:
                if isinstance(planned, Planned):
                    self._children.begin(planned, self._make(planned))
                else:
                    await self._tell(planned)
            elif not state.over:
                await self._until_news(SILENCE if pages.in_flight and not pages.waits else None)

    async def _tell(self, *numbers: int) -> None:
        """Tell pages what they may do. One that ended without a report is lost."""
        for number in numbers:
            if number not in self._pages.in_flight:
                continue
            identity = self._pages.id_of(number)
            page = workflow.get_external_workflow_handle_for(BatchWorkflow.run, identity)
            try:
                # The SDK would swallow a cancellation that comes while a signal is on its way.
                allowed = page.signal(BatchWorkflow.allow, self._pages.allowance(number))
                await asyncio.shield(allowed)
            except FailureError:
                if number in self._pages.in_flight:
                    self._pages.lost(number)

    async def _tell_parent(self) -> None:
        """Tell the batch of this page how it ended; it may be gone."""
        parent = workflow.info().parent
        if self._request.page is not None and parent is not None:
            whole = workflow.get_external_workflow_handle_for(BatchWorkflow.run, parent.workflow_id)
            with suppress(FailureError):
                await whole.signal(BatchWorkflow.page_ended, self._batch.page_end())

    async def _cancel_pages(self) -> None:
        """Cancel the workflows of all pages that have not ended."""

        async def cancel(number: int) -> None:
            with suppress(FailureError):
                await workflow.get_external_workflow_handle(self._pages.id_of(number)).cancel()

        left = [*self._pages.in_flight, *range(self._pages.begun, len(self._pages.accepted))]
        for first in range(0, len(left), CANCELLED_AT_ONCE):
            await asyncio.gather(*map(cancel, left[first : first + CANCELLED_AT_ONCE]))

    @property
    def _full(self) -> bool:
        """Whether the history is long enough."""
        most = min(self._request.runs_per_execution, PAGE_NEWS if self._request.pages else RUNS)
        return self._children.steps > 0 and self._children.is_full(most)

    async def _until_news(self, silence: timedelta | None = None) -> None:
        """Wait until a run or a page has ended, or a signal or an update has come."""
        self._news = False
        try:
            await workflow.wait_condition(
                lambda: (
                    self._news
                    or (self._people.finish is not None and self._state.stop_reason is None)
                ),
                timeout=silence,
            )
        except TimeoutError:
            # Tell the pages in flight again what they may do, or find that they are gone.
            self._children.steps += 1
            self._untold = True

    def _timeout_of(self, planned: Planned) -> timedelta | None:
        """Return the time-out of a run's tasks; a request that is wrong fails by itself."""
        kind = REQUESTS[self._request.variants[planned.variant].workflow]
        with suppress(ValidationError):
            return kind.model_validate(self._request.fields_of(planned)).task_timeout()
        return None

    async def _make(self, planned: Planned) -> None:
        """Make one run to its end, whatever that is."""
        try:
            result: RunResult = await workflow.execute_child_workflow(
                self._request.variants[planned.variant].workflow,
                self._request.fields_of(planned),
                id=self._batch.id_of(planned),
                task_timeout=self._timeout_of(planned),
                result_type=RunResult,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                # A run that has a result is never paid for again.
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                static_summary=self._batch.summary_of(planned),
            )
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled_exception(error):
                run = self._batch.run(planned, "cancelled")
            else:
                run = self._batch.run(planned, "failed", error=why_it_failed(error))
        else:
            run = self._batch.run(planned, "completed", result.usage)
        self._batch.ended(run)
        self._news = True

    def _conclude(self, span: Span, result: BatchResult) -> BatchResult:
        tokens = base.set_or_clear(telemetry.TOKENS, result.tokens)
        cost = base.set_or_clear(telemetry.COST_USD, result.cost_usd)
        self._record_end(span, result, {}, tokens, cost)
        counts = result.model_dump(include={"completed", "failed", "cancelled", "not_started"})
        span.set_attributes({f"mull.batch.{name}": count for name, count in counts.items()})
        return result
