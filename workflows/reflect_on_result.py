"""Evaluate a draft, feed back what is wrong, revise it, and keep the best."""

from typing import Self

from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.critique.request import ReflectOnResultRequest
    from reflection.critique.result import Decision, Progress, ReflectOnResultResult
    from reflection.run import Finish, Review, encoded_size
    from workflows import failures
    from workflows.critique.rounds import Rounds
    from workflows.visibility import run_span


@workflow.defn(failure_exception_types=[ValidationError])
class ReflectOnResultWorkflow:
    """Revise a draft until its score, a bound or a person says so; nothing loses the best one."""

    def __new__(cls, *inputs: object) -> Self:
        """Refuse any start without the one request, which would else fail each workflow task."""
        if len(inputs) != 1 or not isinstance(inputs[0], ReflectOnResultRequest):
            raise failures.no_request("query")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: ReflectOnResultRequest) -> None:
        """Begin with nothing written yet."""
        self._request = request
        self._rounds = Rounds(request)

    @workflow.run
    async def run(self, request: ReflectOnResultRequest) -> ReflectOnResultResult:
        """Draft, evaluate, revise, ask a person where that is wanted, and return the result."""
        known: dict[str, str | int | float] = {
            "mull.criteria": request.criteria_name,
            "mull.threshold": request.score_threshold,
            "mull.max_revisions": request.max_revisions,
        }
        with run_span(known) as span:
            await self._rounds.begin()
            await self._rounds.reflect()
            while not self._rounds.state.stopped:
                await self._rounds.review()
                await self._rounds.reflect()
            return self._rounds.view.conclude(span)

    @workflow.query(description="Where the run stands: drafts, evaluations, the best, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        return self._rounds.standing()

    @workflow.query(description="Each decision so far, with every number it was based on")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return self._rounds.state.decisions

    @workflow.update(description="Accept, revise, replace or score a result that waits for you")
    def review(self, given: Review) -> None:
        """Take what a person says of the result."""
        self._rounds.reviewing.take(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        self._rounds.reviewing.refuse_unless_waiting()
        if not isinstance(given, Review):
            raise failures.refusal('give one JSON object, such as {"accept": true}')
        best = self._rounds.state.best
        if given.draft is not None and best is not None and given.draft != best.index:
            raise failures.refusal(f"draft {best.index + 1} is under review by now")
        if encoded_size(given.replace or "") > self._request.draft_bytes:
            raise failures.refusal(f"the text is over {self._request.draft_bytes:,} bytes")
        reason = self._rounds.no_more_revisions() if given.revise is not None else None
        if reason is not None:
            raise failures.refusal(f"nothing can be revised any more: {reason}")

    @workflow.update(description="End the run with the best draft so far")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._rounds.finish = by or Finish()

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        if self._rounds.state.stopped or self._rounds.finish is not None:
            raise failures.refusal("the run is finished already")
        if not (by is None or isinstance(by, Finish)):
            raise failures.refusal('give nothing, or one JSON object, such as {"author": "..."}')
