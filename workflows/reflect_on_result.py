"""Evaluate a draft, feed back what is wrong, revise it, and keep the best."""

import asyncio
from typing import Self

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    import telemetry
    from activities.checks import prepare_reflection
    from reflection.critique import loop
    from reflection.critique.criteria import passes
    from reflection.critique.evaluation import Evaluation, Feedback
    from reflection.critique.loop import Reflection, should_reflect, warnings
    from reflection.critique.request import ReflectOnResultRequest
    from reflection.critique.result import (
        Decision,
        Draft,
        Progress,
        ReflectOnResultResult,
        Step,
        StopReason,
    )
    from reflection.critique.sheet import sheet
    from reflection.run import Finish, Part, Review, encoded_size, fitted
    from workflows import base
    from workflows.calls import Calls, run_locally
    from workflows.drafts import Drafts
    from workflows.people import SOMEBODY, People, refusal

# What spans show of a decision, besides its draft: numbers, and no text of a model.
NUMBERS = (
    "score", "judged", "change", "threshold", "best", "best_score", "revisions", "stop",
    "stop_reason", "reason",
)  # fmt: skip


@workflow.defn(failure_exception_types=[ValidationError])
class ReflectOnResultWorkflow:
    """Revise a draft until its score, a bound or a person says stop; keep the best one."""

    def __new__(cls, *inputs: object) -> Self:
        """Reject a start without a valid request, which would fail every workflow task."""
        base.require_request(inputs, ReflectOnResultRequest, "query")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: ReflectOnResultRequest) -> None:
        """Begin with nothing written yet."""
        self._request = request
        self._state = Reflection(request)
        self._step: Step = "starting"
        self._people = People(request.budget_seconds)
        self._calls = Calls(self._people, self._state.lose)
        self._attributes = base.SearchAttributes()
        self._drafts = Drafts(self._state, self._calls, self._people)

    @workflow.run
    async def run(self, request: ReflectOnResultRequest) -> ReflectOnResultResult:
        """Draft, evaluate, revise, ask a person where that is wanted, and return the result."""
        held_to: dict[str, str | int | float] = {
            "mull.criteria": request.criteria_name,
            "mull.threshold": request.score_threshold,
            "mull.max_revisions": request.max_revisions,
        }
        with base.run_span(held_to) as span:
            await self._prepare()
            await self._write_first_draft()
            await self._revise_until_decided()
            while not self._state.stopped:
                await self._wait_for_review()
                await self._revise_until_decided()
            return self._conclude(span)

    @workflow.query(description="Where the run stands: drafts, evaluations, the best, spending")
    def progress(self) -> Progress:
        """Say where the run stands."""
        in_flight, until = self._calls.in_flight, self._people.until
        return loop.progress(self._state, self._step, in_flight, until)

    @workflow.query(description="Each decision so far, with every number it was based on")
    def decisions(self) -> list[Decision]:
        """List the decisions so far."""
        return self._state.decisions

    @workflow.update(description="Accept, revise, replace or score a result that waits for you")
    def review(self, given: Review) -> None:
        """Take what a person says of the result."""
        self._people.review(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        self._people.refuse_review(given)
        best = self._state.best
        if given.draft is not None and best is not None and given.draft != best.index:
            raise refusal(f"draft {best.index + 1} is under review now")
        if encoded_size(given.replace or "") > self._request.draft_bytes:
            raise refusal(f"the text is over {self._request.draft_bytes:,} bytes")
        if given.revise is not None:
            left = self._people.seconds_left()
            over = left is not None and left <= 0
            reason = "the time is up" if over else loop.no_grant(self._state)
            if reason is not None:
                raise refusal(f"no further revision is possible: {reason}")

    @workflow.update(description="End the run with the best draft so far")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._people.end(by)

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        self._people.refuse_end(by, stopped=self._state.stopped)

    async def _prepare(self) -> None:
        """Record the criteria and rules of this run, whatever the presets are later.

        Raises ApplicationError where the worker does not have a guardrail that the request names.
        """
        await self._attributes.find(self._state.warn)
        for warning in warnings(self._request):
            self._state.warn(warning)
        found = await run_locally(prepare_reflection, self._request)
        if found is None:
            self._state.warn("the query's complexity could not be estimated")
            return
        self._state.criteria = found.criteria
        if self._request.reflect and not self._request.synthesis_follows:
            self._state.complexity = found.complexity
        if found.unknown:
            raise ApplicationError(
                f"guardrails: the worker has no {', '.join(found.unknown)}",
                type=base.INVALID_REQUEST,
                non_retryable=True,
            )

    async def _write_first_draft(self) -> None:
        """Get the first draft and judge it, unless the request says not to."""
        gate = should_reflect(self._request, self._state.complexity)
        if self._request.draft is not None:
            given = Draft(
                index=0, text=self._request.draft, origin="given", timestamp=workflow.now()
            )
            self._state.drafts.append(given)
        if not self._has_room(None):
            return
        self._at("writing")
        if not self._state.drafts and not await self._drafts.write():
            self._cut_short()
        elif gate.stop_reason is not None:
            self._stop(gate.stop_reason, gate.reason)
        else:
            await self._evaluate()

    async def _revise_until_decided(self) -> None:
        """Revise the newest draft by its feedback, until a decision ends the run or waits."""
        while (last := self._state.last) is None or not (last.stop or last.waits_for_review):
            newest = self._state.drafts[-1]
            await self._revise(newest, self._state.advice(newest), None)

    async def _revise(
        self, draft: Draft, feedback: tuple[Feedback, ...], author: str | None
    ) -> None:
        """Ask for a better draft, and judge it."""
        if not self._has_room("revising"):
            return
        number = self._state.revisions + 1
        told = {"mull.revision": number}
        with base.span(telemetry.SPAN_REFLECTION, "CHAIN", told, f"revision {number}"):
            self._at("revising")
            revised = await self._drafts.revise(draft, feedback, author)
            if isinstance(revised, str):
                self._stop("revision_failed", f"the draft could not be revised: {revised}")
            elif revised:
                await self._evaluate()
            else:
                self._cut_short()

    async def _evaluate(self) -> None:
        """Judge the newest draft, and decide."""
        if not self._has_room("evaluating"):
            return
        self._at("evaluating")
        draft = self._state.drafts[-1]
        name = telemetry.SPAN_EVALUATION.format(criteria=self._request.criteria_name)
        with base.span(name, "EVALUATOR", {"mull.draft.index": draft.index}) as span:
            evaluation = await self._drafts.evaluate(draft)
            if evaluation is not None:
                _record_evaluation(span, evaluation, self._request.score_threshold)
        if evaluation is None:
            self._cut_short()
            return
        self._state.evaluated(draft.index, evaluation)
        self._decided(self._state.decide(workflow.now()))

    async def _wait_for_review(self) -> None:
        """Wait for a person, and do what they say."""
        timeout = self._request.review_timeout_seconds
        self._people.begin_wait(timeout)
        self._at("waiting_for_review")
        try:
            said = await self._people.wait()
        except asyncio.CancelledError:
            self._attributes.write(telemetry.NEEDS_REVIEW.value_set(False))
            raise
        if said is None:
            self._settle("review_timeout", f"nobody reviewed it within {timeout:g} seconds")
        else:
            await self._follow(said)

    async def _follow(self, said: Review | Finish) -> None:
        """Do what a person said."""
        who = said.author or SOMEBODY
        if isinstance(said, Finish):
            self._settle("finished_by_person", f"finished by {who}", who)
        elif said.replace is not None:
            loop.replace(self._state, said.replace, who, workflow.now())
            self._settle("replaced_by_person", f"replaced by {who}", who)
        elif said.score is not None:
            loop.score(self._state, said.score, who)
            self._settle("scored_by_person", f"scored {said.score:g} by {who}", who)
        elif said.revise is not None and (best := self._state.best) is not None:
            self._decided(loop.grant(self._state, said.revise, who, workflow.now()))
            asked = Feedback(advice=said.revise, judge=who)
            await self._revise(best, (asked, *self._state.advice(best)), who)
        elif said.revise is None:
            self._settle("accepted_by_person", f"accepted by {who}", who)

    def _has_room(self, part: Part | None) -> bool:
        """Tell whether the next call may be made; end the run where it may not."""
        if self._people.over:
            self._cut_short()
            return False
        full = None if part is None else self._state.no_room(part)
        if full is not None:
            self._stop("budget", full)
        return full is None

    def _cut_short(self) -> None:
        """End the run after a call that a person's wish or the deadline cut short."""
        if self._people.finish is not None:
            who = self._people.finish.author or SOMEBODY
            self._stop("finished_by_person", f"finished by {who}", who)
        else:
            seconds = self._request.budget_seconds
            self._stop("deadline", f"the time budget of {seconds:g} seconds is used up")

    def _stop(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self._decided(self._state.stop(reason, said, workflow.now(), author))

    def _settle(self, reason: StopReason, said: str, author: str | None = None) -> None:
        self._decided(self._state.settle(reason, said, workflow.now(), author))

    def _at(self, step: Step) -> None:
        self._step = step
        self._show()

    def _show(self) -> None:
        base.show(sheet(self.progress(), self._state.decisions, self._request))

    def _decided(self, decision: Decision) -> None:
        """Span a decision with its numbers, and show where the run stands."""
        base.decision_span(_numbers(decision))
        self._show()
        if not decision.stop:
            self._attributes.write(*self._updates(decision))

    def _conclude(self, span: Span) -> ReflectOnResultResult:
        """Record the outcome everywhere, and return it."""
        result, last = fitted(loop.result(self._state), "draft"), self._state.decisions[-1]
        self._show()
        stopped = telemetry.STOP_REASON.value_set(result.stop_reason)
        self._attributes.write(*self._updates(last), stopped)
        workflow.upsert_memo(
            {
                "stop_reason": result.stop_reason,
                "stop_explanation": result.stop_explanation,
                "draft": (result.draft or "")[:400],
                "score": result.score,
            }
        )
        span.set_attributes(_numbers(last))
        return result

    def _updates(self, decision: Decision) -> list[base.Update]:
        standing = self.progress()
        return [
            base.set_or_clear(telemetry.SCORE, standing.score),
            telemetry.REVISIONS.value_set(standing.revisions),
            telemetry.NEEDS_REVIEW.value_set(decision.waits_for_review),
            *base.spending(standing.usage, standing.model),
        ]


def _numbers(decision: Decision) -> dict[str, base.Attribute]:
    index = base.known({"mull.draft.index": decision.draft})
    waits = {"mull.needs_review": decision.waits_for_review}
    return {**index, **waits, **base.numbers(decision, NUMBERS)}


def _record_evaluation(span: Span, evaluation: Evaluation, threshold: float) -> None:
    """Write an evaluation into its span: an event for the whole and for each criterion."""
    if evaluation.score is None:
        span.set_attribute("error.type", "evaluation_failed")
        return
    span.set_attributes(base.numbers(evaluation, ("score", "judged", "spread")))
    span.set_attribute("mull.guardrails", [cap.guardrail for cap in evaluation.guardrails])
    for criterion, score in [(None, evaluation.score), *evaluation.criteria.items()]:
        event: dict[str, str | float] = {
            "gen_ai.evaluation.name": criterion or "overall",
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.score.label": "pass" if passes(score, threshold) else "fail",
        }
        about = [point for point in evaluation.feedback if criterion in (None, point.criterion)]
        said = "\n".join(point.advice for point in about)
        if telemetry.captures_content() and said:
            event["gen_ai.evaluation.explanation"] = said
        span.add_event(telemetry.EVENT_EVALUATION, event)
