"""All that a labelled set says of each judge."""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from reflection.critique.calibration.bias import length_bias, position_gain, self_preference
from reflection.critique.calibration.estimate import Estimate, Measure, average, estimate, mean
from reflection.critique.calibration.ranks import auc, kendall, spearman
from reflection.critique.calibration.records import Example, Scored
from reflection.critique.calibration.reliability import Bin, calibration_error, reliability
from reflection.critique.calibration.repeatability import Repeatability, repeatability
from reflection.critique.calibration.threshold import (
    SOURCE_THRESHOLD,
    Verdicts,
    recommend,
    verdicts,
)
from reflection.run import Record

PASS_AT = 0.5


class Calibration(Record):
    """How good one judge is, over the examples that it scored with the criteria in order.

    `examples` were asked about; `evaluated` have a score, the mean of their repeats, and `failed`
    have none. `evaluations` were made in all, of which `failed_evaluations` gave no score. An
    `Estimate` has a 95 % bootstrap interval over examples. `position_bias` is how much higher a
    criterion scores when it is listed earlier. `recommended` is None where no threshold tells
    passes from fails, and repeatability is then taken at the source's 0.7, as `at_source` is.
    Tokens and US dollars are those of all evaluations, None where one is unknown.
    """

    judge: str
    examples: int
    evaluated: int
    failed: int
    evaluations: int
    failed_evaluations: int
    spearman: Estimate
    kendall: Estimate
    auc: Estimate
    calibration_error: Estimate
    reliability: tuple[Bin, ...]
    self_preference: Estimate
    length_bias: Estimate
    position_bias: Estimate
    repeatability: Repeatability
    recommended: Verdicts | None
    at_source: Verdicts | None
    tokens: int | None
    cost_usd: float | None


def calibrate(
    examples: Sequence[Example],
    scored: Iterable[Scored],
    resamples: Iterable[Sequence[int]],
    pass_at: float = PASS_AT,
) -> tuple[Calibration, ...]:
    """Calibrate each judge, in the order in which they are first met.

    Labels of at least `pass_at` are passes. Each resample has as many places, 0 to
    len(examples) - 1, drawn with replacement, and is shared by all judges and numbers; without
    any there are no intervals. Raises ValueError where an evaluation is of no example.
    """
    judges = _by_judge(scored, len(examples))
    seen = {judge: _see(examples, listed, pass_at) for judge, listed in judges.items()}
    measures = {
        (judge, name): measure
        for judge, each in seen.items()
        for name, measure in _measures(judge, each).items()
    }
    found = estimate(measures, len(examples), resamples)
    estimates: dict[str, dict[str, Estimate]] = {judge: {} for judge in judges}
    for (judge, name), each in found.items():
        estimates[judge][name] = each
    return tuple(_sum_up(judge, seen[judge], judges[judge], estimates[judge]) for judge in judges)


def _by_judge(scored: Iterable[Scored], examples: int) -> dict[str, list[Scored]]:
    judges: dict[str, list[Scored]] = {}
    for each in scored:
        if each.example >= examples:
            raise ValueError(f"an evaluation of example {each.example}, of {examples} from 0")
        judges.setdefault(each.judge, []).append(each)
    return judges


class _Seen(NamedTuple):
    """What one judge gave to the examples at `places`, one entry for each, and their labels.

    `gains` has, by place, the position gain of the examples that were judged in both orders.
    """

    places: list[int]
    examples: list[Example]
    repeats: list[list[float]]
    scores: list[float]
    labels: list[float]
    passes: list[bool]
    gains: dict[int, float]


def _see(examples: Sequence[Example], listed: Sequence[Scored], pass_at: float) -> _Seen:
    repeats: dict[int, list[float]] = {}
    for each in listed:
        if each.score is not None and not each.reversed:
            repeats.setdefault(each.example, []).append(each.score)
    places = sorted(repeats)
    labels = [examples[place].label for place in places]
    return _Seen(
        places=places,
        examples=[examples[place] for place in places],
        repeats=[repeats[place] for place in places],
        scores=[average(repeats[place]) for place in places],
        labels=labels,
        passes=[label >= pass_at for label in labels],
        gains=_gains(listed),
    )


def _gains(listed: Sequence[Scored]) -> dict[int, float]:
    orders: dict[int, tuple[list[Mapping[str, float]], list[Mapping[str, float]]]] = {}
    for each in listed:
        if each.score is not None:
            orders.setdefault(each.example, ([], []))[each.reversed].append(each.scores)
    gains = {place: position_gain(*both) for place, both in sorted(orders.items())}
    return {place: gain for place, gain in gains.items() if gain is not None}


def _measures(judge: str, seen: _Seen) -> dict[str, Measure]:
    scores, labels = seen.scores, seen.labels
    excess = [round(score - label, 12) for score, label in zip(scores, labels, strict=True)]
    writers = [each.writer for each in seen.examples]
    drafts = [each.draft for each in seen.examples]
    statistics = {
        "spearman": spearman(scores, labels),
        "kendall": kendall(scores, labels),
        "auc": auc(scores, seen.passes),
        "calibration_error": calibration_error(scores, labels),
        "self_preference": self_preference(judge, writers, excess),
        "length_bias": length_bias(drafts, scores, labels),
    }
    measures = {name: Measure(seen.places, each) for name, each in statistics.items()}
    measures["position_bias"] = Measure(list(seen.gains), mean(list(seen.gains.values())))
    return measures


def _sum_up(
    judge: str, seen: _Seen, listed: Sequence[Scored], estimates: Mapping[str, Estimate]
) -> Calibration:
    recommended = recommend(seen.scores, seen.passes)
    examples, tokens = len({each.example for each in listed}), [each.tokens for each in listed]
    usd = [each.cost_usd for each in listed]
    return Calibration(
        judge=judge,
        examples=examples,
        evaluated=len(seen.places),
        failed=examples - len(seen.places),
        evaluations=len(listed),
        failed_evaluations=sum(each.score is None for each in listed),
        reliability=reliability(seen.scores, seen.labels),
        repeatability=repeatability(
            seen.repeats, recommended.threshold if recommended else SOURCE_THRESHOLD
        ),
        recommended=recommended,
        at_source=verdicts(seen.scores, seen.passes),
        tokens=None if None in tokens else sum(each or 0 for each in tokens),
        cost_usd=None if None in usd else fsum(each or 0.0 for each in usd),
        **estimates,
    )
