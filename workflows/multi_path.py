"""Retrieve, route, then research or code: each draft is reflected on or tested, and mended."""

from typing import Self

from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.multipath.request import MultiPathRequest
    from reflection.multipath.result import Decision, MultiPathResult, Progress
    from reflection.run import Finish, Review
    from workflows import failures
    from workflows.multipath.path import Path
    from workflows.visibility import run_span


@workflow.defn(failure_exception_types=[ValidationError])
class MultiPathWorkflow:
    """Write a report or code until nothing is left to mend, or a bound or a person says so."""

    def __new__(cls, *inputs: object) -> Self:
        """Refuse any start without the one request, which would else fail each workflow task."""
        if len(inputs) != 1 or not isinstance(inputs[0], MultiPathRequest):
            raise failures.no_request("prompt")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: MultiPathRequest) -> None:
        """Begin with S as the source has it: P, and nothing else."""
        self._path = Path(request)

    @workflow.run
    async def run(self, _: MultiPathRequest) -> MultiPathResult:
        """Walk from node to node, ask a person where that is wanted, and return the result."""
        with run_span({}) as span:
            await self._path.view.prepare()
            await self._path.walk()
            while not self._path.run.stopped:
                await self._path.review()
                await self._path.walk()
            return self._path.view.conclude(span)

    @workflow.query(description="Where the run stands: path, sources, drafts, tests, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        return self._path.standing()

    @workflow.query(description="Each transition so far, with every number it was based on")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return self._path.run.decisions

    @workflow.update(description="Accept, revise or replace a result that waits for you")
    def review(self, given: Review) -> None:
        """Take what a person says of the result."""
        self._path.reviewing.take(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        self._path.reviewing.refuse_unless_waiting()
        if not isinstance(given, Review):
            raise failures.refusal('give one JSON object, such as {"accept": true}')
        reason = self._path.refused(given)
        if reason is not None:
            raise failures.refusal(reason)

    @workflow.update(description="End the run with the best draft so far")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._path.finish = by or Finish()

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        if self._path.run.stopped or self._path.finish is not None:
            raise failures.refusal("the run is finished already")
        if not (by is None or isinstance(by, Finish)):
            raise failures.refusal('give nothing, or one JSON object, such as {"author": "..."}')
