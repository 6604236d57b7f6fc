"""Sample answers to a question until a stopping rule says that they have converged."""

from typing import Self

from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from reflection.convergence import outcome
    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import (
        Decision,
        PersonsAnswer,
        Progress,
        Response,
        SelfConsistencyResult,
    )
    from reflection.convergence.rules.settings import StopReason
    from reflection.convergence.sampling import Sampling
    from reflection.review import Finish, Review
    from reflection.sampling.answers import read_answer
    from workflows import failures
    from workflows.calls import Patience
    from workflows.sampling import view
    from workflows.sampling.meanings import Meanings
    from workflows.sampling.reviews import AnswerReview, refuse_answer
    from workflows.sampling.samples import Samples
    from workflows.visibility import run_span


@workflow.defn(failure_exception_types=[ValidationError])
class SelfConsistencyWorkflow:
    """Ask in waves, count votes by index, and stop when the rule, a bound or a person says so."""

    def __new__(cls, *inputs: object) -> Self:
        """Refuse any start without the one request, which would else fail each workflow task."""
        if len(inputs) != 1 or not isinstance(inputs[0], SelfConsistencyRequest):
            raise failures.no_request("question")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: SelfConsistencyRequest) -> None:
        """Begin with nothing asked yet."""
        self._request = request
        self._sampling = Sampling(request)
        self._samples = Samples(request)
        self._meanings = Meanings(request, self._sampling)
        self._view = view.View(self._sampling)
        self._put_in: list[Response] = []
        self._next_index = 0
        self._finish: Finish | None = None
        self._review = AnswerReview(self._sampling, self._view, lambda: self._finish)
        self._patience = Patience(lambda: self._finish is not None, self._seconds_left)

    @workflow.run
    async def run(self, request: SelfConsistencyRequest) -> SelfConsistencyResult:
        """Sample until a decision says stop, and return the result."""
        known = {"mull.rule": request.rule, "mull.max_responses": request.max_responses}
        with run_span(known) as span:
            await self._view.prepare()
            while not self._sampling.stopped:
                await self._wave()
            if self._sampling.waits_for_review:
                await self._review.hold()
            return self._view.conclude(span)

    @workflow.query(description="Where the run stands: votes, confidence, entropy, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        return outcome.progress(
            self._sampling,
            self._samples.waiting,
            needs_review=self._review.reviewing.waiting,
            review_until=self._review.reviewing.until,
        )

    @workflow.query(description="Each decision so far, with every number it was based on")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return self._sampling.decisions

    @workflow.update(description="Put in an answer of your own: a vote, after the wave in flight")
    def add_answer(self, given: PersonsAnswer) -> int:
        """Take a person's answer as the next vote, and return its index."""
        response = Response(
            index=self._take_index(),
            answer=given.answer,
            vote=read_answer(self._request.answers, given.answer),
            timestamp=workflow.now(),
            author=given.author or "a person",
            attempts=0,
        )
        self._put_in.append(response)
        return response.index

    @add_answer.validator
    def _takes_answer(self, given: PersonsAnswer) -> None:
        self._refuse_when_finished()
        if not isinstance(given, PersonsAnswer):
            raise failures.refusal('give one JSON object, such as {"answer": "..."}')
        if self._next_index >= self._request.max_responses:
            raise failures.refusal("the run has asked for all the answers it may have")
        refuse_answer(self._request, given.answer)

    @workflow.update(description="Accept or replace an answer that waits for you")
    def review(self, given: Review) -> None:
        """Take what a person says of the answer."""
        self._review.reviewing.take(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        self._review.refuse(given)

    @workflow.update(description="End the run with the answers that are in")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._finish = by or Finish()

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        if not self._review.reviewing.waiting:
            self._refuse_when_finished()
        if not (by is None or isinstance(by, Finish)):
            raise failures.refusal('give nothing, or one JSON object, such as {"author": "..."}')

    def _refuse_when_finished(self) -> None:
        if self._sampling.stopped or self._finish is not None:
            raise failures.refusal("the run is finished already")

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    async def _wave(self) -> None:
        """Ask for as many answers as can't be wasted and count them, unless the run must end."""
        await self._count([])
        if self._sampling.stopped or self._end_from_outside():
            return
        plan = self._sampling.plan()
        if plan.stop_reason is not None:
            self._stop(plan.stop_reason, plan.reason)
            return
        with view.wave(self._sampling.begin_wave(plan.length), plan.length):
            await self._sample(plan.length)
            await self._count(self._samples.collect())
        if not self._sampling.stopped:
            self._view.counted()

    def _end_from_outside(self) -> bool:
        if self._finish is not None:
            by = self._finish.author
            said = f"finished by {by or 'a person'}"
            self._stop("finished_by_person", said, by)
        elif self._patience.over:
            said = f"the {self._request.budget_seconds:g} seconds are over"
            self._stop("deadline", said)
        return self._sampling.stopped

    def _stop(self, reason: StopReason, said: str, author: str | None = None) -> None:
        view.decided(self._sampling.stop(reason, said, author, workflow.now()))

    def _seconds_left(self) -> float | None:
        if self._request.budget_seconds is None:
            return None
        used = workflow.now() - workflow.info().start_time
        return self._request.budget_seconds - used.total_seconds()

    async def _sample(self, length: int) -> None:
        for _ in range(length):
            self._samples.start(self._take_index())
        self._view.asked(length)
        self._sampling.cancelled += await self._samples.settle(self._patience)

    async def _count(self, responses: list[Response]) -> None:
        """Count by index: a wave's replies, then what people put in meanwhile."""
        waiting = responses
        while waiting := waiting or self._take_put_in():
            response = await self._meanings.named(waiting.pop(0), self._patience)
            more = bool(waiting or self._put_in)
            view.decided(self._sampling.count(response, more_follow=more, at=workflow.now()))

    def _take_put_in(self) -> list[Response]:
        put_in, self._put_in = self._put_in, []
        return put_in
