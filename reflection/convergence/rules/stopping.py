"""The decision after each answer: go on, or stop and why."""

from typing import NamedTuple

from reflection.convergence.measures import at_most
from reflection.convergence.rules.judgement import JUDGES, Judgement, Votes
from reflection.convergence.rules.posterior import reach_probability
from reflection.convergence.rules.settings import Stopping, StopReason

FUTILITY_LEAST = 5


class Verdict(NamedTuple):
    """Whether to stop, by which stop reason, and the judgement it rests on."""

    stop_reason: StopReason | None
    judgement: Judgement

    @property
    def stop(self) -> bool:
        """Whether the run ends."""
        return self.stop_reason is not None


class StoppingRule:
    """A rule with its settings, ready to decide.

    A decision depends on nothing but the votes of each distinct answer and the number of answers
    that could not be read, so each is worked out once.
    """

    def __init__(self, settings: Stopping) -> None:
        self.settings = settings
        self._judge = JUDGES[settings.rule]
        self._curtailed = settings.curtailed
        self._gate = max(settings.min_responses, settings.quorum)
        self._known: dict[tuple[tuple[int, ...], int], Verdict] = {}

    def decide(self, counts: tuple[int, ...], unreadable: int = 0) -> Verdict:
        """Decide for votes (of each distinct answer, largest first) and unreadable answers."""
        key = (counts, unreadable)
        verdict = self._known.get(key)
        if verdict is None:
            verdict = self._known[key] = self._decide(counts, unreadable)
        return verdict

    def calls_left(self, counts: tuple[int, ...], unreadable: int) -> int:
        """Count the answers that may still be asked for."""
        return max(0, self.settings.max_responses - sum(counts) - unreadable)

    def _decide(self, counts: tuple[int, ...], unreadable: int) -> Verdict:
        votes, left = sum(counts), self.calls_left(counts, unreadable)
        if left == 0:
            return self._at_maximum(votes)
        if votes < self._gate:
            return _go_on(f"{votes} of at least {self._gate} readable answers")
        state = Votes(counts, left)
        judgement = self._judge(self.settings, state)
        if judgement.stop:
            return Verdict("rule", judgement)
        if self._curtailed and state.first - state.second > left:
            return Verdict("decided", _curtailed(state))
        futile = self._futile(state, votes)
        return Verdict("no_consensus", futile) if futile else Verdict(None, judgement)

    def _at_maximum(self, votes: int) -> Verdict:
        most, quorum = self.settings.max_responses, self.settings.quorum
        if votes < quorum:
            reason = f"readable answers: {votes} of {most}, and the quorum is {quorum}"
            return Verdict("no_consensus", Judgement(True, votes, quorum, reason))
        return Verdict("max_responses", Judgement(True, None, most, f"the maximum of {most}"))

    def _futile(self, state: Votes, votes: int) -> Judgement | None:
        epsilon, share = self.settings.futility, self.settings.confidence_threshold
        if epsilon is None or votes < FUTILITY_LEAST:
            return None
        chance = reach_probability(state.first, votes, state.calls_left, share)
        if not at_most(chance, epsilon):
            return None
        reason = f"the chance that confidence reaches {share:.4g} is {chance:.4g}"
        return Judgement(True, chance, epsilon, f"{reason}, within {epsilon:.4g}")


def _go_on(reason: str) -> Verdict:
    return Verdict(None, Judgement(False, None, None, reason))


def _curtailed(state: Votes) -> Judgement:
    lead, left = state.first - state.second, state.calls_left
    reason = f"a lead of {lead} can't be caught up in {left} more"
    return Judgement(True, lead, left, reason)
