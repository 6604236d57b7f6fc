"""The lengths of waves: how many answers to ask for at once without wasting any.

The next wave is as long as the shortest continuation that could end the run. No rule can stop
inside such a wave, so the calls made and every decision are those of asking one by one.
"""

from collections.abc import Iterable

from reflection.sampling.rules import RULES, StoppingRule


class Waves:
    """The lengths of waves under one rule, each state worked out once."""

    def __init__(self, rule: StoppingRule) -> None:
        self._rule = rule
        self._agree_only = RULES[rule.settings.rule].agreement_ends_soonest
        self._futility = rule.settings.futility is not None
        self._known: dict[tuple[tuple[int, ...], int, int], int] = {}

    def length(self, counts: tuple[int, ...], unreadable: int, most: int) -> int:
        """Return the answers to ask for next: 1 to `most`, and 0 where none are left.

        `counts` are the votes of each distinct answer, largest first. Where every continuation
        of up to `most` answers goes on, it is `most`.
        """
        key = (counts, unreadable, most)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._search(counts, unreadable, most)
        return known

    def _search(self, counts: tuple[int, ...], unreadable: int, most: int) -> int:
        longest = min(self._rule.calls_left(counts, unreadable), most)
        for length in range(1, longest):
            if self._can_end(counts, unreadable, length):
                return length
        return longest

    def _can_end(self, counts: tuple[int, ...], unreadable: int, length: int) -> bool:
        """Try `length` more answers, some of them new and the others for the leader.

        For a given number of distinct answers the most concentrated votes are those that give
        the leader all but one for each new answer, so votes for the others need no trial. Nor
        does an unreadable answer: it brings no rule nearer to its bound than a vote for the
        leader does, and futility no nearer than a new answer.
        """
        tried: Iterable[int] = range(length + 1)
        if self._agree_only:
            tried = (0, length) if self._futility else (0,)
        for new in tried:
            led = sum(counts[:1]) + length - new
            after = (*((led, *counts[1:]) if led else counts), *([1] * new))
            if self._rule.decide(after, unreadable).stop:
                return True
        return False
