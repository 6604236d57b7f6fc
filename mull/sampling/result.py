"""The votes and the record of a self-consistency run, with the source's field names.

Source: the self-reflection agent's pseudo-code. Thresholds are compared with a tolerance of
1e-9, since 0.55 - 0.40 is above 0.15 in binary floating point and 11/20 - 8/20 is not.
"""

from collections.abc import Sequence
from functools import cache
from math import log2
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from mull.drafts import Made, RunRecord
from mull.request import Record, Request
from mull.run import Decided, at_least, at_most
from mull.sampling.probability import Calibrated
from mull.sampling.rules import Rule, StopReason, normalized
from mull.text import Shown, place, tally_words

EntropyLevel = Literal["concentrated", "scattered", "uniform"]
UncertaintyLevel = Literal["low", "medium", "high"]
ConsensusType = Literal["undefined", "binary", "strong", "emerging", "divided"]
# Below this, even answers that all agree show little.
FEW_VOTES = 3


def classify_entropy(normalized_entropy: float) -> EntropyLevel:
    """Name a normalized entropy: up to 0.2, up to 0.7, above."""
    if at_most(normalized_entropy, 0.2):
        return "concentrated"
    return "scattered" if at_most(normalized_entropy, 0.7) else "uniform"


def classify_uncertainty(confidence: float) -> UncertaintyLevel:
    """Name the uncertainty that a confidence leaves: from 0.8, from 0.6, below."""
    if at_least(confidence, 0.8):
        return "low"
    return "medium" if at_least(confidence, 0.6) else "high"


def classify_consensus(first: float, second: float = 0.0) -> ConsensusType:
    """Name the pattern of votes by the two largest shares, each 0 to 1; no votes: 0 and 0."""
    if first <= 0:
        return "undefined"
    if at_least(second, 0.35) and at_most(first - second, 0.15):
        return "binary"
    if at_least(first, 0.8):
        return "strong"
    return "emerging" if at_least(first, 0.4) else "divided"


@cache
def _weight(count: int) -> float:
    return count * log2(count) if count else 0.0


class Measurement(NamedTuple):
    """What the votes say after one more answer.

    `confidence` is the leader's share, 0 to 1; `entropy` is in bits; `normalized_entropy` is 0
    to 1. All three are 0 where nothing was counted yet.
    """

    leader: str | None
    leader_votes: int
    runner_up_votes: int
    votes: int
    distinct: int
    confidence: float
    entropy: float
    normalized_entropy: float


NOTHING = Measurement(None, 0, 0, 0, 0, 0.0, 0.0, 0.0)


class Tally:
    """The votes so far. Adding one costs O(1); the distribution and sorted counts cost O(k).

    The entropy is kept as log2 n - sum(c log2 c) / n, of which one vote changes one summand.
    Among equals the leader is the answer that was seen first.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._order: dict[str, int] = {}
        self._weights = 0.0
        self.measurement = NOTHING

    @property
    def counts(self) -> tuple[int, ...]:
        """The votes of each distinct answer, largest first."""
        return tuple(sorted(self._counts.values(), reverse=True))

    @property
    def votes(self) -> dict[str, int]:
        """The votes of each distinct answer, in the order first seen."""
        return dict(self._counts)

    @property
    def distribution(self) -> dict[str, float]:
        """The share of each distinct answer, 0 to 1, in the order first seen."""
        votes = self.measurement.votes
        return {answer: count / votes for answer, count in self._counts.items()}

    @property
    def tied(self) -> bool:
        """Whether two or more answers share the lead."""
        return 0 < self.measurement.leader_votes == self.measurement.runner_up_votes

    def add(self, answer: str) -> Measurement:
        """Count one vote and return the measures after it."""
        count = self._counts.get(answer, 0) + 1
        self._counts[answer] = count
        self._order.setdefault(answer, len(self._order))
        self._weights += _weight(count) - _weight(count - 1)
        votes, distinct = self.measurement.votes + 1, len(self._counts)
        leader, first, second = self.measurement[:3]
        if leader is None or leader == answer:
            leader, first = answer, count
        elif count > first or (count == first and self._order[answer] < self._order[leader]):
            leader, first, second = answer, count, first
        else:
            second = max(second, count)
        bits = log2(votes) - self._weights / votes if distinct > 1 else 0.0
        self.measurement = Measurement(
            leader, first, second, votes, distinct, first / votes, bits, normalized(bits, distinct)
        )
        return self.measurement


class ConvergenceAnalysis(Record):
    """The series of confidence and normalized entropy after each counted answer, each 0 to 1.

    A rate is (last - first) / length, 0 below two values. A stability is 1 - (max - min) of the
    last three values, 1 below three. Source: the self-reflection agent's pseudo-code.
    """

    confidence_evolution: tuple[float, ...] = ()
    entropy_evolution: tuple[float, ...] = ()
    convergence_rate: float = 0.0
    final_stability: float = 1.0
    entropy_convergence_rate: float = 0.0
    entropy_final_stability: float = 1.0


def analyse(confidences: Sequence[float], entropies: Sequence[float]) -> ConvergenceAnalysis:
    """Analyse both series, which have one value for each counted answer."""
    return ConvergenceAnalysis(
        confidence_evolution=tuple(confidences),
        entropy_evolution=tuple(entropies),
        convergence_rate=rate(confidences),
        final_stability=stability(confidences),
        entropy_convergence_rate=rate(entropies),
        entropy_final_stability=stability(entropies),
    )


def rate(series: Sequence[float]) -> float:
    """Compute the mean change for each value of the series; 0 below two values."""
    return (series[-1] - series[0]) / len(series) if len(series) >= 2 else 0.0


def stability(series: Sequence[float]) -> float:
    """Compute 1 minus the spread of the last three values; 1 below three values."""
    return 1.0 - (max(series[-3:]) - min(series[-3:])) if len(series) >= 3 else 1.0


class Response(Made):
    """One sampled answer, or one added by a person, in the order of asking.

    `answer` is as it was given, `vote` what it counted for; None: it could not be read, and `error`
    says why. `left_out` names what was not sent, such as a seed that the model does not take.
    """

    answer: str | None
    vote: str | None = None
    reasoning: str = ""
    error: str | None = None

    @property
    def failed(self) -> bool:
        """Whether no reply came, which is not the same as one that can't be read."""
        return self.error is not None and self.spending is None


def answer_words(answer: str | None) -> str:
    """Write an answer so that it can be seen."""
    return "(no vote)" if answer is None else answer.strip() or "(empty)"


class Decision(Decided):
    """What was decided after one response, and every number it was based on.

    `index` is the response's, or None where no response but a budget, a deadline or a person
    decided. `wave` counts from 1. `value` is what the rule compared with `bound`: a confidence, a
    score, a normalized entropy, a probability or a number of votes, as `reason` says.
    """

    index: Annotated[int | None, Shown("#|number", place)]
    wave: Annotated[int, Shown("wave|number")]
    total_responses: int
    valid_responses: int
    vote: str | None
    leader: Annotated[str | None, Shown("leader|extra", answer_words, "none")]
    leader_votes: int
    runner_up_votes: int
    confidence: Annotated[float, Shown("agreement|number")]
    entropy: float
    normalized_entropy: Annotated[float, Shown("entropy|number")]
    rule: Rule
    value: float | None
    bound: float | None
    stop_reason: StopReason | None


class PersonsAnswer(Request):
    """An answer that a person puts in: a vote like any other, with its author and no call."""

    answer: str = Field(min_length=1, max_length=2_000)
    author: str | None = Field(None, min_length=1, max_length=200)


class Bars(NamedTuple):
    """What was asked of a result: the least confidence, and the least probability."""

    confidence: float | None = None
    probability: float | None = None


class SelfConsistencyResult(RunRecord):
    """The answer, how sure it is, why sampling stopped, and what it cost.

    `final_answer` is the most frequent answer, among equals (`tied`) the one seen first, and None
    where none could be read. Shares, confidence and normalized entropy are 0 to 1, entropy is in
    bits. `waves` are the lengths of the waves. `voted_answer` is what the votes gave where
    `final_answer` is a person's, `reviewer`'s, in its place. `probability_right` is how likely the
    answer is right by the map in `calibration`; the confidence is a share of votes. The run
    asks for at most `max_responses`. While it goes on, `added` counts the answers of people that
    wait for the wave in flight to end.
    """

    answer_field = "final_answer"

    final_answer: str | None
    consensus_confidence: float
    answer_distribution: dict[str, float]
    uncertainty_level: UncertaintyLevel
    early_stopping: bool
    total_responses: int
    convergence_analysis: ConvergenceAnalysis
    distribution_entropy: float
    normalized_entropy: float
    entropy_level: EntropyLevel
    consensus_type: ConsensusType
    stop_reason: StopReason | None = None
    tied: bool
    valid_responses: int
    quorum_met: bool
    waves: tuple[int, ...]
    decisions: tuple[Decision, ...]
    responses: tuple[Response, ...]
    question: str
    rule: Annotated[Rule, Shown("stopping rule")]
    min_responses: int = 1
    voted_answer: str | None = None
    reviewer: str | None = None
    probability_right: float | None = None
    calibration: Calibrated | None = None
    max_responses: int | None = None
    added: int = 0

    @property
    def cut_short(self) -> bool:
        """Whether the run ended with fewer readable answers than a rule would decide on."""
        return self.valid_responses < self.min_responses

    @property
    def doubt(self) -> str:
        """Say why not to build on the answer; empty where votes or a person back it."""
        return self.because(self._weakness)

    @property
    def _weakness(self) -> str:
        """Say what the votes lack.

        Fewer than three are enough where no more were allowed, or could change the answer.
        """
        votes = self.valid_responses
        if self.stop_reason in {"accepted_by_person", "replaced_by_person"}:
            return ""
        if not self.quorum_met or self.stop_reason == "no_consensus":
            unread = f"there is no readable answer in {tally_words(self.total_responses, 'call')}"
            return "there is no consensus" if votes else unread
        if self.tied:
            return "several answers share the lead"
        if self.consensus_type == "divided":
            return "the votes are divided"
        if self.cut_short:
            return f"only {votes} of at least {self.min_responses} readable answers"
        few = votes < FEW_VOTES and self.stop_reason != "decided"
        more = self.early_stopping or self.total_responses > votes
        return f"only {tally_words(votes, 'vote')}" if few and more else ""

    def below(self, bars: Bars) -> str | None:
        """Say how the agreement or the probability misses its bar; None where neither does.

        An agreement that rests on fewer answers than a rule would decide on meets no bar, and nor
        does an unknown probability.
        """
        bar, least, known = bars.confidence, bars.probability, self.probability_right
        if bar is not None and not at_least(self.consensus_confidence, bar):
            return f"agreement {self.consensus_confidence:.2f} is below {bar:g}"
        if bar is not None and self.cut_short:
            return f"a run that was cut short can't show an agreement of {bar:g}"
        if least is not None and known is None:
            why = self.calibration.reason if self.calibration else "there is no calibration map"
            return f"it is unknown whether the probability reaches {least:g} ({why})"
        if least is not None and known is not None and not at_least(known, least):
            return f"probability {known:.3f} is below {least:g}"
        return None

    @property
    def reply(self) -> str:
        """The source's sentence; an answer that a person put in has no confidence."""
        if self.stop_reason == "replaced_by_person":
            return f"Final Answer: {self.final_answer} (by {self.reviewer or 'a person'})"
        return (
            f"Final Answer: {self.final_answer} (Confidence: {self.consensus_confidence:.2f}, "
            f"Uncertainty: {self.uncertainty_level})"
        )
