"""Whether a judge says the same thing when it is asked again."""

from collections.abc import Sequence
from math import fsum, sqrt

from reflection.critique.calibration.estimate import average
from reflection.critique.calibration.threshold import SOURCE_THRESHOLD, passing
from reflection.run import Record


class Repeatability(Record):
    """How evaluations of one example, with the criteria in the same order, differ.

    `examples` is the number of those with two scores or more. `deviation` is the mean of their
    standard deviations (n - 1). `same_verdict` is the share, 0 to 1, on which all repeats pass or
    all fail at `threshold`. Both are None where `examples` is 0.
    """

    examples: int
    threshold: float
    deviation: float | None = None
    same_verdict: float | None = None


def repeatability(
    repeats: Sequence[Sequence[float]], threshold: float = SOURCE_THRESHOLD
) -> Repeatability:
    """Sum up the scores, 0 to 1, that each example got.

    Sources: Bland and Altman (1996), Measurement error, for the deviation within examples;
    Stureborg, Alikaniotis and Suhara (2024), Large language models are inconsistent and biased
    evaluators, for asking a judge again.
    """
    listed = [scores for scores in repeats if len(scores) > 1]
    if not listed:
        return Repeatability(examples=0, threshold=threshold)
    same = sum(len({passing(each, threshold) for each in scores}) == 1 for scores in listed)
    return Repeatability(
        examples=len(listed),
        threshold=threshold,
        deviation=average([_deviation(scores) for scores in listed]),
        same_verdict=same / len(listed),
    )


def _deviation(scores: Sequence[float]) -> float:
    center = fsum(scores) / len(scores)
    return sqrt(fsum((score - center) ** 2 for score in scores) / (len(scores) - 1))
