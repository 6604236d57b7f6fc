"""Replay recorded answers through stopping rules: what rules cost and how often they are right.

All rules share one pass over each ordering of a question's answers. A decision rests on the votes
of each distinct answer and never on their names, so orderings of any question share their states;
each state is judged once by each rule that still needs it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum, sqrt
from typing import NamedTuple

from reflection.run import Record
from reflection.sampling.answers import read_answer
from reflection.sampling.request import AnswerKind
from reflection.sampling.rules import Stopping, StoppingRule
from reflection.sampling.waves import Waves

MAX_CONCURRENCY = 16
UNREADABLE = -1
NORMAL_95 = 1.959964


class RuleOutcome(Record):
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


class Recorded(NamedTuple):
    """One question's answers in recorded order: a number for each distinct vote, -1 unreadable.

    `right` says of each answer whether it is right; None: nobody knows.
    """

    votes: tuple[int, ...]
    right: tuple[bool, ...] | None


def recorded(
    kind: AnswerKind,
    answers: Sequence[str | None],
    gold: str | None = None,
    ok: Sequence[int] | None = None,
) -> Recorded:
    """Read answers under their kind; `ok`, a 0 or 1 for each, has precedence over `gold`.

    Raises ValueError where gold can't be read, or `ok` has another length than `answers`.
    """
    forms = [read_answer(kind, answer) for answer in answers]
    ids: dict[str, int] = {}
    votes = tuple(UNREADABLE if form is None else ids.setdefault(form, len(ids)) for form in forms)
    if ok is not None:
        if len(ok) != len(answers):
            raise ValueError(f"{len(ok)} values in ok for {len(answers)} answers")
        return Recorded(votes, tuple(map(bool, ok)))
    if gold is None:
        return Recorded(votes, None)
    form = read_answer(kind, gold)
    if form is None:
        raise ValueError(f"gold can't be read as an answer of the kind {kind}")
    return Recorded(votes, tuple(answer == form for answer in forms))


class Runs(NamedTuple):
    """What one rule did with the orderings of one question, in totals over its `runs`.

    `available` is what never stopping early takes, in calls. `right` is the number of runs whose
    final answer is right; None: nobody knows.
    """

    runs: int
    available: int
    calls: int
    rounds: int
    right: int | None


class _State:
    """Votes of each distinct answer, largest first, and unreadable answers.

    `judged` and `stops` have one bit for each rule. `after` holds the states one answer later, by
    the votes that this answer had, and `waves` the length of the wave from here, 0 as yet.
    """

    __slots__ = ("after", "counts", "judged", "stops", "unreadable", "waves")

    def __init__(self, counts: tuple[int, ...], unreadable: int, rules: int) -> None:
        self.counts, self.unreadable = counts, unreadable
        self.judged = self.stops = 0
        self.after: dict[int, _State] = {}
        self.waves = [0] * rules


class Replay:
    """Every rule over the same orderings; computed states are kept between calls."""

    def __init__(self, rules: Sequence[Stopping], max_concurrency: int = MAX_CONCURRENCY) -> None:
        self._rules = [StoppingRule(settings) for settings in rules]
        self._waves = [Waves(rule) for rule in self._rules]
        self._most = max_concurrency
        self._states: dict[tuple[tuple[int, ...], int], _State] = {}
        self._start = self._state((), 0)

    def runs(self, question: Recorded, orderings: Iterable[Sequence[int]]) -> list[Runs]:
        """Run each rule once for each ordering, a sequence of positions among the answers.

        A run ends where its rule stops, and else where its ordering does. Its final answer is
        the most frequent one, among equals the one seen first, and it is right as its first
        occurrence is; a run without a readable answer is wrong.
        """
        count, available, size = 0, 0, len(self._rules)
        calls, rounds, right = [0] * size, [0] * size, [0] * size
        for ordering in orderings:
            count, available, path = count + 1, available + len(ordering), [self._start]
            for rules, made, final in self._walk(question.votes, ordering, path):
                wins = bool(question.right and final is not None and question.right[final])
                for rule in _bits(rules):
                    calls[rule] += made
                    rounds[rule] += self._rounds(rule, path, made)
                    right[rule] += wins
        wins_by_rule = [None] * size if question.right is None else right
        totals = zip(calls, rounds, wins_by_rule, strict=True)
        return [Runs(count, available, *rule) for rule in totals]

    def _walk(
        self, votes: Sequence[int], ordering: Sequence[int], path: list[_State]
    ) -> Iterator[tuple[int, int, int | None]]:
        """Yield the rules (one bit each) that stop, the calls, and where the final answer is."""
        state, pending = self._start, (1 << len(self._rules)) - 1
        counts: dict[int, int] = {}
        first: dict[int, int] = {}
        for calls, position in enumerate(ordering, start=1):
            vote, before = votes[position], UNREADABLE
            if vote != UNREADABLE:
                before = counts.get(vote, 0)
                counts[vote] = before + 1
                first.setdefault(vote, position)
            state = state.after.get(before) or self._step(state, before)
            path.append(state)
            stopped = self._stopped(state, pending) if calls < len(ordering) else pending
            if stopped:
                # A dict keeps the order of first votes, and max takes the first among equals.
                final = first[max(counts, key=counts.__getitem__)] if counts else None
                yield stopped, calls, final
                pending ^= stopped
            if not pending:
                return

    def _stopped(self, state: _State, pending: int) -> int:
        for rule in _bits(pending & ~state.judged):
            if self._rules[rule].decide(state.counts, state.unreadable).stop:
                state.stops |= 1 << rule
        state.judged |= pending
        return state.stops & pending

    def _rounds(self, rule: int, path: Sequence[_State], calls: int) -> int:
        done = rounds = 0
        while done < calls:
            done += path[done].waves[rule] or self._wave(rule, path[done])
            rounds += 1
        return rounds

    def _wave(self, rule: int, state: _State) -> int:
        length = self._waves[rule].length(state.counts, state.unreadable, self._most)
        state.waves[rule] = length
        return length

    def _step(self, state: _State, before: int) -> _State:
        counts, unreadable = list(state.counts), state.unreadable
        if before == UNREADABLE:
            unreadable += 1
        elif before == 0:
            counts.append(1)
        else:
            counts[counts.index(before)] += 1
        after = state.after[before] = self._state(tuple(counts), unreadable)
        return after

    def _state(self, counts: tuple[int, ...], unreadable: int) -> _State:
        key = (counts, unreadable)
        if key not in self._states:
            self._states[key] = _State(counts, unreadable, len(self._rules))
        return self._states[key]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def compare_rules(runs: Mapping[str, Sequence[Runs]]) -> dict[str, RuleOutcome]:
    """Sum up each rule's runs, one entry for each question, and mark the Pareto front."""
    outcomes = {rule: _outcome(listed) for rule, listed in runs.items()}
    known = [(one.calls, one.accuracy) for one in outcomes.values() if one.accuracy is not None]
    found = {}
    for rule, outcome in outcomes.items():
        accuracy, calls = outcome.accuracy, outcome.calls
        front = accuracy is not None and not any(
            cost <= calls and right >= accuracy and (cost, right) != (calls, accuracy)
            for cost, right in known
        )
        pareto = None if accuracy is None else front
        found[rule] = outcome.model_copy(update={"pareto": pareto})
    return found


def _outcome(listed: Sequence[Runs]) -> RuleOutcome:
    runs, calls = sum(question.runs for question in listed), sum(one.calls for one in listed)
    judged = [(one.right, one.runs) for one in listed if one.right is not None]
    return RuleOutcome(
        calls=calls / runs,
        rounds=sum(one.rounds for one in listed) / runs,
        accuracy=sum(right for right, _ in judged) / sum(n for _, n in judged) if judged else None,
        accuracy_ci=interval([right / count for right, count in judged]) if judged else None,
        saved=1 - calls / sum(one.available for one in listed),
    )


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
    # It is no whole number, as a binomial test of a library would want it.
    size = mean * (1 - mean) / variance if variance > 0 else questions
    squared = NORMAL_95**2
    center = (mean + squared / (2 * size)) / (1 + squared / size)
    spread = mean * (1 - mean) / size + squared / (4 * size * size)
    half = NORMAL_95 * sqrt(spread) / (1 + squared / size)
    # Rounding may leave the mean outside its own interval where it is 0 or 1.
    return min(max(0.0, center - half), mean), max(min(1.0, center + half), mean)
