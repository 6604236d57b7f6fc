"""The numbers of a run of the agent in its spans; its texts stand there only where that is on."""

from opentelemetry.trace import Span
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import telemetry
    from reflection.multipath.loop import Run
    from reflection.multipath.result import Decision, Draft, StopReason
    from workflows.multipath.nodes.asking import Ended

Attributes = dict[str, str | float | int | bool]

# Their explanations quote what a model, a test or a document said.
QUOTING: frozenset[StopReason] = frozenset({"unrouted", "reflection_failed", "test_failed"})


def left(span: Span, node: str, run: Run, ended: Ended | None) -> None:
    """Write into a node's span what it left behind, or why the run ends there."""
    if ended is not None:
        span.set_attribute("error.type", ended.reason or "cut_short")
        return
    span.set_attributes(_known(_numbers(node, run)))


def decided(decision: Decision) -> Attributes:
    """List the numbers of a decision."""
    repairs = decision.after == "test_code" and decision.next == "generate_code"
    quotes = repairs or decision.stop_reason in QUOTING
    return _known(
        {
            telemetry.KIND: "EVALUATOR",
            "mull.after": decision.after,
            "mull.next": decision.next,
            "mull.mode": decision.mode,
            "mull.revisions": decision.revisions,
            "mull.draft.index": decision.draft,
            "mull.critiques": decision.critiques,
            "mull.passed": decision.passed,
            "mull.total": decision.total,
            "mull.needs_review": decision.waits_for_review,
            "mull.stop": decision.stop,
            "mull.stop_reason": decision.stop_reason,
            "mull.reason": decision.reason if not quotes or telemetry.captures_content() else None,
        }
    )


def _numbers(node: str, run: Run) -> dict[str, str | int | None]:
    draft = run.drafts[-1] if run.drafts else None
    if node == "retrieve":
        return {"mull.passages": len(run.sources)}
    if node == "route":
        chosen_by = run.routing.chosen_by if run.routing else None
        return {"mull.mode": run.state.mode, "mull.chosen_by": chosen_by}
    if node == "write_tests":
        return {"mull.total": len(run.suite.cases) if run.suite else None}
    return {} if draft is None else _of_draft(node, draft, run)


def _of_draft(node: str, draft: Draft, run: Run) -> dict[str, str | int | None]:
    known: dict[str, str | int | None] = {"mull.draft.index": draft.index}
    if node == "reflect_on_report":
        known["mull.critiques"] = len(draft.critiques or ())
        known["mull.suggestions"] = len(draft.suggestions)
    if node == "test_code" and draft.report is not None:
        known |= {
            "mull.passed": draft.report.passed,
            "mull.total": draft.report.total,
            "mull.status": draft.report.status,
            "mull.backend": draft.report.backend,
            "mull.quarantined": len(run.quarantined),
        }
    return known


def _known(numbers: dict[str, str | int | None]) -> Attributes:
    return {name: value for name, value in numbers.items() if value is not None}
