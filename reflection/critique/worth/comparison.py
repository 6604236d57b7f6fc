"""Several methods over the same questions, each alone and against a baseline."""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from reflection.critique.calibration.estimate import Estimate, Measure, estimate, mean
from reflection.critique.worth.proportions import mcnemar, paired_difference, wilson
from reflection.critique.worth.records import Comparison, Mean, Method, Outcome, Paired

BASELINE = "single"

Answers = Mapping[int, Outcome]
Pair = tuple[Outcome, Outcome]
Pairs = Mapping[int, Pair]


def compare(
    questions: int, outcomes: Iterable[Outcome], resamples: Iterable[Sequence[int]]
) -> Comparison:
    """Compare methods over so many questions.

    The baseline is the method `single`, else the first. Each resample has as many places, 0 to
    questions - 1, drawn with replacement; without any, scores have no intervals. Raises
    ValueError for an outcome of no question, and for a second one of a question by one method.
    """
    methods = _by_method(questions, outcomes)
    if not methods:
        return Comparison(questions=questions, baseline=None, methods=(), paired=())
    baseline = BASELINE if BASELINE in methods else next(iter(methods))
    others = (name for name in methods if name != baseline)
    pairs = {name: _pairs(methods[baseline], methods[name]) for name in others}
    own = {(name, False): _scores(answers) for name, answers in methods.items()}
    gained = {(name, True): _score_changes(both) for name, both in pairs.items()}
    scores = estimate(own | gained, questions, resamples)
    return Comparison(
        questions=questions,
        baseline=baseline,
        methods=tuple(_method(name, each, scores[name, False]) for name, each in methods.items()),
        paired=tuple(
            _paired(name, baseline, questions, both, scores[name, True])
            for name, both in pairs.items()
        ),
    )


def _by_method(questions: int, outcomes: Iterable[Outcome]) -> dict[str, dict[int, Outcome]]:
    methods: dict[str, dict[int, Outcome]] = {}
    for each in outcomes:
        if each.question >= questions:
            raise ValueError(f"an outcome of question {each.question}, of {questions} from 0")
        answers = methods.setdefault(each.method, {})
        if each.question in answers:
            raise ValueError(f"two outcomes of question {each.question} by {each.method}")
        answers[each.question] = each
    return methods


def _pairs(baseline: Answers, answers: Answers) -> dict[int, Pair]:
    return {place: (baseline[place], answers[place]) for place in sorted(baseline.keys() & answers)}


def _comparable(before: Outcome, after: Outcome) -> bool:
    return None not in {before.right, after.right} or None not in {before.score, after.score}


def _scores(answers: Answers) -> Measure:
    found = {place: each.score for place, each in answers.items() if each.score is not None}
    return Measure(list(found), mean(list(found.values())))


def _score_changes(pairs: Pairs) -> Measure:
    found = {
        place: after.score - before.score
        for place, (before, after) in pairs.items()
        if before.score is not None and after.score is not None
    }
    return Measure(list(found), mean(list(found.values())))


def _method(name: str, answers: Answers, score: Estimate) -> Method:
    listed = list(answers.values())
    judged = [each.right for each in listed if each.right is not None]
    return Method(
        method=name,
        questions=len(listed),
        judged=len(judged),
        right=sum(judged),
        accuracy=wilson(sum(judged), len(judged)),
        score=score,
        tokens=_mean([each.tokens for each in listed]),
        cost_usd=_mean([each.cost_usd for each in listed]),
        seconds=_mean([each.seconds for each in listed]),
    )


def _mean(values: Sequence[float | None]) -> Mean:
    known = [value for value in values if value is not None]
    return Mean(value=fsum(known) / len(known) if known else None, known=len(known))


def _paired(name: str, baseline: str, questions: int, pairs: Pairs, score: Estimate) -> Paired:
    judged = [
        (before.right, after.right)
        for before, after in pairs.values()
        if before.right is not None and after.right is not None
    ]
    compared = {place for place, both in pairs.items() if _comparable(*both)}
    gained, lost = judged.count((False, True)), judged.count((True, False))
    return Paired(
        method=name,
        baseline=baseline,
        questions=len(compared),
        unpaired=tuple(place for place in range(questions) if place not in compared),
        accuracy=paired_difference(gained, lost, len(judged)),
        score=score,
        wrong_to_right=gained if judged else None,
        right_to_wrong=lost if judged else None,
        p_value=mcnemar(gained, lost) if judged else None,
        tokens_change=_tokens_change(pairs),
    )


def _tokens_change(pairs: Pairs) -> float | None:
    known = [
        (before.tokens, after.tokens)
        for before, after in pairs.values()
        if before.tokens is not None and after.tokens is not None
    ]
    before, after = sum(b for b, _ in known), sum(a for _, a in known)
    return 100 * (after - before) / before if before else None
