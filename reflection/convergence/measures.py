"""The measures of a distribution of answers, and the words for their levels.

Source: the self-reflection agent's pseudo-code. Thresholds are compared with a tolerance of
1e-9, since 0.55 - 0.40 is above 0.15 in binary floating point and 11/20 - 8/20 is not.
"""

from math import log2
from typing import Literal

EntropyLevel = Literal["concentrated", "scattered", "uniform"]
UncertaintyLevel = Literal["low", "medium", "high"]
ConsensusType = Literal["undefined", "binary", "strong", "emerging", "divided"]

TOLERANCE = 1e-9


def at_least(value: float, bound: float) -> bool:
    """Tell whether `value` reaches `bound`, forgiving the rounding of floats."""
    return value >= bound - TOLERANCE


def at_most(value: float, bound: float) -> bool:
    """Tell whether `value` stays within `bound`, forgiving the rounding of floats."""
    return value <= bound + TOLERANCE


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
