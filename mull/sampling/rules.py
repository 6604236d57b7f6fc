"""Stopping rules: their settings and presets, the table of rules, and the decision they lead to.

To add a rule, in this file: a name in `Rule`, a judge, and an entry in `RULES`, in the same order.
The entry says of the rule

- `agreement_ends_soonest`: no further answers end a run sooner than votes for the leader do, so
  that waves try nothing else. True takes a reason, in a comment above the entry. If in doubt say
  False; then new answers are tried too, which only takes longer. tests/unit/test_waves.py holds
  every rule to it. See docs/adr/0002-waves-as-the-shortest-ending-continuation.md.
- `curtails`: the run also ends, as `decided`, once the runner-up can't catch up. That changes no
  answer. False is for a rule that wants the votes themselves, as the source's modes and `fixed` do.

Then add rows to `OF_ONE_RULE` in tests/unit/test_rules.py, and to the tables in docs/guide.md and
docs/glossary.md. If the rule reads a setting, add the rule to the setting's `only_with`.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from math import log2
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import AliasChoices, Field, model_validator

from mull.option import bound_option, option
from mull.request import Request
from mull.run import Ruling, at_least, at_most
from mull.sampling.posterior import flip_probability, lead_probability, reach_probability
from mull.text import tally_words

Rule = Literal[
    "combined",
    "confidence_only",
    "off",
    "entropy_only",
    "predictive",
    "beta",
    "ahead_by",
    "curtail",
    "fixed",
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

SOURCE_MIN_RESPONSES = 5

STOPPING_PRESETS: dict[str, dict[str, object]] = {
    "thrifty": {"rule": "predictive", "epsilon": 0.05, "max_responses": 10},
    "thorough": {"rule": "predictive", "epsilon": 0.02, "max_responses": 40},
}

stop_option = partial(option, "When to stop")
entropy_option = partial(stop_option, only_with={"rule": ("combined", "entropy_only")})
# Futility compares with its threshold too, whatever the rule.
AGREEING = {"rule": ("combined", "entropy_only", "confidence_only", "off"), "futility": None}


class Stopping(Request):
    """What stops sampling. Defaults of the source's modes are the source's."""

    preset: Preset | None = stop_option(
        None,
        "Settings for what is not given: predictive, with epsilon 0.05 and at most 10"
        " answers (thrifty), or 0.02 and 40 (thorough).",
        common=True,
    )
    rule: Rule = stop_option(
        "combined",
        "The stopping rule.",
        also="--entropy-mode",
        validation_alias=AliasChoices("rule", "entropy_mode"),
    )
    confidence_threshold: Share = stop_option(
        0.8, "The share that the leading answer needs.", only_with=AGREEING
    )
    entropy_threshold: Share = entropy_option(0.3, "The entropy rules stop at this entropy.")
    entropy_weight: Share = stop_option(
        0.3, "How much entropy lowers combined's score.", only_with={"rule": ("combined",)}
    )
    min_responses: int = stop_option(
        SOURCE_MIN_RESPONSES,
        "The fewest readable answers; 1 for a rule that is not the source's.",
        ge=1,
    )
    min_entropy_samples: int = entropy_option(4, "Readable answers before entropy counts.", ge=1)
    max_responses: int = stop_option(10, "The most answers.", common=True, ge=1, le=1000)
    epsilon: Share = stop_option(
        0.05,
        "The rule predictive stops at this chance that the leader is overtaken.",
        only_with={"rule": ("predictive",)},
    )
    beta_threshold: Share = stop_option(
        0.95, "The rule beta stops at this certainty of the leader.", only_with={"rule": ("beta",)}
    )
    ahead_by: int = stop_option(
        3, "The rule ahead_by stops at this lead in votes.", only_with={"rule": ("ahead_by",)}, ge=1
    )
    futility: Share | None = stop_option(
        None, "Stop when agreement is at most this likely, whatever the rule."
    )
    quorum: int = stop_option(1, "The fewest readable answers for a consensus.", ge=1)
    hurry: int = bound_option(
        0,
        "Ask for at least this many answers at once, and cancel the calls under way"
        " once those before them decide: sooner, for more tokens.",
        ge=0,
        le=32,
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        preset = data.get("preset")
        filled = dict(STOPPING_PRESETS.get(preset, {})) if isinstance(preset, str) else {}
        if "entropy_mode" in data:
            filled.pop("rule", None)
        filled |= data
        if filled.get("min_responses") is None:
            filled.pop("min_responses", None)
            if (least := _least(filled)) != SOURCE_MIN_RESPONSES:
                filled["min_responses"] = least
        return filled

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for name, least in ("min_responses", self.min_responses), ("quorum", self.quorum):
            if least > self.max_responses:
                above = f"is above max_responses ({self.max_responses})"
                raise ValueError(f"{name} ({least}) {above}")
        return self


def _least(data: dict[str, Any]) -> int:
    rule = data.get("rule", data.get("entropy_mode", "combined"))
    if rule not in get_args(Rule) or not RULES[rule].of_source:
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


Judge = Callable[[Stopping, Votes], Ruling[StopReason]]


def _reaches(name: str, value: float, bound: float) -> Ruling[StopReason]:
    stop = at_least(value, bound)
    verb = "reaches" if stop else "is under"
    return Ruling("rule" if stop else None, f"{name} {value:.4g} {verb} {bound:.4g}", value, bound)


def _confidence_only(settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    confidence = votes.first / sum(votes.counts)
    return _reaches("agreement", confidence, settings.confidence_threshold)


def entropy(counts: tuple[int, ...]) -> float:
    """Compute Shannon's entropy of the shares of `counts`, in bits: 0 to log2(len(counts)).

    Source: Shannon (1948); H = -sum(p log2 p).
    """
    votes = sum(counts)
    if len(counts) < 2:
        return 0.0
    return max(0.0, log2(votes) - sum(count * log2(count) for count in counts) / votes)


def normalized(entropy_bits: float, distinct: int) -> float:
    """Scale an entropy in bits by log2 of the number of distinct answers: 0 to 1."""
    return min(1.0, entropy_bits / log2(distinct)) if distinct > 1 else 0.0


def _entropy_only(settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    if sum(votes.counts) < settings.min_entropy_samples:
        return _confidence_only(settings, votes)
    scaled = normalized(entropy(votes.counts), len(votes.counts))
    bound = settings.entropy_threshold
    stop = at_most(scaled, bound)
    verb = "is within" if stop else "is above"
    reason = f"normalized entropy {scaled:.4g} {verb} {bound:.4g}"
    return Ruling("rule" if stop else None, reason, scaled, bound)


def _combined(settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    if sum(votes.counts) < settings.min_entropy_samples:
        return _confidence_only(settings, votes)
    confidence = votes.first / sum(votes.counts)
    if at_least(confidence, 0.9):
        return _reaches("agreement", confidence, 0.9)
    scaled = normalized(entropy(votes.counts), len(votes.counts))
    clear = at_most(scaled, settings.entropy_threshold) or at_least(confidence, 0.8)
    if at_least(confidence, settings.confidence_threshold) and clear:
        return _reaches("agreement", confidence, settings.confidence_threshold)
    score = confidence * (1.0 - settings.entropy_weight * scaled)
    return _reaches("score", score, 0.9 * settings.confidence_threshold)


def _predictive(settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    chance = flip_probability(votes.first, votes.second, votes.calls_left)
    limit = f"(limit {100 * settings.epsilon:.3g} %)"
    reason = f"{100 * chance:.3g} % chance that the runner-up overtakes it {limit}"
    stop = at_most(chance, settings.epsilon)
    return Ruling("rule" if stop else None, reason, chance, settings.epsilon)


def _beta(settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    chance = lead_probability(votes.first, votes.second)
    return _reaches(
        "chance that the leader is likelier than the runner-up", chance, settings.beta_threshold
    )


def _ahead_by(settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    return _reaches("lead in votes", votes.first - votes.second, settings.ahead_by)


def _never(_settings: Stopping, votes: Votes) -> Ruling[StopReason]:
    return Ruling(None, f"{votes.calls_left} more to come")


# The curves of a chart that a bound is held against, besides "entropy".
AGREEMENT, COMPARED = "agreement", "compared by the rule"


class RuleBound(NamedTuple):
    """A line that the chart of a run shows: `factor` times the field, beside the curve."""

    field: str
    label: str
    curve: str
    factor: float = 1.0


class RuleEntry(NamedTuple):
    """All that is known of a stopping rule; the first lines of this file explain both flags.

    `of_source`: one of the source's modes, with its minimum of 5 readable answers.
    `bounds` are shown in the chart of a run.
    """

    judge: Judge
    agreement_ends_soonest: bool
    curtails: bool
    of_source: bool = False
    bounds: tuple[RuleBound, ...] = ()


CONFIDENCE_BOUND = RuleBound("confidence_threshold", "confidence threshold", AGREEMENT)
SCORE_BOUND = RuleBound("confidence_threshold", "score, at least", COMPARED, factor=0.9)
ENTROPY_BOUND = RuleBound("entropy_threshold", "entropy threshold", "entropy")
EPSILON_BOUND = RuleBound("epsilon", "epsilon", COMPARED)
BETA_BOUND = RuleBound("beta_threshold", "beta threshold", COMPARED)

# Only a vote for the leader raises its share.
CONFIDENCE_ONLY = RuleEntry(
    _confidence_only,
    agreement_ends_soonest=True,
    curtails=False,
    of_source=True,
    bounds=(CONFIDENCE_BOUND,),
)
RULES: dict[Rule, RuleEntry] = {
    "combined": RuleEntry(
        _combined,
        agreement_ends_soonest=False,
        curtails=False,
        of_source=True,
        bounds=(CONFIDENCE_BOUND, SCORE_BOUND, ENTROPY_BOUND),
    ),
    "confidence_only": CONFIDENCE_ONLY,
    "off": CONFIDENCE_ONLY,
    "entropy_only": RuleEntry(
        _entropy_only,
        agreement_ends_soonest=False,
        curtails=False,
        of_source=True,
        bounds=(ENTROPY_BOUND,),
    ),
    # These weigh the leader's votes against the runner-up's, so only a vote for the leader helps.
    "predictive": RuleEntry(
        _predictive, agreement_ends_soonest=True, curtails=True, bounds=(EPSILON_BOUND,)
    ),
    "beta": RuleEntry(_beta, agreement_ends_soonest=True, curtails=True, bounds=(BETA_BOUND,)),
    "ahead_by": RuleEntry(_ahead_by, agreement_ends_soonest=True, curtails=True),
    "curtail": RuleEntry(_never, agreement_ends_soonest=True, curtails=True),
    # Nothing but the number of answers ends it.
    "fixed": RuleEntry(_never, agreement_ends_soonest=True, curtails=False),
}

FUTILITY_LEAST = 5


class StoppingRule:
    """A rule with its settings, ready to decide.

    `decide(counts, unreadable)` depends on nothing but the votes of each distinct answer, largest
    first, and the number of answers that could not be read, so each ruling is worked out once.
    """

    def __init__(self, settings: Stopping) -> None:
        self.settings = settings
        self._rule = RULES[settings.rule]
        self._gate = max(settings.min_responses, settings.quorum)
        self._curtails = self._rule.curtails or (settings.rule == "fixed" and settings.hurry > 0)
        self.decide = cache(self._decide)

    def calls_left(self, counts: tuple[int, ...], unreadable: int) -> int:
        """Count the answers that may still be asked for."""
        return max(0, self.settings.max_responses - sum(counts) - unreadable)

    def _decide(self, counts: tuple[int, ...], unreadable: int = 0) -> Ruling[StopReason]:
        votes, left = sum(counts), self.calls_left(counts, unreadable)
        most, quorum = self.settings.max_responses, self.settings.quorum
        if left == 0 and votes < quorum:
            few = f"readable answers: {votes} of {most}, and the quorum is {quorum}"
            return Ruling("no_consensus", few, votes, quorum)
        if left == 0:
            reached = f"the maximum of {tally_words(most, 'answer')} is reached"
            return Ruling("max_responses", reached, bound=most)
        if votes < self._gate:
            return Ruling(None, f"{votes} of at least {self._gate} readable answers")
        state = Votes(counts, left)
        ruling = self._rule.judge(self.settings, state)
        if ruling.stop:
            return ruling
        lead = state.first - state.second
        if self._curtails and lead > left:
            late = f"the runner-up can't make up a lead of {lead} in {left} more answers"
            return Ruling("decided", late, lead, left)
        return self._futile(state, votes) or ruling

    def _futile(self, state: Votes, votes: int) -> Ruling[StopReason] | None:
        epsilon, share = self.settings.futility, self.settings.confidence_threshold
        if epsilon is None or votes < FUTILITY_LEAST:
            return None
        chance = reach_probability(state.first, votes, state.calls_left, share)
        if not at_most(chance, epsilon):
            return None
        reason = f"chance that agreement still reaches {share:.4g}: {100 * chance:.3g} %"
        limit = f"(limit {100 * epsilon:.3g} %)"
        return Ruling("no_consensus", f"{reason} {limit}", chance, epsilon)


class Waves:
    """The lengths of waves under one rule, each state worked out once.

    `length(counts, unreadable, most)` is how many answers to ask for next: 1 to `most`, and 0 where
    none are left. `counts` are the votes of each distinct answer, largest first. Where every
    continuation of up to `most` answers goes on, it is `most`. The setting `hurry` is the least.
    """

    def __init__(self, rule: StoppingRule) -> None:
        # A hurry shortens no wave: it only cancels what is under way.
        unhurried = rule.settings.model_copy(update={"hurry": 0})
        self._rule = StoppingRule(unhurried) if rule.settings.hurry else rule
        self._least = rule.settings.hurry
        self._agree_only = RULES[rule.settings.rule].agreement_ends_soonest
        self._futility = rule.settings.futility is not None
        self.length = cache(self._search)

    def _search(self, counts: tuple[int, ...], unreadable: int, most: int) -> int:
        longest = min(self._rule.calls_left(counts, unreadable), most)
        least = min(self._least, longest)
        for length in range(1, longest):
            if self._can_end(counts, unreadable, length):
                return max(length, least)
        return longest

    def _can_end(self, counts: tuple[int, ...], unreadable: int, length: int) -> bool:
        """Try `length` more answers, some of them new and the others for the leader.

        For a given number of distinct answers the most concentrated votes are those that give
        the leader all but one for each new answer, so votes for the others need no trial. Nor
        does an unreadable answer: it brings no rule nearer to its bound than a vote for the
        leader does, and futility no nearer than a new answer.
        """
        tried: Iterable[int] = range(length + 1)
        if self._agree_only:
            tried = (0, length) if self._futility else (0,)
        for new in tried:
            led = sum(counts[:1]) + length - new
            after = (*((led, *counts[1:]) if led else counts), *([1] * new))
            if self._rule.decide(after, unreadable).stop:
                return True
        return False
