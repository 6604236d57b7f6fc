"""A comparison of methods over the same questions: whether reflection is worth its cost.

numpy and scipy take a second to import: only a command that measures imports this.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, sqrt

from pydantic import Field
from scipy.stats import binomtest

from reflection.critique.calibration import Estimate
from reflection.critique.statistics import estimate, mean
from reflection.run import Record

BASELINE = "single"
NORMAL_95 = 1.959964


class Outcome(Record):
    """One method's result for one question; `question` is its position, from 0.

    `right` is None if the right answer is unknown, and `score` (0 to 1) if there is none. Tokens in
    and out together, US dollars and seconds are None if unknown.
    """

    question: int = Field(ge=0)
    method: str
    right: bool | None = None
    score: float | None = Field(None, allow_inf_nan=False)
    tokens: int | None = Field(None, ge=0)
    cost_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    seconds: float | None = Field(None, ge=0, allow_inf_nan=False)


class Mean(Record):
    """A mean over the questions whose value is known (`known` counts them); None without any."""

    value: float | None
    known: int


class Method(Record):
    """One method's results over all questions that it answered.

    `accuracy` is the share, 0 to 1, of the `judged` questions that it got right, with Wilson's
    interval, and `score` the mean score with a bootstrap interval, both of 95 %. Tokens, US
    dollars and seconds are for one question.
    """

    method: str
    questions: int
    judged: int
    right: int
    accuracy: Estimate
    score: Estimate
    tokens: Mean
    cost_usd: Mean
    seconds: Mean


class Paired(Record):
    """One method against the baseline, question by question.

    `questions` counts those for which both are known to be right or wrong, or both have a score;
    `unpaired` lists all others. Differences are the method's less the baseline's, with 95 %
    intervals. `p_value` is the exact two-sided one of McNemar. `tokens_change` is in percent of
    the baseline's tokens, over all questions for which both methods' tokens are known. Each is
    None if there is nothing to compare.
    """

    method: str
    baseline: str
    questions: int
    unpaired: tuple[int, ...]
    accuracy: Estimate
    score: Estimate
    wrong_to_right: int | None
    right_to_wrong: int | None
    p_value: float | None
    tokens_change: float | None


class Comparison(Record):
    """All methods in order of first appearance, and each of them against the baseline."""

    questions: int
    baseline: str | None
    methods: tuple[Method, ...]
    paired: tuple[Paired, ...]


class SourceCost(Record):
    """Tokens of one question by one method; `change` is in percent of no reflection's tokens."""

    method: str
    draft: int
    evaluation: int
    revision: int
    total: int
    change: float


DRAFT_INPUT = 3_000
DRAFT_OUTPUT = 5_000
EVALUATION = 1_000
DRAFT = DRAFT_INPUT + DRAFT_OUTPUT

SOURCE_COSTS = tuple(
    SourceCost(
        method=method,
        draft=DRAFT,
        evaluation=revisions * EVALUATION,
        revision=revisions * DRAFT,
        total=DRAFT + revisions * (EVALUATION + DRAFT),
        change=100 * revisions * (EVALUATION + DRAFT) / DRAFT,
    )
    for method, revisions in (("single", 0), ("reflect", 1))
)
"""Source: Shannon's reflection chapter, 11.5, which writes the 112.5 % as +112 %. It counts one
evaluation per revision; a revision that is scored as well needs one more."""

Resamples = Sequence[Sequence[int]]
Answers = Mapping[int, Outcome]


def compare(questions: int, outcomes: Iterable[Outcome], resamples: Resamples) -> Comparison:
    """Compare methods over a number of questions.

    The baseline is the method `single`, else the first. Each resample has one position per
    question, 0 to questions - 1, drawn with replacement; without resamples, scores have no
    intervals. Raises ValueError for an outcome of an unknown question, or a second outcome of the
    same question and method.
    """
    methods: dict[str, dict[int, Outcome]] = {}
    for outcome in outcomes:
        place, answers = outcome.question, methods.setdefault(outcome.method, {})
        if place >= questions:
            raise ValueError(f"outcome of question {place}, but there are only {questions}")
        if place in answers:
            raise ValueError(f"two outcomes of question {place} by {outcome.method}")
        answers[place] = outcome
    baseline = BASELINE if BASELINE in methods else next(iter(methods), None)
    return Comparison(
        questions=questions,
        baseline=baseline,
        methods=tuple(
            _method(name, answers, questions, resamples) for name, answers in methods.items()
        ),
        paired=tuple(
            _paired(name, answers, baseline, methods[baseline], questions, resamples)
            for name, answers in methods.items()
            if baseline is not None and name != baseline
        ),
    )


def _method(name: str, answers: Answers, questions: int, resamples: Resamples) -> Method:
    listed = list(answers.values())
    judged = [outcome.right for outcome in listed if outcome.right is not None]
    scores = [answers[place].score if place in answers else None for place in range(questions)]
    return Method(
        method=name,
        questions=len(listed),
        judged=len(judged),
        right=sum(judged),
        accuracy=wilson(sum(judged), len(judged)),
        score=estimate(mean, [scores], resamples),
        tokens=_mean([outcome.tokens for outcome in listed]),
        cost_usd=_mean([outcome.cost_usd for outcome in listed]),
        seconds=_mean([outcome.seconds for outcome in listed]),
    )


def _mean(values: Sequence[float | None]) -> Mean:
    known = [value for value in values if value is not None]
    return Mean(value=fsum(known) / len(known) if known else None, known=len(known))


def _paired(
    name: str,
    answers: Answers,
    baseline: str,
    first: Answers,
    questions: int,
    resamples: Resamples,
) -> Paired:
    pairs = {place: (first[place], answers[place]) for place in sorted(first.keys() & answers)}
    judged = {
        place: (before.right, after.right)
        for place, (before, after) in pairs.items()
        if before.right is not None and after.right is not None
    }
    changes = {
        place: after.score - before.score
        for place, (before, after) in pairs.items()
        if before.score is not None and after.score is not None
    }
    tokens = [
        (before.tokens, after.tokens)
        for before, after in pairs.values()
        if before.tokens is not None and after.tokens is not None
    ]
    compared = judged.keys() | changes
    gained = list(judged.values()).count((False, True))
    lost = list(judged.values()).count((True, False))
    before, after = (sum(side) for side in zip(*tokens, strict=True)) if tokens else (0, 0)
    return Paired(
        method=name,
        baseline=baseline,
        questions=len(compared),
        unpaired=tuple(place for place in range(questions) if place not in compared),
        accuracy=paired_difference(gained, lost, len(judged)),
        score=estimate(mean, [[changes.get(place) for place in range(questions)]], resamples),
        wrong_to_right=gained if judged else None,
        right_to_wrong=lost if judged else None,
        p_value=mcnemar(gained, lost) if judged else None,
        tokens_change=100 * (after - before) / before if before else None,
    )


def wilson(right: int, size: int) -> Estimate:
    """Compute a share, 0 to 1, with Wilson's 95 % interval; undefined if `size` is 0.

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    if not size:
        return Estimate()
    ends = binomtest(right, size).proportion_ci(method="wilson")
    return Estimate(value=right / size, low=float(ends.low), high=float(ends.high))


def paired_difference(gained: int, lost: int, size: int) -> Estimate:
    """Compute (gained - lost) / size, -1 to 1, with a 95 % interval; undefined if `size` is 0.

    The interval is Wald's with half a pair added to each of the four cells, so that it never has
    length 0 and is valid for small sets too. Source: Agresti and Min (2005), Simple improved
    confidence intervals for comparing matched proportions.
    """
    if not size:
        return Estimate()
    value, added = (gained - lost) / size, size + 2
    center = (gained - lost) / added
    half = NORMAL_95 * sqrt(gained + lost + 1 - (gained - lost) ** 2 / added) / added
    low, high = max(-1.0, center - half), min(1.0, center + half)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def mcnemar(gained: int, lost: int) -> float:
    """Compute McNemar's exact two-sided p value, 0 to 1, from the pairs changed each way.

    Without a difference each changed pair is a fair coin toss; if nothing changed, p is 1. Sources:
    McNemar (1947), Note on the sampling error of the difference between correlated proportions or
    percentages; Liddell (1976), Practical tests of 2 x 2 tables, for the exact one.
    """
    changed = gained + lost
    return float(binomtest(gained, changed).pvalue) if changed else 1.0
