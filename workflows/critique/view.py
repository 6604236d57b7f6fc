"""What is recorded of a run of reflection while it goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.critique import loop
    from reflection.critique.criteria import passes
    from reflection.critique.evaluation import Evaluation
    from reflection.critique.loop import Reflection
    from reflection.critique.result import Decision, Draft, Progress, ReflectOnResultResult
    from reflection.critique.words.summary import current_details
    from workflows.visibility import SearchAttributes, Update, set_or_clear, spending, trace_id


@contextmanager
def reflection_span(number: int) -> Iterator[None]:
    """Span one reflection, counted from 1: a revision, its evaluation and the decision."""
    group = workflow.create_event_group(f"revision {number}")
    tracer = trace.get_tracer(telemetry.TRACER)
    with tracer.start_as_current_span(telemetry.SPAN_REFLECTION) as span, group.scope():
        span.set_attributes({telemetry.KIND: "CHAIN", "mull.revision": number})
        yield


@contextmanager
def evaluation_span(criteria: str, draft: Draft) -> Iterator[Span]:
    """Span the evaluation of a draft."""
    name = telemetry.SPAN_EVALUATION.format(criteria=criteria)
    with trace.get_tracer(telemetry.TRACER).start_as_current_span(name) as span:
        span.set_attributes({telemetry.KIND: "EVALUATOR", "mull.draft.index": draft.index})
        yield span


def evaluated(span: Span, evaluation: Evaluation, threshold: float) -> None:
    """Write an evaluation into its span: an event for the whole and for each criterion."""
    if evaluation.score is None:
        span.set_attribute("error.type", "evaluation_failed")
        return
    known = {
        "mull.score": evaluation.score,
        "mull.judged": evaluation.judged,
        "mull.spread": evaluation.spread,
    }
    span.set_attributes({name: value for name, value in known.items() if value is not None})
    span.set_attribute("mull.guardrails", [each.guardrail for each in evaluation.guardrails])
    said = _explained(evaluation)
    label = "pass" if passes(evaluation.score, threshold) else "fail"
    span.add_event(telemetry.EVENT_EVALUATION, _event("overall", evaluation.score, label, said))
    for name, score in evaluation.criteria.items():
        label = "pass" if passes(score, threshold) else "fail"
        span.add_event(
            telemetry.EVENT_EVALUATION, _event(name, score, label, _explained(evaluation, name))
        )


def _event(name: str, score: float, label: str, said: str) -> dict[str, str | float]:
    known: dict[str, str | float] = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": score,
        "gen_ai.evaluation.score.label": label,
    }
    content = telemetry.captures_content() and said
    return {**known, "gen_ai.evaluation.explanation": said} if content else known


def _explained(evaluation: Evaluation, criterion: str | None = None) -> str:
    points = [
        each.advice
        for each in evaluation.feedback
        if criterion is None or each.criterion == criterion
    ]
    return "\n".join(points)


class View:
    """A run as Temporal shows it: spans, search attributes, current details, and a memo."""

    def __init__(self, state: Reflection, standing: Callable[[], Progress]) -> None:
        self._state = state
        self._standing = standing
        self._attributes = SearchAttributes()

    async def prepare(self) -> None:
        """Find out which search attributes the server knows; the result says where none."""
        warning = await self._attributes.find()
        if warning:
            self._state.warnings.append(warning)

    def show(self) -> None:
        """Bring the current details up to date."""
        run = workflow.info().workflow_id
        details = current_details(self._standing(), self._state.decisions, trace_id(), run)
        workflow.set_current_details(details)

    def decided(self, decision: Decision) -> None:
        """Span one decision with every number it was based on, and show where the run stands."""
        tracer = trace.get_tracer(telemetry.TRACER)
        with tracer.start_as_current_span(telemetry.SPAN_DECISION) as span:
            span.set_attributes(_numbers(decision))
        self.show()
        if not decision.stop:
            self._attributes.write(*self._updates(decision))

    def conclude(self, span: Span) -> ReflectOnResultResult:
        """Record the outcome everywhere, and return it."""
        result, last = loop.result(self._state), self._state.decisions[-1]
        self.show()
        self._attributes.write(
            *self._updates(last), telemetry.STOP_REASON.value_set(result.stop_reason)
        )
        workflow.upsert_memo(
            {
                "stop_reason": result.stop_reason,
                "stop_explanation": result.stop_explanation,
                "draft": (result.draft or "")[:400],
                "score": result.score,
            }
        )
        span.set_attributes(_numbers(last) | {telemetry.KIND: "AGENT"})
        return result

    def cancelled(self) -> None:
        """Tell the server that nobody waits any more."""
        self._attributes.write(telemetry.NEEDS_REVIEW.value_set(False))

    def _updates(self, decision: Decision) -> list[Update]:
        standing = self._standing()
        known: list[Update] = [
            set_or_clear(telemetry.SCORE, standing.score),
            telemetry.REVISIONS.value_set(standing.revisions),
            telemetry.NEEDS_REVIEW.value_set(decision.waits_for_review),
            *spending(standing.usage),
        ]
        if standing.model is not None:
            known.append(telemetry.MODEL.value_set(standing.model))
        return known


def _numbers(decision: Decision) -> dict[str, str | float | int | bool]:
    known = {
        telemetry.KIND: "EVALUATOR",
        "mull.draft.index": decision.draft,
        "mull.score": decision.score,
        "mull.judged": decision.judged,
        "mull.change": decision.change,
        "mull.threshold": decision.threshold,
        "mull.best": decision.best,
        "mull.best_score": decision.best_score,
        "mull.revisions": decision.revisions,
        "mull.needs_review": decision.waits_for_review,
        "mull.stop": decision.stop,
        "mull.stop_reason": decision.stop_reason,
        "mull.reason": decision.reason,
    }
    return {name: value for name, value in known.items() if value is not None}
