"""What each rule makes of the votes: one pure function a rule.

A rule sees the votes of each distinct answer, largest first, and how many calls are left. It
says whether to stop, the number it looked at, the bound it held it against, and why in words.
"""

from collections.abc import Callable
from typing import NamedTuple

from reflection.convergence.measures import at_least, at_most, entropy, normalized
from reflection.convergence.rules.posterior import flip_probability, lead_probability
from reflection.convergence.rules.settings import Rule, Stopping


class Votes(NamedTuple):
    """The votes so far: of each distinct answer, largest first, and the calls left."""

    counts: tuple[int, ...]
    calls_left: int

    @property
    def first(self) -> int:
        """The leader's votes."""
        return self.counts[0] if self.counts else 0

    @property
    def second(self) -> int:
        """The runner-up's votes."""
        return self.counts[1] if len(self.counts) > 1 else 0


class Judgement(NamedTuple):
    """Whether a rule says stop, the value it compared, its bound, and the reason in words."""

    stop: bool
    value: float | None
    bound: float | None
    reason: str


def _compare(name: str, value: float, bound: float) -> Judgement:
    stop = at_least(value, bound)
    verb = "reaches" if stop else "is under"
    return Judgement(stop, value, bound, f"{name} {value:.4g} {verb} {bound:.4g}")


def _within(name: str, value: float, bound: float) -> Judgement:
    stop = at_most(value, bound)
    verb = "is within" if stop else "is above"
    return Judgement(stop, value, bound, f"{name} {value:.4g} {verb} {bound:.4g}")


def _confidence_only(settings: Stopping, votes: Votes) -> Judgement:
    confidence = votes.first / sum(votes.counts)
    return _compare("confidence", confidence, settings.confidence_threshold)


def _entropy_only(settings: Stopping, votes: Votes) -> Judgement:
    if sum(votes.counts) < settings.min_entropy_samples:
        return _confidence_only(settings, votes)
    scaled = normalized(entropy(votes.counts), len(votes.counts))
    return _within("normalized entropy", scaled, settings.entropy_threshold)


def _combined(settings: Stopping, votes: Votes) -> Judgement:
    if sum(votes.counts) < settings.min_entropy_samples:
        return _confidence_only(settings, votes)
    confidence = votes.first / sum(votes.counts)
    if at_least(confidence, 0.9):
        return _compare("confidence", confidence, 0.9)
    scaled = normalized(entropy(votes.counts), len(votes.counts))
    clear = at_most(scaled, settings.entropy_threshold) or at_least(confidence, 0.8)
    if at_least(confidence, settings.confidence_threshold) and clear:
        return _compare("confidence", confidence, settings.confidence_threshold)
    score = confidence * (1.0 - settings.entropy_weight * scaled)
    return _compare("score", score, 0.9 * settings.confidence_threshold)


def _predictive(settings: Stopping, votes: Votes) -> Judgement:
    chance = flip_probability(votes.first, votes.second, votes.calls_left)
    return _within("chance of another leader", chance, settings.epsilon)


def _beta(settings: Stopping, votes: Votes) -> Judgement:
    chance = lead_probability(votes.first, votes.second)
    return _compare("chance that the lead is right", chance, settings.beta_threshold)


def _ahead_by(settings: Stopping, votes: Votes) -> Judgement:
    return _compare("lead in votes", votes.first - votes.second, settings.ahead_by)


def _never(_settings: Stopping, votes: Votes) -> Judgement:
    return Judgement(False, None, None, f"{votes.calls_left} more to come")


JUDGES: dict[Rule, Callable[[Stopping, Votes], Judgement]] = {
    "combined": _combined,
    "confidence_only": _confidence_only,
    "entropy_only": _entropy_only,
    "off": _confidence_only,
    "predictive": _predictive,
    "beta": _beta,
    "ahead_by": _ahead_by,
    "fixed": _never,
    "curtail": _never,
}
