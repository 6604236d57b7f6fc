"""From which score on a draft should pass."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import ceil
from typing import NamedTuple

from reflection.run import Record

SOURCE_THRESHOLD = 0.7
# A mean of thirds may fall short of the threshold that it meets.
TOLERANCE = 1e-9


class Verdicts(Record):
    """What passing from `threshold` on, a score of 0 to 1, makes of labelled examples.

    `accuracy` is the share of right verdicts. `youden` is J, -1 to 1: the share of passes that
    pass, and the share of fails that fail, less 1; None where there is one class alone. Balanced
    accuracy is (J + 1) / 2. `false_passes` and `false_fails` are counts.
    """

    threshold: float
    accuracy: float
    youden: float | None
    false_passes: int
    false_fails: int


def passing(score: float, threshold: float) -> bool:
    """Say whether a score meets the threshold."""
    return score >= threshold - TOLERANCE


def verdicts(
    scores: Sequence[float], passes: Sequence[bool], threshold: float = SOURCE_THRESHOLD
) -> Verdicts | None:
    """Count the wrong verdicts at a threshold; None without an example.

    Source: Youden (1950), Index for rating diagnostic tests.
    """
    if not scores:
        return None
    pairs = [
        (passing(score, threshold), right) for score, right in zip(scores, passes, strict=True)
    ]
    false_passes = sum(said and not right for said, right in pairs)
    false_fails = sum(right and not said for said, right in pairs)
    good, bad = sum(passes), len(passes) - sum(passes)
    return Verdicts(
        threshold=threshold,
        accuracy=(len(pairs) - false_passes - false_fails) / len(pairs),
        youden=1 - false_fails / good - false_passes / bad if good and bad else None,
        false_passes=false_passes,
        false_fails=false_fails,
    )


def recommend(scores: Sequence[float], passes: Sequence[bool]) -> Verdicts | None:
    """Find the threshold with the greatest Youden's J, and so the greatest balanced accuracy.

    The candidates are midpoints between neighbouring distinct scores; among equals it is the one
    nearest to the source's 0.7, then the lower. None where there is one class alone, and where no
    candidate has a J above 0, since then no threshold tells passes from fails.
    Source: Youden (1950), Index for rating diagnostic tests.
    """
    best = max(_candidates(scores, passes), key=_preference, default=None)
    if best is None or best.gain <= 0:
        return None
    return verdicts(scores, passes, best.threshold)


class _Candidate(NamedTuple):
    """`gain` is J x passes x fails, a whole number, so that ties are ties."""

    threshold: float
    gain: int


def _preference(candidate: _Candidate) -> tuple[int, float, float]:
    # Distances are rounded, or 0.65 and 0.75 would not be as far from 0.7.
    distance = round(abs(candidate.threshold - SOURCE_THRESHOLD), 9)
    return candidate.gain, -distance, -candidate.threshold


def _candidates(scores: Sequence[float], passes: Sequence[bool]) -> Iterator[_Candidate]:
    good, bad = sum(passes), len(passes) - sum(passes)
    pairs = sorted(zip(scores, passes, strict=True))
    groups = [(key, [right for _, right in each]) for key, each in groupby(pairs, lambda p: p[0])]
    good_below = bad_below = 0
    for (low, rights), (high, _) in pairwise(groups):
        good_below += sum(rights)
        bad_below += len(rights) - sum(rights)
        yield _Candidate(_between(low, high), bad_below * good - good_below * bad)


def _between(low: float, high: float) -> float:
    """Take the midpoint, with two digits where these still tell the two scores apart."""
    middle = (low + high) / 2
    for short in (round(middle, 2), ceil(middle * 100) / 100):
        if low + TOLERANCE < short <= high:
            return short
    return round(middle, 12)
