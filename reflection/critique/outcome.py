"""From the state of a run to what others read of it: progress and result."""

from datetime import datetime

from reflection.critique.loop import Reflection
from reflection.critique.result import Progress, ReflectOnResultResult, Step
from reflection.usage import Usage, usage


def used(state: Reflection) -> Usage:
    """Sum up what the run spent so far, in parts."""
    spent = state.spent
    return usage(
        spent["generating"],
        spent["evaluating"],
        state.retried,
        state.cancelled,
        spent["revising"],
    )


def progress(
    state: Reflection, step: Step, in_flight: int, review_until: datetime | None
) -> Progress:
    """Say where a run stands; `in_flight` is the number of calls under way."""
    best, last = state.best, state.last
    return Progress(
        query=state.request.query,
        model=_model(state),
        step="finished" if state.stopped else step,
        in_flight=in_flight,
        drafts=tuple(state.drafts),
        best=best.index if best else None,
        score=best.score if best else None,
        score_threshold=state.request.score_threshold,
        revisions=state.revisions,
        max_revisions=state.allowed,
        criteria=state.criteria,
        usage=used(state),
        review_until=review_until,
        stop_reason=last.stop_reason if last and last.stop else None,
        warnings=tuple(state.warnings),
    )


def result(state: Reflection) -> ReflectOnResultResult:
    """Put the result together, once the newest decision ended the run.

    Raises ValueError while the run goes on.
    """
    last, best = state.last, state.best
    if last is None or not last.stop or last.stop_reason is None:
        raise ValueError("the run goes on")
    return ReflectOnResultResult(
        draft=best.text if best else None,
        score=best.score if best else None,
        best=best.index if best else None,
        stop_reason=last.stop_reason,
        stop_explanation=last.reason,
        drafts=tuple(state.drafts),
        decisions=tuple(state.decisions),
        revisions=state.revisions,
        usage=used(state),
        query=state.request.query,
        model=_model(state),
        judges=_judges(state),
        criteria=state.criteria,
        score_threshold=state.request.score_threshold,
        complexity=state.complexity,
        warnings=tuple(state.warnings),
    )


def _model(state: Reflection) -> str | None:
    written = [each.model for each in state.drafts if each.model is not None]
    return written[-1] if written else state.request.model


def _judges(state: Reflection) -> tuple[str, ...]:
    """Name the models that judged, in the order of the panel."""
    evaluations = [each.evaluation for each in state.drafts if each.evaluation]
    heard = [each for one in evaluations for each in one.judgements if each.score is not None]
    return tuple(dict.fromkeys(each.model for each in heard if each.model))
