"""What is recorded of a run of self-consistency while it goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from opentelemetry import trace
from opentelemetry.trace import Span
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.convergence import outcome
    from reflection.convergence.result import Decision, Progress, SelfConsistencyResult
    from reflection.convergence.sampling import Sampling
    from reflection.convergence.sheet import sheet
    from reflection.details import details
    from workflows.visibility import SearchAttributes, Update, spending, trace_id

# As many as the details have room for: they are written anew after each wave.
TOLD_DECISIONS = 40


@contextmanager
def wave(number: int, length: int) -> Iterator[None]:
    """Span one wave, counted from 1, and group its events in the history."""
    tracer = trace.get_tracer(telemetry.TRACER)
    group = workflow.create_event_group(f"wave {number}")
    with tracer.start_as_current_span(telemetry.SPAN_WAVE) as span, group.scope():
        span.set_attributes(
            {telemetry.KIND: "CHAIN", "mull.wave": number, "mull.wave.length": length}
        )
        yield


def decided(decision: Decision) -> None:
    """Span one decision, with every number it was based on; answers are content, and are not."""
    with trace.get_tracer(telemetry.TRACER).start_as_current_span(telemetry.SPAN_DECISION) as span:
        span.set_attributes(_numbers(decision))


def _numbers(decision: Decision) -> dict[str, str | float | int | bool]:
    known = {
        telemetry.KIND: "EVALUATOR",
        "mull.sample.index": decision.index,
        "mull.wave": decision.wave,
        "mull.rule": decision.rule,
        "mull.total_responses": decision.total_responses,
        "mull.valid_responses": decision.valid_responses,
        "mull.leader_votes": decision.leader_votes,
        "mull.runner_up_votes": decision.runner_up_votes,
        "mull.confidence": decision.confidence,
        "mull.entropy": decision.entropy,
        "mull.normalized_entropy": decision.normalized_entropy,
        "mull.value": decision.value,
        "mull.bound": decision.bound,
        "mull.stop": decision.stop,
        "mull.stop_reason": decision.stop_reason,
        "mull.reason": decision.reason,
    }
    return {name: value for name, value in known.items() if value is not None}


class View:
    """A run as Temporal shows it: search attributes, current details, and at the end the memo."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._attributes = SearchAttributes()

    async def prepare(self) -> None:
        """Find out which search attributes the server knows; the result says where none."""
        warning = await self._attributes.find()
        if warning:
            self._sampling.warnings.append(warning)

    def asked(self, in_flight: int) -> None:
        """Show in the current details that a wave of this many calls is under way."""
        self._show_details(outcome.progress(self._sampling, in_flight))

    def counted(self) -> None:
        """Bring the current details and the search attributes up to date after a wave."""
        standing = outcome.progress(self._sampling, 0)
        self._show_details(standing)
        self._attributes.write(*_numbers_so_far(standing))

    def _show_details(self, standing: Progress) -> None:
        sampling = self._sampling
        told = sheet(standing, sampling.decisions, sampling.request, TOLD_DECISIONS)
        noted = told.model_copy(update={"warnings": tuple(sampling.warnings)})
        workflow.set_current_details(details(noted, trace_id(), workflow.info().workflow_id))

    def wait_for_review(self, until: datetime | None) -> None:
        """Show that the run waits for a person, with all that is known so far."""
        standing = outcome.progress(self._sampling, 0, needs_review=True, review_until=until)
        self._show_details(standing)
        self._attributes.write(
            *_numbers_so_far(standing),
            telemetry.UNCERTAINTY.value_set("high"),
            telemetry.NEEDS_REVIEW.value_set(True),
        )

    def end_review(self) -> None:
        """Show that nobody is waited for any more."""
        self._attributes.write(telemetry.NEEDS_REVIEW.value_set(False))

    def conclude(self, span: Span) -> SelfConsistencyResult:
        """Record the outcome everywhere, and return it."""
        standing, result = outcome.progress(self._sampling, 0), outcome.result(self._sampling)
        self._show_details(standing)
        self._attributes.write(
            *_numbers_so_far(standing),
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
        last = self._sampling.decisions[-1]
        span.set_attributes(_numbers(last) | {telemetry.KIND: "AGENT"})
        return result


def _numbers_so_far(standing: Progress) -> list[Update]:
    known: list[Update] = [telemetry.SAMPLES.value_set(standing.total_responses)]
    if standing.leader is not None:
        known.append(telemetry.CONFIDENCE.value_set(standing.confidence))
    if standing.model is not None:
        known.append(telemetry.MODEL.value_set(standing.model))
    return known + spending(standing.usage)
