"""Replay recorded answers through stopping rules: what rules cost and how often they are right.

A decision depends on the votes of each distinct answer, not on their names, so orderings of all
questions share their states, and each rule decides on a state only once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import sqrt
from statistics import fmean, variance
from typing import Any, NamedTuple, TypeAlias

from mull.request import Record
from mull.sampling.answers import read_answer
from mull.sampling.request import AnswerKind
from mull.sampling.rules import Stopping, StoppingRule, Waves

MAX_CONCURRENCY = 16
UNREADABLE = -1
NORMAL_95 = 1.959964
# The answers of a cascade's first model that have to agree.
AGREEING = 3

# The votes of each distinct answer, largest first, and the number of unreadable answers.
State: TypeAlias = tuple[tuple[int, ...], int]


class RuleOutcome(Record):
    """What one rule did over all questions.

    `calls` and `rounds` are means for each run. `saved` is the share, 0 to 1, of the calls that
    never stopping early takes. `accuracy` is 0 to 1, `accuracy_ci` its 95 % interval, both None
    where no question says what is right. `pareto`: no other rule has at least this accuracy for at
    most these calls, and is better in one of the two; None where there is no accuracy. `tokens` are
    those of all answers, and `latency` sums the longest answer of each round; None where unknown.
    """

    calls: float
    rounds: float
    accuracy: float | None
    accuracy_ci: tuple[float, float] | None
    saved: float
    pareto: bool | None = None
    tokens: float | None = None
    latency: float | None = None


class Recorded(NamedTuple):
    """One question's answers in recorded order: a number for each distinct vote, -1 unreadable.

    `right` says whether each answer is right, `tokens` how long it is; None where unknown.
    """

    votes: tuple[int, ...]
    right: tuple[bool, ...] | None
    tokens: tuple[int, ...] | None = None


def recorded(
    kind: AnswerKind,
    answers: Sequence[str | None],
    gold: str | None = None,
    ok: Sequence[float] | None = None,
    tokens: Sequence[int] | None = None,
) -> Recorded:
    """Read answers under their kind; `ok`, a 0 or 1 for each, has precedence over `gold`.

    Raises ValueError where gold can't be read, or a list has another length than `answers`.
    """
    for name, values in (("ok", ok), ("tokens", tokens)):
        if values is not None and len(values) != len(answers):
            raise ValueError(f"{len(values)} values in {name} for {len(answers)} answers")
    lengths = None if tokens is None else tuple(tokens)
    forms = [read_answer(kind, answer) for answer in answers]
    ids: dict[str, int] = {}
    votes = tuple(UNREADABLE if form is None else ids.setdefault(form, len(ids)) for form in forms)
    if ok is not None:
        return Recorded(votes, tuple(map(bool, ok)), lengths)
    if gold is None:
        return Recorded(votes, None, lengths)
    form = read_answer(kind, gold)
    if form is None:
        raise ValueError(f"gold can't be read as an answer of the kind {kind}")
    return Recorded(votes, tuple(answer == form for answer in forms), lengths)


class Runs(NamedTuple):
    """What one rule did with the orderings of one question, in totals over its `runs`.

    `available` is what never stopping early takes, in calls. `right` is the number of runs whose
    final answer is right; for tokens see RuleOutcome. None where unknown.
    """

    runs: int
    available: int
    calls: int
    rounds: int
    right: int | None
    tokens: int | None = None
    latency: int | None = None


class End(NamedTuple):
    """Where one run ended: its votes, largest first, and where the leader first occurs, if any.

    `tokens` and `latency` are 0 where the length of answers is unknown.
    """

    calls: int
    rounds: int
    counts: tuple[int, ...]
    leader: int | None
    tokens: int
    latency: int


class Replay:
    """Every rule over the same orderings; what is computed for a state is kept between calls."""

    def __init__(self, rules: Sequence[Stopping], max_concurrency: int = MAX_CONCURRENCY) -> None:
        self._most = max_concurrency
        self._next_waves = [
            (rule, cache(partial(_next_wave, known, Waves(known), max_concurrency)))
            for rule, known in zip(rules, map(StoppingRule, rules), strict=True)
        ]
        self._add = cache(_add)

    def runs(self, question: Recorded, orderings: Iterable[Sequence[int]]) -> list[Runs]:
        """Run each rule once for each ordering, a sequence of positions among the answers.

        A run ends where its rule stops, otherwise with its ordering. Its final answer is the most
        frequent one, of equals the one seen first, and is right if its first occurrence is. A run
        without a readable answer is wrong.
        """
        available, found = 0, [list[End]() for _ in self._next_waves]
        for ordering in orderings:
            available += len(ordering)
            for ends, end in zip(found, self.ends(question, ordering), strict=True):
                ends.append(end)
        right, known = question.right, question.tokens is not None
        return [
            Runs(
                runs=len(ends),
                available=available,
                calls=sum(end.calls for end in ends),
                rounds=sum(end.rounds for end in ends),
                right=None
                if right is None
                else sum(right[end.leader] for end in ends if end.leader is not None),
                tokens=sum(end.tokens for end in ends) if known else None,
                latency=sum(end.latency for end in ends) if known else None,
            )
            for ends in found
        ]

    def ends(self, question: Recorded, ordering: Sequence[int]) -> Iterator[End]:
        """Run each rule once, until it stops or the ordering ends.

        A hurried rule may stop inside a wave: the calls under way then are cancelled, and cost what
        they have written until then. `fixed` then counts what came: the shortest answers, or the
        first ones where their length is unknown.
        """
        usual = self._walk(question.votes, ordering)
        by_index = [question.tokens[at] for at in ordering] if question.tokens else []
        for rule, next_wave in self._next_waves:
            (states, leaders), lengths, came = usual, by_index, list[int]()
            if by_index and rule.rule == "fixed" and rule.hurry:
                came = sorted(range(len(ordering)), key=lambda at: (at // self._most, by_index[at]))
                lengths = [by_index[at] for at in came]
                states, _ = self._walk(question.votes, [ordering[at] for at in came])
            counted = calls = rounds = tokens = latency = 0
            while calls < len(ordering) and (wave := next_wave(states[counted])):
                begin, calls, rounds = calls, min(calls + wave, len(ordering)), rounds + 1
                # No other rule can stop inside a wave, so none decides there.
                inside = range(begin + 1, calls) if rule.hurry else ()
                counted = next((at for at in inside if not next_wave(states[at])), calls)
                longest = max(lengths[begin:counted], default=0)
                latency += longest
                tokens += sum(min(length, longest) for length in lengths[begin:calls])
            if came:
                # What came is counted by index, until it decides.
                order = [ordering[at] for at in sorted(came[:counted])]
                states, leaders = self._walk(question.votes, order)
                ends = (at for at, state in enumerate(states) if not next_wave(state))
                counted = next(ends, counted)
            yield End(calls, rounds, states[counted][0], leaders[counted], tokens, latency)

    def _walk(
        self, votes: Sequence[int], ordering: Sequence[int]
    ) -> tuple[list[State], list[int | None]]:
        """List the states from no answer to all, and where the leading answer first occurs."""
        state: State = ((), 0)
        states, leaders, leader = [state], list[int | None]([None]), UNREADABLE
        counts, first = dict[int, int](), dict[int, int]()
        for position in ordering:
            vote, before = votes[position], UNREADABLE
            if vote != UNREADABLE:
                before = counts.get(vote, 0)
                counts[vote] = before + 1
                first.setdefault(vote, position)
                if before + 1 >= counts.get(leader, 0):
                    # A dict keeps the order of first votes, and max takes the first among equals.
                    leader = max(counts, key=counts.__getitem__)
            state = self._add(state, before)
            states.append(state)
            leaders.append(first.get(leader))
        return states, leaders


def _next_wave(rule: StoppingRule, waves: Waves, most: int, state: State) -> int:
    """Return the length of the next wave, 0 if the rule stops."""
    return 0 if rule.decide(*state).stop else waves.length(*state, most)


def _add(state: State, before: int) -> State:
    """Add one answer, which had `before` votes or is unreadable."""
    counts, unreadable = list(state[0]), state[1]
    if before == UNREADABLE:
        unreadable += 1
    elif before == 0:
        counts.append(1)
    else:
        counts[counts.index(before)] += 1
    return tuple(counts), unreadable


def compare_rules(runs: Mapping[str, Sequence[Runs]]) -> dict[str, RuleOutcome]:
    """Sum up each rule's runs, one entry for each question, and mark the Pareto front."""
    outcomes = {rule: _outcome(listed) for rule, listed in runs.items()}
    known = {
        rule: (one.calls, one.accuracy)
        for rule, one in outcomes.items()
        if one.accuracy is not None
    }
    for rule, (calls, accuracy) in known.items():
        beaten = any(
            cost <= calls and right >= accuracy and (cost, right) != (calls, accuracy)
            for cost, right in known.values()
        )
        outcomes[rule] = outcomes[rule].model_copy(update={"pareto": not beaten})
    return outcomes


def _outcome(listed: Sequence[Runs]) -> RuleOutcome:
    runs, calls = sum(question.runs for question in listed), sum(one.calls for one in listed)
    judged = [(one.right, one.runs) for one in listed if one.right is not None]
    return RuleOutcome(
        calls=calls / runs,
        rounds=sum(one.rounds for one in listed) / runs,
        accuracy=sum(right for right, _ in judged) / sum(n for _, n in judged) if judged else None,
        accuracy_ci=interval([right / count for right, count in judged]) if judged else None,
        saved=1 - calls / sum(one.available for one in listed),
        tokens=_mean([one.tokens for one in listed], runs),
        latency=_mean([one.latency for one in listed], runs),
    )


def _mean(totals: Sequence[int | None], runs: int) -> float | None:
    known = [total for total in totals if total is not None]
    return sum(known) / runs if len(known) == len(totals) else None


class Cascade(Record):
    """What it costs and loses to ask one model only where three answers of another one differ.

    `passed_on` is the share, 0 to 1, of the runs that ask the second model. It is asked by the same
    rule as `alone`. `lost` is the accuracy alone less the cascade's, -1 to 1, and `lost_ci` its
    95 % interval, with questions as clusters; None where no question says what is right.
    """

    first: str
    second: str
    questions: int
    passed_on: float
    cascade: RuleOutcome
    alone: RuleOutcome
    lost: float | None
    lost_ci: tuple[float, float] | None


def cascade(
    names: tuple[str, str],
    rule: Stopping,
    pairs: Iterable[tuple[Recorded, Recorded]],
    orders: Iterable[Iterable[tuple[Sequence[int], ...]]],
) -> Cascade:
    """Run questions that both models answered through a cascade, and by the second model alone.

    `pairs` has the answers of the first and of the second model, and `orders` for each pair the
    orderings of both, as positions among the answers.
    """
    three, replayed = Replay([Stopping(rule="fixed", max_responses=AGREEING)]), Replay([rule])
    cascades, alone, passed_on = list[Runs](), list[Runs](), 0
    for (first, second), drawn in zip(pairs, orders, strict=True):
        ended, single = list[Runs](), list[Runs]()
        for before, after in drawn:
            votes = [first.votes[at] for at in before[:AGREEING]]
            agree = len(votes) == AGREEING and len(set(votes)) == 1 and UNREADABLE not in votes
            [asked] = three.runs(first, [before[:AGREEING]])
            [other] = replayed.runs(second, [after])
            single.append(other)
            ended.append(asked if agree else _one_after_the_other(asked, other))
            passed_on += not agree
        cascades.append(_total(ended))
        alone.append(_total(single))
    shown, other_shown = _outcome(cascades), _outcome(alone)
    lost = [
        (one.right - two.right) / one.runs
        for one, two in zip(alone, cascades, strict=True)
        if one.right is not None and two.right is not None
    ]
    mean = fmean(lost) if lost else None
    half = NORMAL_95 * sqrt(variance(lost) / len(lost)) if len(lost) > 1 else 0.0
    return Cascade(
        first=names[0],
        second=names[1],
        questions=len(alone),
        passed_on=passed_on / sum(one.runs for one in alone),
        cascade=shown,
        alone=other_shown,
        lost=mean,
        lost_ci=None if mean is None else (mean - half, mean + half),
    )


def _one_after_the_other(first: Runs, second: Runs) -> Runs:
    return _total([first, second])._replace(runs=1, available=second.available, right=second.right)


def _total(runs: Sequence[Runs]) -> Runs:
    """Add up; one unknown value makes its sum unknown."""
    sums: list[Any] = [
        None if None in column else sum(column) for column in zip(*runs, strict=True)
    ]
    return Runs(*sums)


def interval(shares: Sequence[float]) -> tuple[float, float]:
    """Compute a 95 % interval for the mean of one share of right runs, 0 to 1, per question.

    Orderings of one question are not independent, so questions are the clusters. It is Wilson's
    interval, for as many independent runs as have the variance of the questions' mean. If the
    shares do not vary, that is the number of questions, so no interval has the length 0.
    Sources: Wilson (1927); Miller, Adding Error Bars to Evals (2024), for the clusters;
    Kish (1965) for the effective number.
    """
    questions, mean = len(shares), fmean(shares)
    spread = variance(shares) / questions if questions > 1 else 0.0
    # Not a whole number, so scipy's binomial test does not take it.
    size = mean * (1 - mean) / spread if spread > 0 else questions
    squared = NORMAL_95**2
    center = (mean + squared / (2 * size)) / (1 + squared / size)
    half = NORMAL_95 * sqrt(mean * (1 - mean) / size + squared / (4 * size * size))
    half /= 1 + squared / size
    # Rounding may leave the mean outside its own interval where it is 0 or 1.
    return min(max(0.0, center - half), mean), max(min(1.0, center + half), mean)


def orderings(
    answers: int, most: int, count: int, sample: Callable[[range, int], Sequence[int]]
) -> Iterator[Sequence[int]]:
    """Yield the recorded order of the answers, then random orders, `count` in all.

    Each has the indices of at most `most` answers; `sample` draws so many without replacement.
    """
    taken = min(answers, most)
    yield range(taken)
    for _ in range(count - 1):
        yield sample(range(answers), taken)
