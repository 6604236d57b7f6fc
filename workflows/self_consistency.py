"""Sample answers to a question until a stopping rule says that they have converged."""

from functools import partial
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.sampling import MeaningTask, SampleTask, SamplingActivities
    from mull import telemetry
    from mull.sampling.answers import Clusters, read_answer
    from mull.sampling.loop import Sampling
    from mull.sampling.request import SelfConsistencyRequest
    from mull.sampling.result import Decision, PersonsAnswer, Response, SelfConsistencyResult
    from mull.sampling.sheet import sheet
    from workflows import base
    from workflows.base import ReviewedWorkflow, refusal, refuse_if
    from workflows.calls import (
        SOMEBODY,
        Call,
        attempts_of,
        call_times,
        explain,
        lost,
        outcome,
        permanent,
        settle,
        unreachable,
    )

# As many as the details have room for: they are written anew after each wave.
TOLD_DECISIONS = 40
# Comparisons are many, and the beginning of a question tells what its answers are about.
QUESTION_CHARACTERS = 2_000
NOT_COMPARED = "the run ended before every answer was compared"


@workflow.defn(failure_exception_types=[ValidationError])
class SelfConsistencyWorkflow(ReviewedWorkflow[Sampling]):
    """Ask in waves, count votes by index, and stop when the rule, a bound or a person says so."""

    request_type = SelfConsistencyRequest
    make_sheet = staticmethod(partial(sheet, newest=TOLD_DECISIONS))
    # Answers are content, and not among them.
    span_fields = (
        "wave", "rule", "total_responses", "valid_responses", "leader_votes", "runner_up_votes",
        "confidence", "entropy", "normalized_entropy", "value", "bound",
    )  # fmt: skip

    @workflow.init
    def __init__(self, request: SelfConsistencyRequest) -> None:
        """Begin with nothing asked yet."""
        super().__init__(Sampling(request))
        self._request = request
        limit = request.max_output_tokens
        self._times = call_times(request.sample_timeout_seconds, request.max_attempts, limit)
        self._task = SampleTask.of(request, index=0)
        # The calls for samples that are under way, by index, and what the answers mean.
        self._samples = dict[int, workflow.ActivityHandle[Response]]()
        self._clusters = Clusters(request.answers)
        self._next_index = 0

    @workflow.run
    async def run(self, request: SelfConsistencyRequest) -> SelfConsistencyResult:
        """Sample until a decision says stop, and return the result."""
        with self._running(rule=request.rule, max_responses=request.max_responses) as span:
            if request.calibration is None:
                self._state.maps = await self._find_attributes(self._state.setup)
            else:
                await self._find_attributes()
            while not self._state.stopped:
                await self._wave()
            unanswered = self._state.unanswered
            if unanswered is not None:
                raise lost(unanswered).failure
            if self._state.waits_for_review:
                waits = telemetry.NEEDS_REVIEW.value_set(True)
                self._write(*self._updates(), telemetry.UNCERTAINTY.value_set("high"), waits)
                await self._wait_for_review()
            result: SelfConsistencyResult = self._state.result()
            saved = request.max_responses - self._next_index
            telemetry.CALLS_SAVED.record(workflow.metric_meter(), saved)
            self._conclude(
                span,
                result,
                {
                    "answer": (result.final_answer or "")[:400],
                    "confidence": result.consensus_confidence,
                    **base.known({"probability_right": result.probability_right}),
                },
                telemetry.NEEDS_REVIEW.value_set(False),
                telemetry.CONSENSUS.value_set(result.consensus_type),
                telemetry.UNCERTAINTY.value_set(result.uncertainty_level),
                telemetry.ENTROPY_LEVEL.value_set(result.entropy_level),
            )
            return result

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
        self._state.put_in.append(response)
        return response.index

    @add_answer.validator
    def _takes_answer(self, given: PersonsAnswer) -> None:
        if self._state.stopped or self._people.finish is not None:
            raise refusal("the run has already finished")
        if not isinstance(given, PersonsAnswer):
            raise refusal('give one JSON object, such as {"answer": "..."}')
        if self._next_index >= self._request.max_responses:
            raise refusal("the run has already asked for its maximum number of answers")
        refuse_if(self._state.unreadable_answer(given.answer))

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    async def _wave(self) -> None:
        """Ask for as many answers as can't be wasted and count them, unless the run must end."""
        await self._count([])
        if self._state.stopped or not self._has_room(None):
            return
        plan = self._state.plan()
        if not plan.calls:
            self._stop("budget", plan.reason)
            return
        number = self._state.begin_wave(plan.calls)
        told = {"mull.wave": number, "mull.wave.length": plan.calls}
        with base.span(telemetry.SPAN_WAVE, "CHAIN", told, f"wave {number}"):
            for _ in range(plan.calls):
                self._start(self._take_index())
            flying = self._samples.values()
            self._state.lose(await settle(flying, self._people, self._needs_no_more))
            await self._count(self._collect())
        if not self._state.stopped:
            self._write_progress()

    def _start(self, index: int) -> None:
        """Ask for the sample with this index."""
        request = self._request
        seed = None if request.seed is None else request.seed + index
        task = self._task.model_copy(update={"index": index, "seed": seed})
        summary = f"sample {index + 1} of at most {request.max_responses}"
        call = Call(SamplingActivities.sample_answer, task, summary, self._times)
        self._samples[index] = call.start(first=index == 0)

    def _needs_no_more(self) -> bool:
        """Tell whether the votes that came decide the run, or no such call can work."""
        came = {index: outcome(call) for index, call in self._samples.items()}
        votes = {
            index: self._name(reply.vote) if isinstance(reply, Response) else None
            for index, reply in came.items()
            if reply is not None
        }
        return self._state.decided_by(votes) or self._hopeless() is not None

    def _collect(self) -> list[Response]:
        """Hand over the responses that came, in the order of their index, and forget the calls.

        Raises ApplicationError for a failure that holds for every call, also where nothing listens
        and neither the model nor a person ever answered.
        """
        if (failed := self._hopeless()) is not None:
            raise failed
        answered = self._state.answered or bool(self._state.put_in)
        came = [(index, outcome(call)) for index, call in sorted(self._samples.items())]
        self._samples = {}
        failures = [unreachable(reply) for _, reply in came if reply is not None]
        if failures and failures[0] and all(failures) and not answered:
            raise failures[0]
        return [
            self._failed(index, reply) if isinstance(reply, ActivityError) else reply
            for index, reply in came
            if reply is not None
        ]

    def _hopeless(self) -> ApplicationError | None:
        """Return a failure that holds for every call, if there is one."""
        for call in self._samples.values():
            reply = outcome(call)
            failed = permanent(reply) if isinstance(reply, ActivityError) else None
            if failed is not None:
                return failed
        return None

    def _failed(self, index: int, error: ActivityError) -> Response:
        return Response(
            index=index,
            answer=None,
            timestamp=workflow.now(),
            error=explain(error),
            model=self._request.model,
            attempts=attempts_of(error, self._request.max_attempts),
        )

    async def _count(self, responses: list[Response]) -> None:
        """Count by index: a wave's replies, then what people put in meanwhile."""
        waiting, state = responses, self._state
        while True:
            if not waiting:
                waiting, state.put_in = state.put_in, []
            if not waiting:
                return
            response = await self._named(waiting.pop(0))
            more = bool(state.put_in or any(later.author for later in waiting))
            self._span_decision(state.count(response, more_follow=more, at=workflow.now()))
            if state.stopped:
                for late in waiting:
                    state.came_late(late)
                return

    def _name(self, canonical: str | None) -> str | None:
        """Name the cluster of a canonical form; a new one has this name for now."""
        return canonical and (self._clusters.find(canonical) or canonical)

    async def _named(self, response: Response) -> Response:
        """Return the response with its vote named by the cluster that it joins.

        The kind `llm` asks about each earlier cluster in turn and joins the first that means the
        same. An unreadable or missing reply counts as different, and so does an answer that is not
        compared because the run is to end. Raises ApplicationError for a failure that holds for
        every call.
        """
        canonical, written = response.vote, response.answer
        if canonical is None or written is None:
            return response
        name = self._clusters.find(canonical)
        if name is None and self._request.answers == "llm":
            name = await self._match(canonical, written)
        if name is None:
            name = self._clusters.open(canonical, written)
        return response.model_copy(update={"vote": name})

    async def _match(self, canonical: str, written: str) -> str | None:
        for name in self._clusters.names:
            if self._people.over:
                self._state.warn(NOT_COMPARED)
                return None
            if await self._same(name, written):
                return self._clusters.join(canonical, name)
        return None

    async def _same(self, earlier: str, new: str) -> bool:
        about, request = self._request.question[:QUESTION_CHARACTERS], self._request
        task = MeaningTask.of(request, question=about, earlier=earlier, new=new)
        asked = SamplingActivities.compare_meaning, task, "do two answers mean the same?"
        times = call_times(request.sample_timeout_seconds, request.max_attempts)
        meaning = await self._calls.ask("evaluating", Call(*asked, times))
        if meaning is None:
            self._state.warn(NOT_COMPARED)
            return False
        if isinstance(meaning, ActivityError):
            failed = permanent(meaning)
            if failed is not None:
                raise failed
            self._state.warn(f"two answers could not be compared: {explain(meaning)}")
            return False
        return meaning.same is True

    def _under_way(self) -> dict[str, Any]:
        waiting = sum(not call.done() for call in self._samples.values())
        return {**super()._under_way(), "in_flight": waiting}

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
        index = base.known({"mull.sample.index": decision.index})
        return index | super()._numbers(decision)

    def _updates(self) -> list[base.Update]:
        state, measured = self._state, self._state.tally.measurement
        updates: list[base.Update] = [telemetry.SAMPLES.value_set(len(state.responses))]
        if measured.leader is not None:
            updates.append(telemetry.CONFIDENCE.value_set(measured.confidence))
        return updates + super()._updates()
