"""The state of a sampling run, updated answer by answer, and its progress and result."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from reflection.run import Budget, Spending, Usage, room, usage
from reflection.sampling.request import SelfConsistencyRequest
from reflection.sampling.result import Decision, Progress, Response, SelfConsistencyResult
from reflection.sampling.rules import Judgement, StoppingRule, StopReason, Verdict
from reflection.sampling.tally import (
    Tally,
    analyse,
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
)
from reflection.sampling.waves import Waves


class Plan(NamedTuple):
    """The next wave: how many answers to ask for; 0 where `stop_reason` ends the run instead."""

    length: int
    stop_reason: StopReason | None = None
    reason: str = ""


@dataclass
class Sampling:
    """The responses, votes, decisions and spending of a run so far.

    Votes are counted in the order of their index, whichever reply came first.
    """

    request: SelfConsistencyRequest
    tally: Tally = field(default_factory=Tally)
    responses: list[Response] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    waves: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    evaluating: list[Spending] = field(default_factory=list)
    retried: int = 0
    cancelled: int = 0
    warnings: list[str] = field(default_factory=list)
    model: str | None = None
    replacement: str | None = None

    def __post_init__(self) -> None:
        self._rule = StoppingRule(self.request)
        self._waves = Waves(self._rule)

    @property
    def last(self) -> Decision | None:
        """The newest decision."""
        return self.decisions[-1] if self.decisions else None

    @property
    def stopped(self) -> bool:
        """Whether the newest decision ends the run."""
        return self.last is not None and self.last.stop

    @property
    def waits_for_review(self) -> bool:
        """Whether a person has to review the result; never if a person ended the run."""
        if self.request.review_when is None or self.last is None or not self.stopped:
            return False
        confidence = self.tally.measurement.confidence
        finished = self.last.stop_reason == "finished_by_person"
        return not finished and classify_uncertainty(confidence) == self.request.review_when

    @property
    def unreadable(self) -> int:
        """The responses that gave no vote."""
        return len(self.responses) - self.tally.measurement.votes

    @property
    def generating(self) -> list[Spending]:
        """What each reply cost."""
        return [reply.spending for reply in self.responses if reply.spending is not None]

    def plan(self) -> Plan:
        """Size the next wave by the rule, the concurrency limit and the budget."""
        most = self.request.concurrency
        wanted = self._waves.length(self.tally.counts, self.unreadable, most)
        fits = room(
            Budget(self.request.budget_tokens, self.request.budget_usd),
            [*self.generating, *self.evaluating],
            wanted,
        )
        return Plan(fits.calls) if fits.calls else Plan(0, "budget", fits.reason)

    def begin_wave(self, length: int) -> int:
        """Begin a wave of this length, and return its number, from 1."""
        self.waves.append(length)
        return len(self.waves)

    def warn(self, warning: str) -> None:
        """Keep a warning for the result, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def count(
        self, response: Response, *, more_follow: bool = False, at: datetime | None = None
    ) -> Decision:
        """Count one response, the next by index, and decide.

        If answers added by people follow at once, only the last one may stop the run.
        """
        self.responses.append(response)
        self.retried += response.attempts - (response.spending is not None)
        self.model = response.model or self.model
        if response.vote is not None:
            measured = self.tally.add(response.vote)
            self.confidences.append(measured.confidence)
            self.entropies.append(measured.normalized_entropy)
        for name in response.left_out:
            self.warn(f"the provider does not take {name}; it was not sent")
        verdict = self._rule.decide(self.tally.counts, self.unreadable)
        if verdict.stop and more_follow:
            verdict = _put_off(verdict)
        return self._record(verdict, response.index, response.vote, response.author, at)

    def stop(
        self,
        reason: StopReason,
        explanation: str,
        author: str | None = None,
        at: datetime | None = None,
    ) -> Decision:
        """End the run for a reason that is no rule's: a budget, the deadline or a person.

        What a person says of the result of a run follows the decision that ended its sampling.
        """
        verdict = Verdict(reason, Judgement(True, None, None, explanation))
        return self._record(verdict, None, None, author, at)

    def _record(
        self,
        verdict: Verdict,
        index: int | None,
        vote: str | None,
        author: str | None,
        at: datetime | None,
    ) -> Decision:
        measured, judgement = self.tally.measurement, verdict.judgement
        decision = Decision(
            index=index,
            wave=len(self.waves),
            total_responses=len(self.responses),
            valid_responses=measured.votes,
            vote=vote,
            leader=measured.leader,
            leader_votes=measured.leader_votes,
            runner_up_votes=measured.runner_up_votes,
            confidence=measured.confidence,
            entropy=measured.entropy,
            normalized_entropy=measured.normalized_entropy,
            rule=self.request.rule,
            value=judgement.value,
            bound=judgement.bound,
            stop=verdict.stop,
            stop_reason=verdict.stop_reason,
            reason=judgement.reason,
            author=author,
            at=at,
        )
        self.decisions.append(decision)
        return decision


def _put_off(verdict: Verdict) -> Verdict:
    judgement = verdict.judgement
    reason = f"{judgement.reason}; an answer added by a person follows"
    return Verdict(None, judgement._replace(stop=False, reason=reason))


def used(sampling: Sampling) -> Usage:
    """Sum up what the run spent so far, in parts."""
    return usage(sampling.generating, sampling.evaluating, sampling.retried, sampling.cancelled)


def progress(
    sampling: Sampling,
    in_flight: int,
    *,
    needs_review: bool = False,
    review_until: datetime | None = None,
    added: int = 0,
) -> Progress:
    """Say where a run stands, with `in_flight` calls under way and `added` answers of people."""
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
        added=added,
    )


def standing(request: SelfConsistencyRequest, decisions: Sequence[Decision]) -> Progress:
    """Return the progress at the last of these decisions, without the spending."""
    last = decisions[-1]
    votes = Counter(made.vote for made in decisions if made.vote is not None)
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
        answer_distribution={vote: count / votes.total() for vote, count in votes.items()},
        usage=Usage(),
        stop_reason=last.stop_reason,
    )


def result(sampling: Sampling) -> SelfConsistencyResult:
    """Build the result, once the newest decision has ended the run.

    Raises ValueError before that.
    """
    last, measured = sampling.last, sampling.tally.measurement
    if last is None or last.stop_reason is None:
        raise ValueError("the run has not ended")
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
