"""From the state of a run to what others read of it: progress and result."""

from datetime import datetime

from reflection.multipath.loop import Run
from reflection.multipath.report import assemble
from reflection.multipath.result import Draft, MultiPathResult, Progress, Step


def progress(run: Run, step: Step, in_flight: int, review_until: datetime | None) -> Progress:
    """Say where a run stands; `in_flight` is the number of calls under way."""
    last = run.last
    return Progress(
        prompt=run.request.prompt,
        model=_model(run),
        step="finished" if run.stopped else step,
        in_flight=in_flight,
        mode=run.state.mode,
        routing=run.routing,
        sources=run.sources,
        drafts=tuple(run.drafts),
        suite=run.suite,
        quarantined=run.quarantined,
        revisions=run.state.revisions,
        max_revisions=run.allowed,
        usage=run.ledger.used,
        review_until=review_until,
        stop_reason=last.stop_reason if last and last.stop else None,
        warnings=tuple(run.warnings),
    )


def result(run: Run) -> MultiPathResult:
    """Put the result together, once the newest decision ended the run.

    Raises ValueError while the run goes on.
    """
    last, kept = run.last, run.kept
    if last is None or not last.stop or last.stop_reason is None:
        raise ValueError("the run goes on")
    return MultiPathResult(
        output=_output(run, kept),
        mode=run.state.mode,
        stop_reason=last.stop_reason,
        stop_explanation=last.reason,
        open=run.open,
        kept=kept.index if kept else None,
        routing=run.routing,
        sources=run.sources,
        critiques=kept.critiques or () if kept else (),
        suggestions=run.state.suggestions,
        error=kept.error if kept else None,
        suite=run.suite,
        quarantined=run.quarantined,
        forgeable=bool(kept and kept.report and kept.report.forgeable),
        drafts=tuple(run.drafts),
        decisions=tuple(run.decisions),
        revisions=run.state.revisions,
        max_revisions=run.allowed,
        usage=run.ledger.used,
        prompt=run.request.prompt,
        model=_model(run),
        warnings=tuple(run.warnings),
    )


def _output(run: Run, kept: Draft | None) -> str | None:
    """Put a report together with its sources and further considerations; the rest is as it is."""
    if kept is None or kept.mode == "code" or kept.origin == "replaced":
        return kept.text if kept else None
    if run.assembled is not None:
        return run.assembled
    # Histories from before the activities said it.
    return assemble(kept.text, run.state.suggestions, run.sources, run.request.creative)


def _model(run: Run) -> str | None:
    written = [each.model for each in run.drafts if each.model is not None]
    return written[-1] if written else run.request.model
