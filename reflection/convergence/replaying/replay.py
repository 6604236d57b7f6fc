"""Recorded answers replayed through stopping rules, all rules in one walk over each ordering.

A decision rests on the votes of each distinct answer and never on their names, so orderings of
any question share their states; each state is judged once by each rule that still needs it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reflection.convergence.request import AnswerKind
from reflection.convergence.rules.settings import Stopping
from reflection.convergence.rules.stopping import StoppingRule
from reflection.convergence.rules.waves import Waves
from reflection.sampling.answers import read_answer

MAX_CONCURRENCY = 16
UNREADABLE = -1


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
        return Recorded(votes, tuple(bool(each) for each in ok))
    if gold is None:
        return Recorded(votes, None)
    form = read_answer(kind, gold)
    if form is None:
        raise ValueError(f"gold can't be read as an answer of the kind {kind}")
    return Recorded(votes, tuple(each == form for each in forms))


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


class _Stop(NamedTuple):
    """The rules (one bit each) that stop after so many calls, and where the final answer is."""

    rules: int
    calls: int
    final: int | None


class Replay:
    """Every rule over the same orderings; what was worked out is kept from call to call."""

    def __init__(self, rules: Sequence[Stopping], max_concurrency: int = MAX_CONCURRENCY) -> None:
        self._rules = [StoppingRule(each) for each in rules]
        self._waves = [Waves(each) for each in self._rules]
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
            for stop in self._walk(question.votes, ordering, path):
                wins = bool(
                    question.right and stop.final is not None and question.right[stop.final]
                )
                for rule in _bits(stop.rules):
                    calls[rule] += stop.calls
                    rounds[rule] += self._rounds(rule, path, stop.calls)
                    right[rule] += wins
        wins_by_rule = [None] * size if question.right is None else right
        totals = zip(calls, rounds, wins_by_rule, strict=True)
        return [Runs(count, available, *each) for each in totals]

    def _walk(
        self, votes: Sequence[int], ordering: Sequence[int], path: list[_State]
    ) -> Iterator[_Stop]:
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
                yield _Stop(
                    stopped, calls, first[max(counts, key=counts.__getitem__)] if counts else None
                )
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
