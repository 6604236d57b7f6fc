"""What rules cost and how often they are right, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, sqrt

from reflection.convergence.replaying.replay import Runs
from reflection.run import Record

NORMAL_95 = 1.959964


class Outcome(Record):
    """What one rule did over all questions.

    `calls` and `rounds` are means for each run. `saved` is the share, 0 to 1, of the calls that
    never stopping early takes. `accuracy` is 0 to 1, `accuracy_ci` its 95 % interval, both None
    where no question says what is right. `pareto`: no other rule has at least this accuracy for at
    most these calls, and is better in one of the two; None where there is no accuracy.
    """

    calls: float
    rounds: float
    accuracy: float | None
    accuracy_ci: tuple[float, float] | None
    saved: float
    pareto: bool | None = None


def compare(runs: Mapping[str, Sequence[Runs]]) -> dict[str, Outcome]:
    """Sum up each rule's runs, one entry for each question, and mark the Pareto front."""
    outcomes = {rule: _outcome(listed) for rule, listed in runs.items()}
    return {
        rule: outcome.model_copy(update={"pareto": _on_front(outcome, outcomes.values())})
        for rule, outcome in outcomes.items()
    }


def interval(shares: Sequence[float]) -> tuple[float, float]:
    """Compute a 95 % interval for the mean of one share of right runs, 0 to 1, a question.

    Orderings of one question are not independent, so the questions are the clusters: the variance
    is that of their mean, and Wilson's interval is taken with the number of independent runs that
    has this variance. Where the shares do not vary, that is the number of questions, so that no
    interval has the length 0. Sources: Wilson (1927); Miller, Adding Error Bars to Evals (2024),
    for the clusters; Kish (1965) for the effective number.
    """
    questions = len(shares)
    mean = fsum(shares) / questions
    squares = fsum((share - mean) ** 2 for share in shares)
    variance = squares / (questions - 1) / questions if questions > 1 else 0.0
    effective = mean * (1 - mean) / variance if variance > 0 else questions
    return _wilson(mean, effective)


def _wilson(mean: float, size: float) -> tuple[float, float]:
    squared = NORMAL_95**2
    center = (mean + squared / (2 * size)) / (1 + squared / size)
    spread = mean * (1 - mean) / size + squared / (4 * size * size)
    half = NORMAL_95 * sqrt(spread) / (1 + squared / size)
    # Rounding may leave the mean outside its own interval where it is 0 or 1.
    return min(max(0.0, center - half), mean), max(min(1.0, center + half), mean)


def _outcome(listed: Sequence[Runs]) -> Outcome:
    runs, calls = sum(each.runs for each in listed), sum(each.calls for each in listed)
    judged = [(each.right, each.runs) for each in listed if each.right is not None]
    shares = [right / each_runs for right, each_runs in judged]
    return Outcome(
        calls=calls / runs,
        rounds=sum(each.rounds for each in listed) / runs,
        accuracy=sum(right for right, _ in judged) / sum(n for _, n in judged) if judged else None,
        accuracy_ci=interval(shares) if judged else None,
        saved=1 - calls / sum(each.available for each in listed),
    )


def _on_front(outcome: Outcome, others: Iterable[Outcome]) -> bool | None:
    return None if outcome.accuracy is None else not any(_beats(o, outcome) for o in others)


def _beats(other: Outcome, outcome: Outcome) -> bool:
    if other.accuracy is None or outcome.accuracy is None:
        return False
    no_worse = other.calls <= outcome.calls and other.accuracy >= outcome.accuracy
    return no_worse and (other.calls < outcome.calls or other.accuracy > outcome.accuracy)
