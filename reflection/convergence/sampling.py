"""One run of sampling, folded answer by answer: the state that queries return."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from reflection.budget import Budget, room
from reflection.convergence.measures import classify_uncertainty
from reflection.convergence.request import SelfConsistencyRequest
from reflection.convergence.result import Decision, Response
from reflection.convergence.rules.judgement import Judgement
from reflection.convergence.rules.settings import StopReason
from reflection.convergence.rules.stopping import StoppingRule, Verdict
from reflection.convergence.rules.waves import Waves
from reflection.convergence.tally import Tally
from reflection.usage import Spending


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
        """Whether a person shall look at what came out, which was not finished by one."""
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
        return [each.spending for each in self.responses if each.spending is not None]

    def plan(self) -> Plan:
        """Size the next wave: by the rule in force, the greatest concurrency and the budget."""
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

        Where answers that people put in follow at once, the decision is the last one's.
        """
        self.responses.append(response)
        self.retried += response.attempts - (response.spending is not None)
        self.model = response.model or self.model
        if response.vote is not None:
            measured = self.tally.add(response.vote)
            self.confidences.append(measured.confidence)
            self.entropies.append(measured.normalized_entropy)
        for name in response.left_out:
            self.warn(f"the provider does not take {name}, which was left out")
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
    reason = f"{judgement.reason}; an answer that was put in follows"
    return Verdict(None, judgement._replace(stop=False, reason=reason))
