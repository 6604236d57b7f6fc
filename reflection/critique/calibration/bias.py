"""What moves a judge's score besides quality: its own hand, length, the order of criteria."""

from collections.abc import Mapping, Sequence
from math import sqrt

from reflection.critique.calibration.estimate import Statistic, average, mean
from reflection.critique.calibration.ranks import spearman

Scores = Mapping[str, float]

ROUNDING = 1e-12


def same_model(one: str, other: str) -> bool:
    """Say whether two names mean one model: equal, or equal without what a provider prefixes."""
    return one == other or _bare(one) == _bare(other)


def self_preference(
    judge: str, writers: Sequence[str | None], excess: Sequence[float]
) -> Statistic:
    """Compute how much more than the label a judge gives its own drafts than those of others.

    `excess` is score - label, and the gap its mean over drafts that the judge wrote less its mean
    over those of other known writers, -2 to 2. Undefined where either is empty. Sources:
    Panickssery, Bowman and Feng (2024), LLM evaluators recognize and favor their own generations,
    for the bias; the label stands for the quality that must not be taken for it, as in Chen et
    al. (2025), Do LLM evaluators prefer themselves for a reason?
    """
    own = [writer is not None and same_model(judge, writer) for writer in writers]
    others = [writer is not None and not mine for writer, mine in zip(writers, own, strict=True)]
    overall = mean(excess)

    def statistic(weights: Sequence[int]) -> float | None:
        of_own = overall([w * mine for w, mine in zip(weights, own, strict=True)])
        of_others = overall([w * theirs for w, theirs in zip(weights, others, strict=True)])
        return None if of_own is None or of_others is None else of_own - of_others

    return statistic


def length_bias(
    drafts: Sequence[str], scores: Sequence[float], labels: Sequence[float]
) -> Statistic:
    """Compute the rank correlation, -1 to 1, of a draft's characters and score, label held fixed.

    Above 0 the judge likes length more than the labels do. It is Spearman's partial correlation, so
    that labels which go with length are no bias of the judge's; 0 where the label explains every
    score, and Spearman's plain one where all labels are alike. Undefined where lengths or scores
    are constant. Sources: Saito et al. (2023), Verbosity bias in preference labeling by large
    language models; Kendall (1942), Partial rank correlation, for holding the label fixed.
    """
    lengths = [len(draft) for draft in drafts]
    liked, expected = spearman(lengths, scores), spearman(lengths, labels)
    followed = spearman(scores, labels)

    def statistic(weights: Sequence[int]) -> float | None:
        of_length, of_labels, of_scores = liked(weights), expected(weights), followed(weights)
        if of_length is None or of_labels is None or of_scores is None:
            return of_length
        rest = (1 - of_labels**2) * (1 - of_scores**2)
        if rest < ROUNDING:
            return 0.0
        found = (of_length - of_labels * of_scores) / sqrt(rest)
        return max(-1.0, min(1.0, found))

    return statistic


def position_gain(in_order: Sequence[Scores], in_reverse: Sequence[Scores]) -> float | None:
    """Compute how much higher one draft's criteria score where they are listed earlier.

    That is the mean over criteria of the score when listed earlier less the score when listed
    later, -1 to 1, each the mean of its repeats. The order is that of the first evaluation; the
    middle one of an odd number never moves and does not count. None without both orders, or with
    one criterion. Source: Wang et al. (2023), Large language models are not fair evaluators, for
    judging in both orders; here it is criteria that change places, not answers.
    """
    order = next((list(each) for each in in_order if each), [])
    earlier, later = _means(in_order), _means(in_reverse)
    gains = [
        (earlier[name] - later[name]) * (1 if 2 * place < len(order) - 1 else -1)
        for place, name in enumerate(order)
        if name in later and 2 * place != len(order) - 1
    ]
    return average(gains) if gains else None


def _bare(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _means(listed: Sequence[Scores]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for scores in listed:
        for name, score in scores.items():
            values.setdefault(name, []).append(score)
    return {name: average(each) for name, each in values.items()}
