"""A comparison of methods over the same questions: whether reflection is worth its cost."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean

from pydantic import Field

from mull.critique.estimates import Estimate
from mull.request import Record

BASELINE = "single"
NORMAL_95 = 1.959964

# Tokens of one question in the source, Shannon's reflection chapter, 11.5. It counts one evaluation
# for one revision, and writes the 112.5 % that this costs more as +112 %; a revision that is scored
# as well needs one more evaluation.
DRAFT_INPUT = 3_000
DRAFT_OUTPUT = 5_000
EVALUATION = 1_000
SINGLE = DRAFT_INPUT + DRAFT_OUTPUT
REFLECT = SINGLE + EVALUATION + SINGLE


class Outcome(Record):
    """One method's answer to one question; `question` is its position, from 0.

    `answer` is in the form that is compared, None if there is none, which is wrong. `revisions` is
    None for a method without them. Tokens in and out together, US dollars and seconds are None if
    unknown. `error` says why a run gave no text.
    """

    question: int = Field(ge=0)
    method: str
    right: bool
    answer: str | None = None
    revisions: int | None = None
    tokens: int | None = Field(None, ge=0)
    cost_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    seconds: float | None = Field(None, ge=0, allow_inf_nan=False)
    workflow_id: str = ""
    error: str | None = None


class Mean(Record):
    """A mean over the questions whose value is known (`known` counts them); None without any."""

    value: float | None
    known: int


class Method(Record):
    """One method's results over all questions that it was asked.

    `accuracy` is the share that it got right, 0 to 1, with Wilson's 95 % interval. Tokens, US
    dollars and seconds are for one question.
    """

    method: str
    questions: int
    right: int
    accuracy: Estimate
    tokens: Mean
    cost_usd: Mean
    seconds: Mean


class Paired(Record):
    """One method against the baseline, over the `questions` that both were asked.

    `accuracy` is the method's less the baseline's, with a 95 % interval. `p_value` is the exact
    two-sided one of McNemar. `tokens_change` is in percent of the baseline's tokens, over all
    questions for which both methods' tokens are known, None without any.
    """

    method: str
    baseline: str
    questions: int
    accuracy: Estimate
    wrong_to_right: int
    right_to_wrong: int
    p_value: float
    tokens_change: float | None


class Comparison(Record):
    """All methods in order of first appearance, and each of them against the baseline."""

    baseline: str | None
    methods: tuple[Method, ...]
    paired: tuple[Paired, ...]


def compare(outcomes: Iterable[Outcome]) -> Comparison:
    """Compare methods; the baseline is the method `single`, else the first."""
    methods: dict[str, dict[int, Outcome]] = {}
    for outcome in outcomes:
        methods.setdefault(outcome.method, {})[outcome.question] = outcome
    baseline = BASELINE if BASELINE in methods else next(iter(methods), None)
    return Comparison(
        baseline=baseline,
        methods=tuple(_method(name, list(given.values())) for name, given in methods.items()),
        paired=tuple(
            _paired(name, given, baseline, methods[baseline])
            for name, given in methods.items()
            if baseline is not None and name != baseline
        ),
    )


def _method(name: str, listed: Sequence[Outcome]) -> Method:
    right = sum(outcome.right for outcome in listed)
    return Method(
        method=name,
        questions=len(listed),
        right=right,
        accuracy=wilson(right, len(listed)),
        tokens=_mean([outcome.tokens for outcome in listed]),
        cost_usd=_mean([outcome.cost_usd for outcome in listed]),
        seconds=_mean([outcome.seconds for outcome in listed]),
    )


def _mean(values: Sequence[float | None]) -> Mean:
    known = [value for value in values if value is not None]
    return Mean(value=fmean(known) if known else None, known=len(known))


def _paired(
    name: str, given: Mapping[int, Outcome], baseline: str, first: Mapping[int, Outcome]
) -> Paired:
    pairs = [(first[place], given[place]) for place in sorted(first.keys() & given.keys())]
    changes = [(before.right, after.right) for before, after in pairs]
    gained, lost = changes.count((False, True)), changes.count((True, False))
    tokens = [
        (before.tokens, after.tokens)
        for before, after in pairs
        if before.tokens is not None and after.tokens is not None
    ]
    less, more = (sum(side) for side in zip(*tokens, strict=True)) if tokens else (0, 0)
    return Paired(
        method=name,
        baseline=baseline,
        questions=len(pairs),
        accuracy=paired_difference(gained, lost, len(pairs)),
        wrong_to_right=gained,
        right_to_wrong=lost,
        p_value=mcnemar(gained, lost),
        tokens_change=100 * (more - less) / less if less else None,
    )


def wilson(right: int, size: int) -> Estimate:
    """Compute a share, 0 to 1, with Wilson's 95 % interval; undefined if `size` is 0.

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    if not size:
        return Estimate()
    # scipy takes a second to import: a mistyped command should not wait for that.
    from scipy.stats import binomtest

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
    from scipy.stats import binomtest

    changed = gained + lost
    return float(binomtest(gained, changed).pvalue) if changed else 1.0
