"""The source's four modes against its pseudo-code, written down a second time, line by line.

The transcription recomputes everything from the list of answers, with exact fractions where the
pseudo-code has ratios. Entropies are irrational and compared within 1e-9.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import log2
from random import Random
from typing import Literal, get_args

import pytest

from mull.sampling.rules import Stopping, StoppingRule
from tests.unit.states import partitions

Mode = Literal["off", "confidence_only", "entropy_only", "combined"]
MODES: tuple[Mode, ...] = get_args(Mode)
CLOSE = 1e-9


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def should_continue_querying(answers: Sequence[str], state: Stopping) -> bool:
    current_responses = len(answers)
    if current_responses < state.min_responses:
        return True
    if current_responses >= state.max_responses:
        return False
    return not evaluate_stopping_criteria(answers, state)


def distribution_of(answers: Sequence[str]) -> dict[str, Fraction]:
    count: dict[str, int] = {}
    for answer in answers:
        count[answer] = count.get(answer, 0) + 1
    return {answer: Fraction(freq, len(answers)) for answer, freq in count.items()}


def normalized_entropy_of(distribution: dict[str, Fraction]) -> float:
    entropy = 0.0
    for probability in distribution.values():
        if probability > 0:
            entropy = entropy - float(probability) * log2(probability)
    if len(distribution) <= 1:
        return 0.0
    max_entropy = log2(len(distribution))
    return entropy / max_entropy if max_entropy > 0 else 0.0


def evaluate_stopping_criteria(  # noqa: PLR0911 - the pseudo-code's own branches
    answers: Sequence[str], state: Stopping
) -> bool:
    current_responses = len(answers)
    distribution = distribution_of(answers)
    confidence = max(distribution.values())
    confidence_threshold = exact(state.confidence_threshold)
    if state.rule in {"off", "confidence_only"}:
        return confidence >= confidence_threshold
    if current_responses < state.min_entropy_samples:
        return confidence >= confidence_threshold
    normalized_entropy = normalized_entropy_of(distribution)
    if state.rule == "entropy_only":
        return normalized_entropy <= state.entropy_threshold + CLOSE
    if confidence >= exact(0.9):
        return True
    if confidence >= confidence_threshold:
        if normalized_entropy <= state.entropy_threshold + CLOSE:
            return True
        if confidence >= exact(0.8):
            return True
    entropy_factor = 1.0 - state.entropy_weight * normalized_entropy
    combined_score = float(confidence) * entropy_factor
    return combined_score >= float(confidence_threshold * exact(0.9)) - CLOSE


def differences(settings: Stopping, most: int) -> list[tuple[int, ...]]:
    """List the states of up to `most` answers in which Mull and the pseudo-code disagree."""
    rule, found = StoppingRule(settings), []
    for total in range(1, most + 1):
        for counts in partitions(total):
            answers = [str(name) for name, votes in enumerate(counts) for _ in range(votes)]
            if rule.decide(counts).stop == should_continue_querying(answers, settings):
                found.append(counts)
    return found


@pytest.mark.parametrize("most", [12, 13])
@pytest.mark.parametrize("mode", MODES)
def test_defaults(mode: Mode, most: int) -> None:
    """At the defaults each mode decides as the pseudo-code in every state up to 12 answers."""
    settings = Stopping(rule=mode, max_responses=most)

    assert differences(settings, 12) == []


@pytest.mark.parametrize("seed", range(150))
def test_random_settings(seed: int) -> None:
    """Under random settings each mode decides as the pseudo-code in every state to 12 answers."""
    chance = Random(seed)
    most = chance.randint(1, 14)
    settings = Stopping(
        rule=chance.choice(MODES), confidence_threshold=chance.randint(0, 20) / 20,
        entropy_threshold=chance.randint(0, 20) / 20, entropy_weight=chance.randint(0, 20) / 20,
        min_responses=chance.randint(1, most), min_entropy_samples=chance.randint(1, 14),
        max_responses=most,
    )  # fmt: skip

    assert differences(settings, 12) == []


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        (Stopping(rule="combined", max_responses=40, confidence_threshold=0.8), (18, 7)),
        (Stopping(rule="combined", max_responses=40, entropy_weight=0.0), (18, 7)),
        (Stopping(rule="combined", max_responses=40, entropy_weight=0.0), (17, 8)),
        (Stopping(rule="off", confidence_threshold=0.55, max_responses=40), (11, 8, 1)),
        (Stopping(rule="confidence_only", confidence_threshold=0.7, max_responses=40), (7, 3)),
        (Stopping(confidence_threshold=1.0, entropy_weight=1.0, max_responses=40), (9, 1)),
        (Stopping(confidence_threshold=1.0, entropy_weight=1.0, max_responses=40), (8, 1)),
        (Stopping(rule="entropy_only", entropy_threshold=1.0, max_responses=40), (5, 5, 5)),
    ],
)
def test_ties_with_a_threshold(settings: Stopping, counts: tuple[int, ...]) -> None:
    """A state that meets its threshold exactly is decided as fractions decide it."""
    answers = [str(name) for name, votes in enumerate(counts) for _ in range(votes)]

    goes_on = not StoppingRule(settings).decide(counts).stop

    assert goes_on == should_continue_querying(answers, settings)
