"""What is recorded of a run of the agent while it goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from opentelemetry import trace
from opentelemetry.trace import Span
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.multipath import loop
    from reflection.multipath.loop import Run
    from reflection.multipath.result import Decision, MultiPathResult, Progress
    from reflection.multipath.words.summary import current_details
    from workflows.multipath.nodes.asking import Ended
    from workflows.multipath.spans import decided, left
    from workflows.visibility import SearchAttributes, Update, spending, trace_id

WRITES = frozenset({"generate_report", "generate_code"})


class View:
    """A run as Temporal shows it: spans, search attributes, current details, and a memo."""

    def __init__(self, run: Run, standing: Callable[[], Progress]) -> None:
        self._run = run
        self._standing = standing
        self._attributes = SearchAttributes()

    async def prepare(self) -> None:
        """Find out which search attributes the server knows; the result says where none."""
        warning = await self._attributes.find()
        if warning:
            self._run.warn(warning)

    def show(self) -> None:
        """Bring the current details up to date."""
        run = workflow.info().workflow_id
        details = current_details(self._standing(), self._run.decisions, trace_id(), run)
        workflow.set_current_details(details)

    @contextmanager
    def node(self, name: str) -> Iterator[Callable[[Ended | None], None]]:
        """Span one node under its own name, in the history's group of its draft.

        What it yields takes why the run ends there, or None, once the node's work is done.
        """
        round_ = self._run.state.revisions + (name in WRITES)
        group = workflow.create_event_group(f"draft {round_}") if round_ else None
        tracer = trace.get_tracer(telemetry.TRACER)
        with (
            tracer.start_as_current_span(name) as span,
            group.scope() if group else nullcontext(),
        ):
            span.set_attributes({telemetry.KIND: telemetry.NODE_KINDS[name]})
            span.set_attribute("mull.revision", round_)
            yield lambda ended: left(span, name, self._run, ended)

    def decided(self, decision: Decision) -> None:
        """Span one decision with every number it was based on, and show where the run stands."""
        tracer = trace.get_tracer(telemetry.TRACER)
        with tracer.start_as_current_span(telemetry.SPAN_DECISION) as span:
            span.set_attributes(decided(decision))
        self.show()
        if not decision.stop:
            self._attributes.write(*self._updates(decision))

    def conclude(self, span: Span) -> MultiPathResult:
        """Record the outcome everywhere, and return it."""
        result, last = loop.result(self._run), self._run.decisions[-1]
        self.show()
        self._attributes.write(
            *self._updates(last), telemetry.STOP_REASON.value_set(result.stop_reason)
        )
        workflow.upsert_memo(
            {
                "stop_reason": result.stop_reason,
                "stop_explanation": result.stop_explanation,
                "mode": result.mode,
                "open": result.open,
                "output": (result.output or "")[:400],
            }
        )
        span.set_attributes(decided(last) | {telemetry.KIND: "AGENT"})
        return result

    def cancelled(self) -> None:
        """Tell the server that nobody waits any more."""
        self._attributes.write(telemetry.NEEDS_REVIEW.value_set(False))

    def _updates(self, decision: Decision) -> list[Update]:
        standing = self._standing()
        known: list[Update] = [
            telemetry.REVISIONS.value_set(standing.revisions),
            telemetry.NEEDS_REVIEW.value_set(decision.waits_for_review),
            *spending(standing.usage),
        ]
        if standing.model is not None:
            known.append(telemetry.MODEL.value_set(standing.model))
        return known
