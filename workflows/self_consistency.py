"""Sample answers to a question until a stopping rule says that they have converged."""

from typing import Self

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.run import Finish, Review, encoded_size, fitted
    from reflection.sampling import loop
    from reflection.sampling.answers import read_answer
    from reflection.sampling.loop import Sampling
    from reflection.sampling.request import SelfConsistencyRequest
    from reflection.sampling.result import (
        Decision,
        PersonsAnswer,
        Progress,
        Response,
        SelfConsistencyResult,
    )
    from reflection.sampling.rules import StopReason
    from reflection.sampling.sheet import sheet
    from workflows import base
    from workflows.people import SOMEBODY, People, refusal
    from workflows.samples import Meanings, Samples

# As many as the details have room for: they are written anew after each wave.
TOLD_DECISIONS = 40
# What spans show of a decision: numbers, and no answers, which are content.
NUMBERS = (
    "wave", "rule", "total_responses", "valid_responses", "leader_votes", "runner_up_votes",
    "confidence", "entropy", "normalized_entropy", "value", "bound", "stop", "stop_reason",
    "reason",
)  # fmt: skip


@workflow.defn(failure_exception_types=[ValidationError])
class SelfConsistencyWorkflow:
    """Ask in waves, count votes by index, and stop when the rule, a bound or a person says so."""

    def __new__(cls, *inputs: object) -> Self:
        """Reject a start without a valid request, which would fail every workflow task."""
        base.require_request(inputs, SelfConsistencyRequest, "question")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: SelfConsistencyRequest) -> None:
        """Begin with nothing asked yet."""
        self._request = request
        self._state = Sampling(request)
        self._people = People(request.budget_seconds)
        self._attributes = base.SearchAttributes()
        self._samples = Samples(request)
        self._meanings = Meanings(self._state, self._people)
        self._put_in: list[Response] = []
        self._next_index = 0

    @workflow.run
    async def run(self, request: SelfConsistencyRequest) -> SelfConsistencyResult:
        """Sample until a decision says stop, and return the result."""
        held_to = {"mull.rule": request.rule, "mull.max_responses": request.max_responses}
        with base.run_span(held_to) as span:
            await self._attributes.find(self._state.warn)
            while not self._state.stopped:
                await self._wave()
            if self._state.waits_for_review:
                await self._wait_for_review()
            return self._conclude(span)

    @workflow.query(description="Where the run stands: votes, confidence, entropy, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        return loop.progress(
            self._state,
            self._samples.waiting,
            needs_review=self._people.waiting,
            review_until=self._people.until,
            added=len(self._put_in),
        )

    @workflow.query(description="Each decision so far, with every number it was based on")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return self._state.decisions

    @workflow.update(description="Put in an answer of your own: a vote, after the wave in flight")
    def add_answer(self, given: PersonsAnswer) -> int:
        """Take a person's answer as the next vote, and return its index."""
        response = Response(
            index=self._take_index(),
            answer=given.answer,
            vote=read_answer(self._request.answers, given.answer),
            timestamp=workflow.now(),
            author=given.author or SOMEBODY,
            attempts=0,
        )
        self._put_in.append(response)
        return response.index

    @add_answer.validator
    def _takes_answer(self, given: PersonsAnswer) -> None:
        if self._state.stopped or self._people.finish is not None:
            raise refusal("the run has already finished")
        if not isinstance(given, PersonsAnswer):
            raise refusal('give one JSON object, such as {"answer": "..."}')
        if self._next_index >= self._request.max_responses:
            raise refusal("the run has already asked for its maximum number of answers")
        self._refuse_answer(given.answer)

    @workflow.update(description="Accept or replace an answer that waits for you")
    def review(self, given: Review) -> None:
        """Take what a person says of the answer."""
        self._people.review(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        self._people.refuse_review(given)
        if given.revise is not None or given.score is not None:
            raise refusal("an answer can only be accepted or replaced")
        if given.replace is not None:
            self._refuse_answer(given.replace)

    @workflow.update(description="End the run with the answers that are in")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._people.end(by)

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        self._people.refuse_end(by, stopped=self._state.stopped and not self._people.waiting)

    def _refuse_answer(self, answer: str) -> None:
        """Raise ApplicationError, which refuses an update, where a person's answer can't count."""
        if encoded_size(answer) > self._request.answer_bytes:
            raise refusal("the answer is too long")
        if read_answer(self._request.answers, answer) is None:
            raise refusal(f"the answer can't be read as {self._request.answers}")

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    async def _wave(self) -> None:
        """Ask for as many answers as can't be wasted and count them, unless the run must end."""
        await self._count([])
        if self._state.stopped or self._cut_short():
            return
        plan = self._state.plan()
        if not plan.calls:
            self._stop("budget", plan.reason)
            return
        number = self._state.begin_wave(plan.calls)
        told = {"mull.wave": number, "mull.wave.length": plan.calls}
        with base.span(telemetry.SPAN_WAVE, "CHAIN", told, f"wave {number}"):
            for _ in range(plan.calls):
                self._samples.start(self._take_index())
            self._show(loop.progress(self._state, plan.calls))
            self._state.cancelled += await self._samples.settle(self._people)
            await self._count(self._samples.collect())
        if not self._state.stopped:
            standing = loop.progress(self._state, 0)
            self._show(standing)
            self._attributes.write(*_updates(standing))

    async def _count(self, responses: list[Response]) -> None:
        """Count by index: a wave's replies, then what people put in meanwhile."""
        waiting = responses
        while True:
            if not waiting:
                waiting, self._put_in = self._put_in, []
            if not waiting:
                return
            response = await self._meanings.named(waiting.pop(0))
            more = bool(waiting or self._put_in)
            decision = self._state.count(response, more_follow=more, at=workflow.now())
            base.decision_span(_numbers(decision))

    async def _wait_for_review(self) -> None:
        """Wait for a person, and decide by what they say, or by the end of the wait."""
        timeout = self._request.review_timeout_seconds
        self._people.begin_wait(timeout)
        until = self._people.until
        standing = loop.progress(self._state, 0, needs_review=True, review_until=until)
        self._show(standing)
        self._attributes.write(
            *_updates(standing),
            telemetry.UNCERTAINTY.value_set("high"),
            telemetry.NEEDS_REVIEW.value_set(True),
        )
        try:
            said = await self._people.wait()
            if said is None:
                self._stop("review_timeout", f"nobody reviewed it within {timeout:g} seconds")
            else:
                self._follow(said)
        finally:
            self._attributes.write(telemetry.NEEDS_REVIEW.value_set(False))

    def _follow(self, said: Review | Finish) -> None:
        """Do what a person said."""
        who = said.author or SOMEBODY
        if isinstance(said, Finish):
            self._stop("finished_by_person", f"finished by {who}", who)
        elif said.replace is None:
            self._stop("accepted_by_person", f"accepted by {who}", who)
        else:
            self._state.replacement = said.replace.strip()
            self._stop("replaced_by_person", f"replaced by {who}", who)

    def _cut_short(self) -> bool:
        """End the run where a person said so or the time is up; tell whether it ended."""
        if self._people.finish is not None:
            who = self._people.finish.author
            self._stop("finished_by_person", f"finished by {who or SOMEBODY}", who)
        elif self._people.over:
            seconds = self._request.budget_seconds
            self._stop("deadline", f"the time budget of {seconds:g} seconds is used up")
        return self._state.stopped

    def _stop(self, reason: StopReason, said: str, author: str | None = None) -> None:
        base.decision_span(_numbers(self._state.stop(reason, said, author, workflow.now())))

    def _show(self, standing: Progress) -> None:
        told = sheet(standing, self._state.decisions, self._request, TOLD_DECISIONS)
        base.show(told.model_copy(update={"warnings": tuple(self._state.warnings)}))

    def _conclude(self, span: Span) -> SelfConsistencyResult:
        """Record the outcome everywhere, and return it."""
        standing, result = (
            loop.progress(self._state, 0),
            fitted(loop.result(self._state), "final_answer"),
        )
        self._show(standing)
        self._attributes.write(
            *_updates(standing),
            telemetry.STOP_REASON.value_set(result.stop_reason),
            telemetry.CONSENSUS.value_set(result.consensus_type),
            telemetry.UNCERTAINTY.value_set(result.uncertainty_level),
            telemetry.ENTROPY_LEVEL.value_set(result.entropy_level),
        )
        workflow.upsert_memo(
            {
                "stop_reason": result.stop_reason,
                "stop_explanation": result.stop_explanation,
                "answer": (result.final_answer or "")[:400],
                "confidence": result.consensus_confidence,
            }
        )
        span.set_attributes(_numbers(self._state.decisions[-1]))
        return result


def _numbers(decision: Decision) -> dict[str, base.Attribute]:
    index = base.known({"mull.sample.index": decision.index})
    return index | base.numbers(decision, NUMBERS)


def _updates(standing: Progress) -> list[base.Update]:
    updates: list[base.Update] = [telemetry.SAMPLES.value_set(standing.total_responses)]
    if standing.leader is not None:
        updates.append(telemetry.CONFIDENCE.value_set(standing.confidence))
    return updates + base.spending(standing.usage, standing.model)
