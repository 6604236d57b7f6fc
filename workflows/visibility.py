"""What is recorded of a run while it goes on: spans, search attributes, details, memo."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span
from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.convergence import outcome
    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import Decision, Progress, SelfConsistencyResult
    from reflection.convergence.sampling import Sampling
    from reflection.convergence.words.summary import current_details

# Search attributes are keywords, numbers and booleans, and an update is typed by its value.
Update = SearchAttributeUpdate[str] | SearchAttributeUpdate[int] | SearchAttributeUpdate[float]

Number = TypeVar("Number", int, float)

UNREGISTERED = (
    "search attributes are not registered on this server, so the run is not found by them"
)


@contextmanager
def run_span(request: SelfConsistencyRequest) -> Iterator[Span]:
    """Span the whole run. Its id is the same on every replay."""
    name = telemetry.SPAN_RUN.format(type=workflow.info().workflow_type)
    with trace.get_tracer(telemetry.TRACER).start_as_current_span(name) as span:
        span.set_attributes(
            {
                telemetry.KIND: "AGENT",
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": workflow.info().workflow_type,
                "mull.workflow_id": workflow.info().workflow_id,
                "mull.run_id": workflow.info().run_id,
                "mull.rule": request.rule,
                "mull.max_responses": request.max_responses,
            }
        )
        yield span


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
        self._registered: frozenset[str] = frozenset()

    def use(self, registered: Sequence[str]) -> None:
        """Write only the search attributes that the server knows; say so once where it has none."""
        self._registered = frozenset(registered)
        if not registered:
            self._sampling.warnings.append(UNREGISTERED)
            workflow.logger.warning(UNREGISTERED)

    def asked(self, in_flight: int) -> None:
        """Show in the current details that a wave of this many calls is under way."""
        self._show_details(outcome.progress(self._sampling, in_flight))

    def counted(self) -> None:
        """Bring the current details and the search attributes up to date after a wave."""
        standing = outcome.progress(self._sampling, 0)
        self._show_details(standing)
        self._upsert(*_numbers_so_far(standing))

    def _show_details(self, standing: Progress) -> None:
        workflow.set_current_details(
            current_details(
                standing, self._sampling.decisions, _trace_id(), self._sampling.warnings
            )
        )

    def conclude(self, span: Span) -> SelfConsistencyResult:
        """Record the outcome everywhere, and return it."""
        standing, result = outcome.progress(self._sampling, 0), outcome.result(self._sampling)
        self._show_details(standing)
        self._upsert(
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

    def _upsert(self, *updates: Update) -> None:
        known = [each for each in updates if each.key.name in self._registered]
        if known:
            workflow.upsert_search_attributes(known)


def _numbers_so_far(standing: Progress) -> list[Update]:
    spent = standing.usage
    known: list[Update] = [telemetry.SAMPLES.value_set(standing.total_responses)]
    if standing.leader is not None:
        known.append(telemetry.CONFIDENCE.value_set(standing.confidence))
    if standing.model is not None:
        known.append(telemetry.MODEL.value_set(standing.model))
    known.append(_set_or_clear(telemetry.TOKENS, spent.tokens))
    known.append(_set_or_clear(telemetry.COST_USD, spent.cost_usd))
    return known


def _set_or_clear(key: SearchAttributeKey[Number], value: Number | None) -> Update:
    """Unknown is no number: an earlier one that is not true any more must go."""
    return key.value_unset() if value is None else key.value_set(value)


def _trace_id() -> str | None:
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid and context.trace_flags.sampled else None
