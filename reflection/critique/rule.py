"""The revision rule: whether a draft's score ends the run or it is revised."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from reflection.critique.result import StopReason

# Sums of weighted scores miss a threshold by a rounding error that nobody means.
TOLERANCE = 1e-9
ROWS_WITHOUT_GAIN = 2


class Verdict(NamedTuple):
    """What the rule says: a stop reason, or None to revise, and why in words."""

    stop_reason: StopReason | None
    reason: str


def passes(score: float, threshold: float) -> bool:
    """Tell whether a score reaches a threshold."""
    return score >= threshold - TOLERANCE


def changes(scores: Sequence[float]) -> list[float]:
    """List how much each score differs from the one before it."""
    return [after - before for before, after in pairwise(scores)]


def decide(
    scores: Sequence[float], threshold: float, revisions: int, allowed: int, min_gain: float
) -> Verdict:
    """Decide after the newest of at least one score, in the order of the evaluations.

    In this order: a score at the threshold passes; no more than `allowed` revisions are made; two
    evaluations in a row that gain less than `min_gain` are a plateau.
    Source: Shannon's reflection chapter, sections 11.3 and 11.6; the plateau is Mull's.
    """
    score = scores[-1]
    if passes(score, threshold):
        return Verdict("passed", f"score {score:.4g} reaches {threshold:g}")
    below = f"score {score:.4g} is below {threshold:g}"
    if revisions >= allowed:
        return Verdict("max_revisions", f"{below}, and {_all_made(allowed)}")
    gains = changes(scores)[-ROWS_WITHOUT_GAIN:]
    if len(gains) == ROWS_WITHOUT_GAIN and all(each < min_gain - TOLERANCE for each in gains):
        shown = " and ".join(f"{each:+.3f}" for each in gains)
        return Verdict(
            "plateau",
            f"{below}, and the last two evaluations gained {shown}, less than {min_gain:g}",
        )
    left = allowed - revisions
    return Verdict(None, f"{below}, with {left} revision{'s' if left > 1 else ''} left")


def _all_made(allowed: int) -> str:
    if allowed == 0:
        return "no revision is allowed"
    return "the one revision is made" if allowed == 1 else f"all {allowed} revisions are made"
