"""The state of a sampling run, updated answer by answer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mull.drafts import ReviewedState
from mull.request import Review
from mull.run import Room, Ruling, room
from mull.sampling.answers import read_answer
from mull.sampling.probability import Calibrated, CalibrationMap, Setup, nearest, probability
from mull.sampling.prompts import hash_prompt
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import (
    Decision,
    Response,
    SelfConsistencyResult,
    Tally,
    analyse,
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
)
from mull.sampling.rules import Stopping, StoppingRule, StopReason, Waves
from mull.text import encoded_size

# Maps are fitted on runs that ended so; where a review timed out, nobody changed the answer.
MEASURED_ENDS = {"rule", "decided", "max_responses", "review_timeout"}
UNKNOWN_FIT = "the calibration map may not fit: its log did not say {}"


@dataclass
class Sampling(ReviewedState[Decision]):
    """The responses, votes, decisions and spending of a run so far.

    Votes are counted in the order of their index, whichever reply came first. `put_in` are the
    answers of people that are counted after the wave in flight.
    """

    record_type = SelfConsistencyResult

    request: SelfConsistencyRequest
    tally: Tally = field(default_factory=Tally)
    responses: list[Response] = field(default_factory=list)
    waves: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    replied: str | None = None
    replacement: str | None = None
    put_in: list[Response] = field(default_factory=list)
    maps: tuple[CalibrationMap, ...] = ()

    def __post_init__(self) -> None:
        self._rule = StoppingRule(self.request)
        self._waves = Waves(self._rule)
        if (given := self.request.calibration) is not None:
            self.maps = (given,)
            if given.unknown:
                self.warn(UNKNOWN_FIT.format(", ".join(given.unknown)))

    @property
    def setup(self) -> Setup:
        """The settings, known so far, that a calibration map must share with the run."""
        request = self.request
        models = {response.model for response in self.responses if response.model}
        return Setup(
            model=", ".join(sorted(models)) or request.model,
            temperature=request.temperature,
            prompt_hash=hash_prompt(request.prompt_template, request.answers, request.framing),
            answers=request.answers,
            stopping=Stopping(**request.model_dump(include=set(Stopping.model_fields))),
        )

    def calibrated(self) -> tuple[float | None, Calibrated | None]:
        """Return the probability by the nearest map, or None, and what is said about that map."""
        if not (self.stopped and self.maps):
            return None, None
        setup, measured = self.setup, self.tally.measurement
        [made, *_] = nearest(self.maps, setup)
        reasons = made.differences(setup, by_hand=self.request.calibration is not None)
        if any(response.author for response in self.responses):
            reasons.append("a person voted")
        ends = {decision.stop_reason for decision in self.decisions if decision.stop_reason}
        reasons += [f"it ended as {end}" for end in sorted(ends - MEASURED_ENDS)]
        told = Calibrated(
            name=made.name,
            questions=made.measured.questions,
            ece=made.measured.ece,
            reason="; ".join(reasons) or None,
        )
        if reasons:
            return None, told
        return probability(made.knots, measured.leader_votes, measured.votes), told

    @property
    def model(self) -> str | None:
        """The model that replied last, or that the request names."""
        return self.replied or self.request.model

    @property
    def waits_for_review(self) -> bool:
        """True if a person has to review the result; never if a person ended the run."""
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
    def answered(self) -> bool:
        """Whether a reply came, of the model or of a person."""
        return any(response.spending or response.author for response in self.responses)

    @property
    def unanswered(self) -> str | None:
        """Why the run failed, if neither the model nor a person ever replied; else None.

        Refusals and filtered replies count as replies.
        """
        if self.answered or self.last is None or self.last.stop_reason == "finished_by_person":
            return None
        if not self.responses:
            return f"NoReply: no reply came to {self.cancelled} calls: {self.last.reason}"
        kind, _, said = (self.responses[-1].error or "").partition(": ")
        calls = sum(response.attempts for response in self.responses)
        often = f"{len(self.responses)} samples, {calls} calls"
        return f"{kind}: no reply ever came ({often}); the last error: {said or kind}"

    def unreadable_answer(self, answer: str) -> str | None:
        """Explain why a person's answer can't count; None if it can."""
        if encoded_size(answer) > self.request.answer_bytes:
            return "the answer is too long"
        if read_answer(self.request.answers, answer) is None:
            return f"the answer can't be read as {self.request.answers}"
        return None

    def refused(self, given: Review) -> str | None:
        """Explain why a review is refused; None if it is accepted."""
        if given.revise is not None or given.score is not None:
            return "an answer can only be accepted or replaced"
        return None if given.replace is None else self.unreadable_answer(given.replace)

    def replace(self, text: str, author: str, at: datetime) -> None:
        """Take a person's text as the result; the decision says whose it is, and since when."""
        del author, at
        self.replacement = text.strip()

    def plan(self) -> Room:
        """Size the next wave by the rule, the concurrency limit and the budget; 0: no budget."""
        most = self.request.concurrency
        wanted = self._waves.length(self.tally.counts, self.unreadable, most)
        return room(self.budget, self.every_spending, wanted)

    def decided_by(self, votes: Mapping[int, str | None]) -> bool:
        """Tell whether replies that came, and are not counted yet, end a run in a hurry.

        `votes` are by index, None for no vote. The rule takes those before which no reply is
        missing, since the first replies are not a fair sample; `fixed` takes all, as it ends only
        where no other can change the answer. It is False for answers that a model compares.
        """
        if not self.request.hurry or self.request.answers == "llm":
            return False
        counts, unreadable = Counter(self.tally.votes), self.unreadable
        for expected, (index, vote) in enumerate(sorted(votes.items()), len(self.responses)):
            if index != expected and self.request.rule != "fixed":
                return False
            if vote is None:
                unreadable += 1
            else:
                counts[vote] += 1
            if self._rule.decide(tuple(sorted(counts.values(), reverse=True)), unreadable).stop:
                return True
        return False

    def begin_wave(self, length: int) -> int:
        """Begin a wave of this length, and return its number, from 1."""
        self.waves.append(length)
        return len(self.waves)

    def count(
        self, response: Response, *, more_follow: bool = False, at: datetime | None = None
    ) -> Decision:
        """Count one response, the next by index, and decide.

        If answers added by people follow at once, only the last one may stop the run.
        """
        self.responses.append(response)
        self.pay("generating", response.spending, response.attempts)
        self.replied = response.model or self.replied
        if response.vote is not None:
            measured = self.tally.add(response.vote)
            self.confidences.append(measured.confidence)
            self.entropies.append(measured.normalized_entropy)
        self.left_out(response.left_out)
        ruling = self._rule.decide(self.tally.counts, self.unreadable)
        if ruling.stop and more_follow:
            reason = f"{ruling.reason}; an answer added by a person follows"
            ruling = ruling._replace(stop_reason=None, reason=reason)
        return self._record(ruling, response.author, at, response)

    def came_late(self, response: Response) -> None:
        """Pay for a reply that came while those before it ended the run; it has no vote."""
        self.pay("generating", response.spending, response.attempts)

    def settle(
        self, reason: StopReason, explanation: str, at: datetime | None, author: str | None = None
    ) -> Decision:
        """End the run by a budget, the deadline or a person, not by a rule.

        A person's review of the result is a decision after the one that ended the sampling.
        """
        return self._record(Ruling(reason, explanation), author, at)

    stop = settle

    def _record(
        self,
        ruling: Ruling[StopReason],
        author: str | None,
        at: datetime | None,
        response: Response | None = None,
    ) -> Decision:
        measured = self.tally.measurement
        decision = Decision(
            index=response.index if response else None,
            wave=len(self.waves),
            total_responses=len(self.responses),
            valid_responses=measured.votes,
            vote=response.vote if response else None,
            leader=measured.leader,
            leader_votes=measured.leader_votes,
            runner_up_votes=measured.runner_up_votes,
            confidence=measured.confidence,
            entropy=measured.entropy,
            normalized_entropy=measured.normalized_entropy,
            rule=self.request.rule,
            value=ruling.value,
            bound=ruling.bound,
            stop=ruling.stop,
            stop_reason=ruling.stop_reason,
            reason=ruling.reason,
            author=author,
            at=at,
        )
        self.decisions.append(decision)
        return decision

    def _shown(self) -> dict[str, Any]:
        last, measured, request = self.last, self.tally.measurement, self.request
        replaced = self.replacement
        second = measured.runner_up_votes / measured.votes if measured.votes else 0.0
        probability_right, calibration = self.calibrated()
        return {
            "probability_right": probability_right,
            "calibration": calibration,
            "final_answer": measured.leader if replaced is None else replaced,
            "consensus_confidence": measured.confidence,
            "answer_distribution": self.tally.distribution,
            "uncertainty_level": classify_uncertainty(measured.confidence),
            "early_stopping": len(self.responses) < request.max_responses,
            "total_responses": len(self.responses),
            "convergence_analysis": analyse(self.confidences, self.entropies),
            "distribution_entropy": measured.entropy,
            "normalized_entropy": measured.normalized_entropy,
            "entropy_level": classify_entropy(measured.normalized_entropy),
            "consensus_type": classify_consensus(measured.confidence, second),
            "tied": self.tally.tied,
            "valid_responses": measured.votes,
            "quorum_met": measured.votes >= request.quorum,
            "waves": tuple(self.waves),
            "responses": tuple(self.responses),
            "question": request.question,
            "rule": request.rule,
            "min_responses": request.min_responses,
            "voted_answer": None if replaced is None else measured.leader,
            "reviewer": last.author if last and last.stop else None,
            "max_responses": request.max_responses,
            "added": 0 if self.stopped else len(self.put_in),
        }
