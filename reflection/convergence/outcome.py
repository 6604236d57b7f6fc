"""From the state of a run to what others read of it: progress and result."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from reflection.convergence.evolution import analyse
from reflection.convergence.measures import (
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
)
from reflection.convergence.request import SelfConsistencyRequest
from reflection.convergence.result import (
    Decision,
    Progress,
    SelfConsistencyResult,
)
from reflection.convergence.sampling import Sampling
from reflection.usage import Usage, usage


def used(sampling: Sampling) -> Usage:
    """Sum up what the run spent so far, in parts."""
    return usage(sampling.generating, sampling.evaluating, sampling.retried, sampling.cancelled)


def progress(
    sampling: Sampling,
    in_flight: int,
    *,
    needs_review: bool = False,
    review_until: datetime | None = None,
) -> Progress:
    """Say where a run stands; `in_flight` is the number of calls under way."""
    measured = sampling.tally.measurement
    return Progress(
        question=sampling.request.question,
        model=sampling.model or sampling.request.model,
        rule=sampling.request.rule,
        max_responses=sampling.request.max_responses,
        wave=len(sampling.waves),
        waves=tuple(sampling.waves),
        in_flight=in_flight,
        total_responses=len(sampling.responses),
        valid_responses=measured.votes,
        leader=measured.leader,
        confidence=measured.confidence,
        entropy=measured.entropy,
        normalized_entropy=measured.normalized_entropy,
        answer_distribution=sampling.tally.distribution,
        usage=used(sampling),
        stop_reason=sampling.last.stop_reason if sampling.last else None,
        needs_review=needs_review,
        review_until=review_until,
    )


def standing(request: SelfConsistencyRequest, decisions: Sequence[Decision]) -> Progress:
    """Say where a run stood at the last of these decisions, which holds all but the spending."""
    last = decisions[-1]
    votes = Counter(each.vote for each in decisions if each.vote is not None)
    return Progress(
        question=request.question,
        model=request.model,
        rule=request.rule,
        max_responses=request.max_responses,
        wave=last.wave,
        waves=(),
        in_flight=0,
        total_responses=last.total_responses,
        valid_responses=last.valid_responses,
        leader=last.leader,
        confidence=last.confidence,
        entropy=last.entropy,
        normalized_entropy=last.normalized_entropy,
        answer_distribution={each: votes[each] / votes.total() for each in votes},
        usage=Usage(),
        stop_reason=last.stop_reason,
    )


def result(sampling: Sampling) -> SelfConsistencyResult:
    """Put the result together, once the newest decision ended the run.

    Raises ValueError while the run goes on.
    """
    last, measured = sampling.last, sampling.tally.measurement
    if last is None or last.stop_reason is None:
        raise ValueError("the run goes on")
    replaced = sampling.replacement
    second = measured.runner_up_votes / measured.votes if measured.votes else 0.0
    return SelfConsistencyResult(
        final_answer=measured.leader if replaced is None else replaced,
        consensus_confidence=measured.confidence,
        answer_distribution=sampling.tally.distribution,
        uncertainty_level=classify_uncertainty(measured.confidence),
        early_stopping=len(sampling.responses) < sampling.request.max_responses,
        total_responses=len(sampling.responses),
        convergence_analysis=analyse(sampling.confidences, sampling.entropies),
        distribution_entropy=measured.entropy,
        normalized_entropy=measured.normalized_entropy,
        entropy_level=classify_entropy(measured.normalized_entropy),
        consensus_type=classify_consensus(measured.confidence, second),
        stop_reason=last.stop_reason,
        stop_explanation=last.reason,
        tied=sampling.tally.tied,
        valid_responses=measured.votes,
        quorum_met=measured.votes >= sampling.request.quorum,
        waves=tuple(sampling.waves),
        decisions=tuple(sampling.decisions),
        responses=tuple(sampling.responses),
        usage=used(sampling),
        question=sampling.request.question,
        model=sampling.model or sampling.request.model,
        rule=sampling.request.rule,
        warnings=tuple(sampling.warnings),
        min_responses=sampling.request.min_responses,
        voted_answer=None if replaced is None else measured.leader,
        reviewer=last.author,
    )
