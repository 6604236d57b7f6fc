"""Runs in a hurry decide as runs in minimal waves do, whichever reply comes first."""

import random
from typing import Any, get_args

import pytest

from mull.sampling.loop import Sampling
from mull.sampling.replay import Replay, recorded
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Decision, Response
from mull.sampling.rules import Rule, Stopping

STREAMS = 60


def run(stream: list[str | None], order: Any, **fields: object) -> tuple[Sampling, int]:
    """Sample a stream of votes, whose replies come in any order; count the calls without a vote."""
    request = SelfConsistencyRequest.model_validate({"question": "q", **fields})
    sampling, unused = Sampling(request), 0
    while not sampling.stopped:
        first, calls = len(sampling.responses), sampling.plan().calls
        sampling.begin_wave(calls)
        coming = list(range(first, first + calls))
        order.shuffle(coming)
        came: dict[int, str | None] = {}
        while coming and not sampling.decided_by(came):
            index = coming.pop()
            came[index] = stream[index]
        for index in sorted(came):
            if sampling.stopped:
                unused += 1
            else:
                sampling.count(Response(index=index, answer="", vote=came[index], attempts=1))
        unused += len(coming)
    return sampling, unused


def shown(decision: Decision) -> dict[str, object]:
    """What a decision says, but for the wave in which it was made."""
    return decision.model_dump(exclude={"wave"})


@pytest.mark.parametrize("rule", sorted(set(get_args(Rule)) - {"fixed"}))
def test_decisions_are_those_of_minimal_waves(rule: Rule) -> None:
    """Sixty streams of votes, their replies in any order, in waves of at least five."""
    order = random.Random(rule)
    hurried = 0
    for _ in range(STREAMS):
        stream = order.choices(["a", "b", "c", None], [6, 3, 1, 1], k=10)
        minimal, _ = run(stream, order, rule=rule)

        sampling, unused = run(stream, order, rule=rule, hurry=5)

        assert list(map(shown, sampling.decisions)) == list(map(shown, minimal.decisions))
        assert sum(sampling.waves) == len(sampling.responses) + unused
        hurried += len(sampling.waves) < len(minimal.waves)
    assert hurried or rule in {"curtail", "entropy_only"}


class ByLength:
    """Has replies come in the order of their length, the shortest first."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def shuffle(self, coming: list[int]) -> None:
        """Put what comes next last, of equals the earliest."""
        coming.sort(key=lambda index: (-self._tokens[index], -index))
        self.coming = coming


@pytest.mark.parametrize("most", [7, 10, 40])
def test_replay_hurries_as_a_run_does(most: int) -> None:
    """Where lines say how long answers are, `fixed` counts the same ones, and ends as soon."""
    chance, sooner = random.Random(most), 0
    settings = {"rule": "fixed", "max_responses": most}
    for _ in range(STREAMS):
        stream = chance.choices(["a", "b", "c", None], [6, 3, 1, 1], k=most)
        tokens = [chance.randrange(1, 100) for _ in stream]
        order = ByLength(tokens)
        sampling, _ = run(stream, order, hurry=1, **settings)
        question = recorded("exact", stream, tokens=tokens)
        last = tokens[-sampling.waves[-1] :]
        waited = sorted(last)[len(last) - len(order.coming) - 1]

        [end] = Replay([Stopping(hurry=1, **settings)]).ends(question, range(most))

        assert (end.calls, end.rounds) == (sum(sampling.waves), len(sampling.waves))
        assert end.counts == sampling.tally.counts
        assert end.leader == next(
            (response.index for response in sampling.responses
             if response.vote and response.vote == sampling.tally.measurement.leader), None,
        )  # fmt: skip
        if len(sampling.waves) == 1:
            assert (end.latency, end.tokens) == (waited, sum(min(one, waited) for one in last))
            sooner += waited < max(last)
    assert sooner or most > 16


def test_fixed_keeps_its_answer() -> None:
    """It ends once the calls under way can't change the answer, and never at a tie."""
    order, cancelled = random.Random("fixed"), 0
    for _ in range(STREAMS):
        stream = order.choices(["a", "b", None], [6, 4, 1], k=10)
        whole, _ = run(stream, order, rule="fixed")

        sampling, unused = run(stream, order, rule="fixed", hurry=1)

        assert sampling.tally.measurement.leader == whole.tally.measurement.leader
        assert sampling.last is not None
        assert sampling.last.stop_reason == ("decided" if unused else "max_responses")
        cancelled += unused
    assert cancelled > STREAMS
