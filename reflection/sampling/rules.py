"""Stopping rules: their settings, defaults and presets, and the decision after each answer.

Each rule is one pure function. It gets the votes of each distinct answer, largest first, and the
number of calls left. It returns whether to stop, the value it compared, the bound, and the reason
in words.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AliasChoices, Field, model_validator

from reflection.run import Request
from reflection.sampling.posterior import flip_probability, lead_probability, reach_probability
from reflection.sampling.tally import at_least, at_most, entropy, normalized

Rule = Literal[
    "combined",
    "confidence_only",
    "entropy_only",
    "off",
    "predictive",
    "beta",
    "ahead_by",
    "fixed",
    "curtail",
]
StopReason = Literal[
    "rule",
    "decided",
    "max_responses",
    "no_consensus",
    "budget",
    "deadline",
    "finished_by_person",
    "accepted_by_person",
    "replaced_by_person",
    "review_timeout",
]
Preset = Literal["thrifty", "thorough"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

SOURCE_MODES: frozenset[Rule] = frozenset({"combined", "confidence_only", "entropy_only", "off"})
SOURCE_MIN_RESPONSES = 5
MAX_RESPONSES_CEILING = 1000

PRESETS: dict[str, dict[str, object]] = {
    "thrifty": {"rule": "predictive", "epsilon": 0.05, "max_responses": 10},
    "thorough": {"rule": "predictive", "epsilon": 0.02, "max_responses": 40},
}


class Stopping(Request):
    """What stops sampling. Defaults of the source's modes are the source's."""

    preset: Preset | None = Field(
        None,
        description="Settings for what is not given: predictive, with epsilon 0.05 and at most 10"
        " answers (thrifty), or 0.02 and 40 (thorough).",
    )
    rule: Rule = Field(
        "combined",
        validation_alias=AliasChoices("rule", "entropy_mode"),
        description="The stopping rule.",
    )
    confidence_threshold: Share = Field(0.8, description="The share that the leading answer needs.")
    entropy_threshold: Share = Field(0.3, description="The entropy rules stop at this entropy.")
    entropy_weight: Share = Field(0.3, description="How much entropy lowers combined's score.")
    min_responses: int = Field(
        SOURCE_MIN_RESPONSES,
        ge=1,
        description="The fewest readable answers; 1 for the last five rules.",
    )
    min_entropy_samples: int = Field(4, ge=1, description="Readable answers before entropy counts.")
    max_responses: int = Field(10, ge=1, le=MAX_RESPONSES_CEILING, description="The most answers.")
    epsilon: Share = Field(
        0.05, description="The rule predictive stops at this chance of another leader."
    )
    beta_threshold: Share = Field(
        0.95, description="The rule beta stops at this certainty of the leader."
    )
    ahead_by: int = Field(3, ge=1, description="The rule ahead_by stops at this lead in votes.")
    futility: Share | None = Field(
        None, description="Stop when agreement is at most this likely, whatever the rule."
    )
    quorum: int = Field(1, ge=1, description="The fewest readable answers for a consensus.")

    @property
    def curtailed(self) -> bool:
        """Whether the run ends once the runner-up can't catch up, which changes no answer."""
        return self.rule not in SOURCE_MODES and self.rule != "fixed"

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset")
        known = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        filled = {**_without_rule_twice(known, data), **data}
        if filled.get("min_responses") is None:
            filled["min_responses"] = _least(filled)
        return filled

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.min_responses > self.max_responses:
            raise ValueError(
                f"min_responses ({self.min_responses}) is above max_responses"
                f" ({self.max_responses})"
            )
        if self.quorum > self.max_responses:
            raise ValueError(
                f"quorum ({self.quorum}) is above max_responses ({self.max_responses})"
            )
        return self


def _without_rule_twice(preset: dict[str, object], data: dict[str, Any]) -> dict[str, object]:
    return {k: v for k, v in preset.items() if k != "rule"} if "entropy_mode" in data else preset


def _least(data: dict[str, Any]) -> int:
    rule = data.get("rule", data.get("entropy_mode", "combined"))
    if not isinstance(rule, str) or rule not in SOURCE_MODES:
        return 1
    try:
        most = int(data.get("max_responses", SOURCE_MIN_RESPONSES))
    except (TypeError, ValueError, OverflowError):
        return SOURCE_MIN_RESPONSES
    return min(max(most, 1), SOURCE_MIN_RESPONSES)


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
    reason = f"chance that the answer still changes: {100 * chance:.3g} %"
    limit = f"(limit {100 * settings.epsilon:.3g} %)"
    return Judgement(
        at_most(chance, settings.epsilon), chance, settings.epsilon, f"{reason} {limit}"
    )


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
            few = f"{votes} of at least {self._gate} readable answers"
            return Verdict(None, Judgement(False, None, None, few))
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


def _curtailed(state: Votes) -> Judgement:
    lead, left = state.first - state.second, state.calls_left
    reason = f"the runner-up can't make up a lead of {lead} in {left} more answers"
    return Judgement(True, lead, left, reason)
