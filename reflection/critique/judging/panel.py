"""From what each judge says to the evaluation of a draft."""

from collections.abc import Sequence
from statistics import fmean, median

from reflection.critique.criteria import rounded
from reflection.critique.evaluation import Cap, Confidence, Evaluation, Feedback, Judgement
from reflection.critique.request import Panel
from reflection.critique.rule import TOLERANCE

LOWEST_FIRST: tuple[Confidence, ...] = ("low", "medium", "high")


def evaluate(
    judgements: Sequence[Judgement],
    feedback: Sequence[Feedback],
    caps: Sequence[Cap],
    panel: Panel,
) -> Evaluation:
    """Put the evaluation of a draft together from its judges and the guardrails' findings.

    The score is the mean or the median of the judges that could be read; one is enough. Then each
    guardrail caps it, or lowers the confidence where its cap is 1. Where no judge could be read
    there is no score, and `error` says why.
    """
    read = [each for each in judgements if each.score is not None]
    if not read:
        return Evaluation(judgements=tuple(judgements), error=_error(judgements))
    judged = _middle([each.score for each in read if each.score is not None], panel)
    fired = tuple(each for each in caps if judged > each.above + TOLERANCE and each.cap < judged)
    doubted = any(each.cap == 1 and judged > each.above + TOLERANCE for each in caps)
    advice = [
        Feedback(advice=each.reason, judge=f"guardrail {each.guardrail}")
        for each in caps
        if each in fired or each.above <= each.cap < 1
    ]
    return Evaluation(
        score=min([judged, *(each.cap for each in fired)]),
        judged=judged,
        criteria=_by_criterion(read, panel),
        confidence="low" if fired or doubted else _lowest(read),
        spread=_spread(read),
        feedback=(*advice, *feedback),
        guardrails=fired,
        judgements=tuple(judgements),
    )


def _middle(scores: Sequence[float], panel: Panel) -> float:
    return rounded(median(scores) if panel == "median" else fmean(scores))


def _by_criterion(read: Sequence[Judgement], panel: Panel) -> dict[str, float]:
    tables = [each.scores for each in read if each.scores is not None]
    return {name: _middle([each[name] for each in tables], panel) for name in tables[0]}


def _lowest(read: Sequence[Judgement]) -> Confidence | None:
    given = {each.confidence for each in read}
    return next((each for each in LOWEST_FIRST if each in given), None)


def _spread(read: Sequence[Judgement]) -> float | None:
    scores = [each.score for each in read if each.score is not None]
    return rounded(max(scores) - min(scores)) if len(scores) > 1 else None


def _error(judgements: Sequence[Judgement]) -> str:
    said = [f"{each.judge or 'the judge'}: {each.error}" for each in judgements if each.error]
    return "; ".join(said) or "there was no judge"
