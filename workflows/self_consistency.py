"""Sample answers to a question until a stopping rule says that they have converged."""

from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.server import ServerActivities
    from reflection.convergence import outcome
    from reflection.convergence.answers.kinds import read_answer
    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import (
        Decision,
        Finish,
        PersonsAnswer,
        Progress,
        Response,
        SelfConsistencyResult,
    )
    from reflection.convergence.sampling import Sampling
    from workflows import failures, visibility
    from workflows.meanings import Meanings
    from workflows.samples import Samples
    from workflows.timeouts import LOCAL


@workflow.defn(failure_exception_types=[ValidationError])
class SelfConsistencyWorkflow:
    """Ask in waves, count votes by index, and stop when the rule, a bound or a person says so."""

    @workflow.init
    def __init__(self, request: SelfConsistencyRequest | None = None) -> None:
        """Begin with nothing asked yet."""
        self._request = request or SelfConsistencyRequest.model_construct(question="")
        self._sampling = Sampling(self._request)
        self._samples = Samples(self._request)
        self._meanings = Meanings(self._request, self._sampling)
        self._view = visibility.View(self._sampling)
        self._put_in: list[Response] = []
        self._next_index = 0
        self._finish: Finish | None = None

    @workflow.run
    async def run(self, request: SelfConsistencyRequest | None = None) -> SelfConsistencyResult:
        """Sample until a decision says stop, and return the result."""
        if request is None:
            raise failures.no_request()
        with visibility.run_span(request) as span:
            await self._prepare()
            while not self._sampling.stopped:
                await self._wave()
            return self._view.conclude(span)

    @workflow.query(description="Where the run stands: votes, confidence, entropy, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        return outcome.progress(self._sampling, self._samples.waiting)

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
        if read_answer(self._request.answers, given.answer) is None:
            raise failures.refusal(f"the answer can't be read as {self._request.answers}")

    @workflow.update(description="End the run with the answers that are in")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._finish = by or Finish()

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:  # noqa: ARG002 - the update's own
        self._refuse_when_finished()

    def _refuse_when_finished(self) -> None:
        if self._sampling.stopped or self._finish is not None:
            raise failures.refusal("the run is finished already")

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    async def _prepare(self) -> None:
        registered = await workflow.execute_local_activity_method(
            ServerActivities.registered_search_attributes, start_to_close_timeout=LOCAL
        )
        self._view.use(registered)

    async def _wave(self) -> None:
        """Ask for as many answers as can't be wasted and count them, unless the run must end."""
        if self._end_from_outside():
            return
        plan = self._sampling.plan()
        if plan.stop_reason is not None:
            visibility.decided(self._sampling.stop(plan.stop_reason, plan.reason))
            return
        with visibility.wave(self._sampling.begin_wave(plan.length), plan.length):
            await self._sample(plan.length)
            await self._count([*self._samples.collect(), *self._take_put_in()])
        if not self._sampling.stopped:
            self._view.counted()

    def _end_from_outside(self) -> bool:
        left = self._seconds_left()
        if self._finish is not None:
            by = self._finish.author
            said = f"finished by {by or 'a person'}"
            visibility.decided(self._sampling.stop("finished_by_person", said, by))
        elif left is not None and left <= 0:
            said = f"the {self._request.budget_seconds:g} seconds are over"
            visibility.decided(self._sampling.stop("deadline", said))
        return self._sampling.stopped

    def _seconds_left(self) -> float | None:
        if self._request.budget_seconds is None:
            return None
        used = workflow.now() - workflow.info().start_time
        return self._request.budget_seconds - used.total_seconds()

    async def _sample(self, length: int) -> None:
        for _ in range(length):
            self._samples.start(self._take_index())
        self._view.asked(length)
        left = self._seconds_left()
        self._sampling.cancelled += await self._samples.settle(
            lambda: self._finish is not None, None if left is None else max(0.0, left)
        )

    async def _named(self, response: Response) -> Response:
        return await self._meanings.named(response, self._interrupted)

    def _interrupted(self) -> bool:
        left = self._seconds_left()
        return self._finish is not None or (left is not None and left <= 0)

    def _take_put_in(self) -> list[Response]:
        put_in, self._put_in = self._put_in, []
        return put_in

    async def _count(self, responses: list[Response]) -> None:
        """Count by index, a wave's replies before what people put in meanwhile."""
        while responses:
            for response in responses:
                visibility.decided(self._sampling.count(await self._named(response)))
            responses = self._take_put_in()
