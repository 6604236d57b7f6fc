"""How well each judge agrees with a labelled set."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, fsum
from typing import Annotated

from pydantic import BeforeValidator, Field

from mull.critique import criteria
from mull.critique.estimates import Bin, Estimate, average
from mull.request import Record
from mull.run import above

PASS_AT = 0.5
SOURCE_THRESHOLD = 0.7
COIN = 0.5
FOLDS = 10

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
WORDS = {"pass": 1.0, "fail": 0.0}
Label = Annotated[
    Share,
    BeforeValidator(lambda label: WORDS.get(label.lower()) if isinstance(label, str) else label),
]
Scores = Mapping[str, float]


class Example(Record):
    """One labelled draft: `label` is 0 to 1, or "pass", which is 1, or "fail", which is 0.

    `writer` is the model that wrote the draft, None if unknown.
    """

    query: str
    draft: str
    label: Label
    writer: str | None = None


class Scored(Record):
    """One evaluation of one example by one judge.

    `example` is its place in the labelled set, `repeat` counts the evaluations of the same kind,
    both from 0. `reversed`: the criteria were listed in reverse. `score` is None if the evaluation
    failed, and `error` says why; `judged` is the score before the guardrails in `guardrails`
    capped it. `scores` are by criterion, in the order asked. Tokens and US dollars are None if the
    provider did not say. `workflow_id` is the run's.
    """

    example: int = Field(ge=0)
    judge: str
    repeat: int = Field(0, ge=0)
    reversed: bool = False
    score: Share | None = None
    judged: Share | None = None
    scores: dict[str, Share] = Field(default_factory=dict)
    guardrails: tuple[str, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None
    workflow_id: str = ""
    error: str | None = None


class Verdicts(Record):
    """How a pass threshold, 0 to 1, classifies the labelled examples.

    `accuracy` is the share of right verdicts. `youden` is Youden's J, -1 to 1: the share of
    passes that pass, plus the share of fails that fail, minus 1; None if there is only one
    class. Balanced accuracy is (J + 1) / 2. `false_passes` and `false_fails` are counts.
    """

    threshold: float
    accuracy: float
    youden: float | None
    false_passes: int
    false_fails: int


class Repeatability(Record):
    """How much repeated evaluations of one example differ, with the criteria in the same order.

    `examples` is the number of those with two scores or more. `deviation` is the mean of their
    standard deviations (n - 1). `same_verdict` is the share, 0 to 1, on which all repeats pass or
    all fail at `threshold`. Both are None where `examples` is 0.
    """

    examples: int
    threshold: float
    deviation: float | None = None
    same_verdict: float | None = None


class Calibration(Record):
    """How good one judge is, over the examples that it scored with the criteria in order.

    `examples` were asked about; `evaluated` have a score, the mean of their repeats, and `failed`
    have none. `evaluations` were made in all, of which `failed_evaluations` gave no score. An
    `Estimate` has a 95 % bootstrap interval over examples. `position_bias` is how much higher a
    criterion scores when it is listed earlier. `calibration_floor` is the calibration error that
    noise alone makes. `recommended` has a cross-validated J, and is None unless AUC's interval is
    above a coin's 0.5; repeatability is then taken at the source's 0.7, as `at_source` is.
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
    calibration_floor: float | None
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
    examples: Sequence[Example], scored: Iterable[Scored], pass_at: float = PASS_AT
) -> tuple[Calibration, ...]:
    """Calibrate each judge, in order of first appearance; labels of at least `pass_at` are passes.

    The same evaluations give the same intervals. Raises IndexError for an evaluation of an unknown
    example.
    """
    judges: dict[str, list[Scored]] = {}
    for one in scored:
        judges.setdefault(one.judge, []).append(one)
    return tuple(_calibrate(judge, examples, listed, pass_at) for judge, listed in judges.items())


def _calibrate(
    judge: str, examples: Sequence[Example], listed: Sequence[Scored], pass_at: float
) -> Calibration:
    # numpy and scipy take a second to import: a mistyped command should not wait for that.
    from mull.critique import statistics as numbers

    orders: dict[int, tuple[list[Scored], list[Scored]]] = {}
    for one in listed:
        if one.score is not None:
            orders.setdefault(one.example, ([], []))[one.reversed].append(one)
    repeats = {
        place: [one.score or 0.0 for one in in_order]
        for place, (in_order, _) in sorted(orders.items())
        if in_order
    }
    seen = [examples[place] for place in repeats]
    scores = [average(given) for given in repeats.values()]
    labels = [one.label for one in seen]
    passes = [label >= pass_at for label in labels]
    gaps = [
        (round(score - one.label, 12), same_model(judge, one.writer))
        for score, one in zip(scores, seen, strict=True)
        if one.writer is not None
    ]
    gains = [
        position_gain([one.scores for one in in_order], [one.scores for one in in_reverse])
        for in_order, in_reverse in orders.values()
    ]
    auc = numbers.estimate(numbers.auc, scores, passes)
    recommended = None
    if auc.low is not None and auc.low > COIN and (best := recommend(scores, passes)):
        recommended = best.model_copy(update={"youden": held_out_youden(scores, passes)})
    error, floor = numbers.estimate_error(scores, labels) if scores else (Estimate(), None)
    threshold = recommended.threshold if recommended else SOURCE_THRESHOLD
    asked = len({one.example for one in listed})
    tokens = [one.tokens for one in listed if one.tokens is not None]
    costs = [one.cost_usd for one in listed if one.cost_usd is not None]
    return Calibration(
        judge=judge,
        examples=asked,
        evaluated=len(scores),
        failed=asked - len(scores),
        evaluations=len(listed),
        failed_evaluations=sum(one.score is None for one in listed),
        spearman=numbers.estimate(numbers.spearman, scores, labels),
        kendall=numbers.estimate(numbers.kendall, scores, labels),
        auc=auc,
        calibration_error=error,
        calibration_floor=floor,
        reliability=numbers.reliability(scores, labels),
        self_preference=numbers.estimate(
            numbers.preference_gap, [gap for gap, _ in gaps], [own for _, own in gaps]
        ),
        length_bias=numbers.estimate(
            numbers.length_bias, [len(one.draft) for one in seen], scores, labels
        ),
        position_bias=numbers.estimate(numbers.mean, [gain for gain in gains if gain is not None]),
        repeatability=repeatability(list(repeats.values()), threshold),
        recommended=recommended,
        at_source=verdicts(scores, passes),
        tokens=sum(tokens) if len(tokens) == len(listed) else None,
        cost_usd=fsum(costs) if len(costs) == len(listed) else None,
    )


def same_model(one: str, other: str) -> bool:
    """Tell whether two names mean the same model, with or without a provider's prefix."""
    return one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1]


def position_gain(in_order: Sequence[Scores], in_reverse: Sequence[Scores]) -> float | None:
    """Compute how much higher one draft's criteria score where they are listed earlier.

    That is the mean over criteria of the score when listed earlier less the score when listed
    later, -1 to 1, each the mean of its repeats. The order is that of the first evaluation; the
    middle one of an odd number never moves and does not count. None without both orders, or with
    one criterion. Source: Wang et al. (2023), Large language models are not fair evaluators, for
    judging in both orders; here it is criteria that change places, not answers.
    """
    order = next((list(scores) for scores in in_order if scores), [])

    def of(listed: Sequence[Scores], name: str) -> float:
        return average([scores[name] for scores in listed if name in scores])

    gains = [
        (of(in_order, name) - of(in_reverse, name)) * (1 if 2 * place < len(order) - 1 else -1)
        for place, name in enumerate(order)
        if 2 * place != len(order) - 1 and any(name in scores for scores in in_reverse)
    ]
    return average(gains) if gains else None


def repeatability(
    repeats: Sequence[Sequence[float]], threshold: float = SOURCE_THRESHOLD
) -> Repeatability:
    """Summarize the repeated scores, 0 to 1, of each example.

    Sources: Bland and Altman (1996), Measurement error, for the deviation within examples;
    Stureborg, Alikaniotis and Suhara (2024), Large language models are inconsistent and biased
    evaluators, for asking a judge again.
    """
    listed = [scores for scores in repeats if len(scores) > 1]
    if not listed:
        return Repeatability(examples=0, threshold=threshold)
    same = sum(
        len({criteria.passes(score, threshold) for score in scores}) == 1 for scores in listed
    )
    return Repeatability(
        examples=len(listed),
        threshold=threshold,
        deviation=average([statistics.stdev(scores) for scores in listed]),
        same_verdict=same / len(listed),
    )


def verdicts(
    scores: Sequence[float], passes: Sequence[bool], threshold: float = SOURCE_THRESHOLD
) -> Verdicts | None:
    """Count the wrong verdicts at a threshold; None without examples.

    Source: Youden (1950), Index for rating diagnostic tests.
    """
    if not scores:
        return None
    said = [criteria.passes(score, threshold) for score in scores]
    pairs = list(zip(said, passes, strict=True))
    false_passes, false_fails = pairs.count((True, False)), pairs.count((False, True))
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

    The candidates are the midpoints between neighbouring distinct scores; ties go to the one
    nearest to the source's 0.7, then to the lower. None if there is only one class, or if no
    candidate has a J above 0: then no threshold separates passes from fails.
    Source: Youden (1950), Index for rating diagnostic tests.
    """
    tried = [
        verdicts(scores, passes, _between(low, high)) for low, high in pairwise(sorted(set(scores)))
    ]
    # Rounded, so that equal J are equal numbers, and 0.65 and 0.75 equally far from 0.7.
    ranked = [
        (round(one.youden, 12), -round(abs(one.threshold - SOURCE_THRESHOLD), 9), -one.threshold)
        for one in tried
        if one and one.youden
    ]
    best = max(ranked, default=(0.0, 0.0, 0.0))
    return verdicts(scores, passes, -best[2]) if best[0] > 0 else None


def held_out_youden(scores: Sequence[float], passes: Sequence[bool]) -> float | None:
    """Cross-validate the greatest J: a tenth is judged by the threshold of the other nine.

    Where the others have no threshold it is the source's. Each tenth has its share of the passes.
    Source: Stone (1974), Cross-validatory choice and assessment of statistical predictions.
    """
    pairs = [*zip(scores, passes, strict=True)]
    ranked = sorted(range(len(pairs)), key=lambda place: (pairs[place][1], place))
    judged: list[tuple[float, bool]] = []
    for fold in range(min(FOLDS, len(pairs))):
        held_out = set(ranked[fold::FOLDS])
        rest = [pair for place, pair in enumerate(pairs) if place not in held_out]
        best = recommend([score for score, _ in rest], [good for _, good in rest])
        threshold = best.threshold if best else SOURCE_THRESHOLD
        judged += [(criteria.passes(pairs[at][0], threshold), pairs[at][1]) for at in held_out]
    found = verdicts([float(said) for said, _ in judged], [good for _, good in judged])
    return found.youden if found else None


def _between(low: float, high: float) -> float:
    """Return the midpoint, rounded to two digits if that still separates the two scores."""
    middle = (low + high) / 2
    for short in (round(middle, 2), ceil(middle * 100) / 100):
        if above(short, low) and short <= high:
            return short
    return round(middle, 12)
