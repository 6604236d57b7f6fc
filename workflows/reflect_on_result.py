"""Evaluate a draft, feed back what is wrong, revise it, and keep the best."""

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
    from reflection.critique.result import Decision, Draft, Progress, ReflectOnResultResult
    from reflection.critique.sheet import sheet
    from reflection.run import Review, fitted
    from reflection.sheet import Sheet
    from workflows import base
    from workflows.base import RunWorkflow
    from workflows.calls import run_locally
    from workflows.drafts import Drafts

# What spans show of a decision, besides its draft: numbers, and no text of a model.
NUMBERS = (
    "score", "judged", "change", "threshold", "best", "best_score", "revisions", "stop",
    "stop_reason", "reason",
)  # fmt: skip


@workflow.defn(failure_exception_types=[ValidationError])
class ReflectOnResultWorkflow(RunWorkflow[Reflection]):
    """Revise a draft until its score, a bound or a person says stop; keep the best one."""

    request_type = ReflectOnResultRequest
    example_field = "query"

    @workflow.init
    def __init__(self, request: ReflectOnResultRequest) -> None:
        """Begin with nothing written yet."""
        super().__init__(Reflection(request))
        self._drafts = Drafts(self._state, self._calls, self._people)

    @workflow.run
    async def run(self, request: ReflectOnResultRequest) -> ReflectOnResultResult:
        """Draft, evaluate, revise, ask a person where that is wanted, and return the result."""
        with self._running(
            criteria=request.criteria_name,
            threshold=request.score_threshold,
            max_revisions=request.max_revisions,
        ) as span:
            await self._prepare()
            await self._write_first_draft()
            await self._revise_until_decided()
            while not self._state.stopped:
                await self._wait_for_review()
                await self._revise_until_decided()
            result = fitted(loop.result(self._state), "draft")
            memo = {"draft": (result.draft or "")[:400], "score": result.score}
            self._conclude(span, memo)
            return result

    async def _prepare(self) -> None:
        """Record the criteria and rules of this run, whatever the presets are later.

        Raises ApplicationError where the worker does not have a guardrail that the request names.
        """
        await self._find_attributes()
        for warning in warnings(self._state.request):
            self._state.warn(warning)
        found = await run_locally(prepare_reflection, self._state.request)
        if found is None:
            self._state.warn("the query's complexity could not be estimated")
            return
        self._state.criteria = found.criteria
        if self._state.request.reflect and not self._state.request.synthesis_follows:
            self._state.complexity = found.complexity
        if found.unknown:
            raise ApplicationError(
                f"guardrails: the worker has no {', '.join(found.unknown)}",
                type=base.INVALID_REQUEST,
                non_retryable=True,
            )

    async def _write_first_draft(self) -> None:
        """Get the first draft and judge it, unless the request says not to."""
        gate = should_reflect(self._state.request, self._state.complexity)
        if self._state.request.draft is not None:
            given = Draft(
                index=0, text=self._state.request.draft, origin="given", timestamp=workflow.now()
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
        name = telemetry.SPAN_EVALUATION.format(criteria=self._state.request.criteria_name)
        with base.span(name, "EVALUATOR", {"mull.draft.index": draft.index}) as span:
            evaluation = await self._drafts.evaluate(draft)
            if evaluation is not None:
                _record_evaluation(span, evaluation, self._state.request.score_threshold)
        if evaluation is None:
            self._cut_short()
            return
        self._state.evaluated(draft.index, evaluation)
        self._decided(self._state.decide(workflow.now()))

    def _refuse_review(self, given: Review) -> str | None:
        best = self._state.best
        if given.draft is not None and best is not None and given.draft != best.index:
            return f"draft {best.index + 1} is under review now"
        reason = None if given.revise is None else loop.no_grant(self._state)
        if reason is not None:
            return f"no further revision is possible: {reason}"
        return base.refuse_text(given.replace, self._state.request.draft_bytes)

    def _replace(self, text: str, author: str) -> None:
        loop.replace(self._state, text, author, workflow.now())

    def _score(self, score: float, author: str) -> None:
        loop.score(self._state, score, author)

    async def _revise_for(self, asked: str, author: str) -> None:
        best = self._state.best
        if best is not None:
            self._decided(loop.grant(self._state, asked, author, workflow.now()))
            advice = Feedback(advice=asked, judge=author)
            await self._revise(best, (advice, *self._state.advice(best)), author)

    def _progress(self) -> Progress:
        in_flight, until = self._calls.in_flight, self._people.until
        return loop.progress(self._state, self._step, in_flight, until)

    def _sheet(self) -> Sheet:
        return sheet(self._progress(), self._state.decisions, self._state.request)

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
        index = base.known({"mull.draft.index": decision.draft})
        waits = {"mull.needs_review": decision.waits_for_review}
        return {**index, **waits, **base.numbers(decision, NUMBERS)}

    def _updates(self) -> list[base.Update]:
        standing, last = self._progress(), self._state.decisions[-1]
        return [
            base.set_or_clear(telemetry.SCORE, standing.score),
            telemetry.REVISIONS.value_set(standing.revisions),
            telemetry.NEEDS_REVIEW.value_set(last.waits_for_review),
            *base.spending(standing.usage, standing.model),
        ]


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
