"""Waves: the length of the shortest continuation that could end the run."""

from random import Random
from time import thread_time
from typing import Any, NamedTuple

import pytest

from mull.run import Ruling
from mull.sampling.result import Tally
from mull.sampling.rules import RULES, Rule, Stopping, StoppingRule, StopReason, Waves
from tests.unit.states import Counts, next_states, random_settings, states


def shortest_end(rule: StoppingRule, counts: Counts, unreadable: int, longest: int) -> int:
    """Search every continuation for the shortest that ends the run."""
    reached = {(counts, unreadable)}
    for length in range(1, longest + 1):
        reached = {after for state in reached for after in next_states(*state)}
        if any(rule.decide(*state).stop for state in reached):
            return length
    return longest


def wrong_lengths(settings: Stopping) -> list[tuple[Counts, int]]:
    """List the states of a run in which the wave is not the shortest continuation."""
    rule, most = StoppingRule(settings), settings.max_responses
    waves = Waves(rule)
    return [
        (counts, unreadable)
        for counts, unreadable in states(most - 1)
        if not rule.decide(counts, unreadable).stop
        and waves.length(counts, unreadable, 16)
        != shortest_end(rule, counts, unreadable, rule.calls_left(counts, unreadable))
    ]


GATES: list[dict[str, Any]] = [{}, {"quorum": 3}, {"min_responses": 2, "entropy_weight": 1.0}]


@pytest.mark.parametrize("gates", GATES, ids=["plain", "quorum", "minimum"])
@pytest.mark.parametrize("futility", [None, 0.05, 0.3])
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("rule", RULES)
def test_exhaustive(
    rule: Rule, threshold: float, futility: float | None, gates: dict[str, Any]
) -> None:
    """In every state up to 8 answers the wave is as long as the shortest end of all streams."""
    settings = Stopping(
        rule=rule, confidence_threshold=threshold, futility=futility, max_responses=8, **gates
    )

    assert wrong_lengths(settings) == []


@pytest.mark.parametrize("futility", [None, 0.05])
@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize("confidence", [0.4, 0.8, 1.0])
@pytest.mark.parametrize("entropy", [0.0, 0.5, 0.9, 0.95, 0.97, 0.99, 1.0])
@pytest.mark.parametrize("rule", ["combined", "entropy_only"])
def test_exhaustive_entropies(
    rule: Rule, entropy: float, confidence: float, weight: float, futility: float | None
) -> None:
    """Under high entropy thresholds, where a new answer may end a run, it is so too."""
    settings = Stopping(
        rule=rule, entropy_threshold=entropy, confidence_threshold=confidence,
        entropy_weight=weight, futility=futility, max_responses=9,
    )  # fmt: skip

    assert wrong_lengths(settings) == []


@pytest.mark.parametrize("seed", range(120))
def test_exhaustive_under_random_settings(seed: int) -> None:
    """Under any settings the wave is the shortest end in every state up to 8 answers."""
    chance = Random(seed)

    assert wrong_lengths(random_settings(chance, chance.randint(1, 8))) == []


class Run(NamedTuple):
    """A run over a stream: its answer, each decision, and the lengths of its waves."""

    answer: str | None
    decisions: list[Ruling[StopReason]]
    waves: list[int]


def sample(settings: Stopping, stream: list[str | None], concurrency: int) -> Run:
    """Ask in waves; every answer of a wave is a call, also those after a stop inside it."""
    rule, tally, unreadable = StoppingRule(settings), Tally(), 0
    waves, decisions, lengths = Waves(rule), list[Ruling[StopReason]](), list[int]()
    while not any(verdict.stop for verdict in decisions):
        lengths.append(waves.length(tally.counts, unreadable, concurrency))
        for answer in stream[len(decisions) :][: lengths[-1]]:
            if answer is None:
                unreadable += 1
            else:
                tally.add(answer)
            decisions.append(rule.decide(tally.counts, unreadable))
    return Run(tally.measurement.leader, decisions, lengths)


def random_stream(chance: Random, length: int) -> list[str | None]:
    distinct, lost, power = chance.randint(1, 30), chance.choice([0, 0.1, 0.4]), chance.random() * 5
    return [
        None if chance.random() < lost else str(int(distinct * chance.random() ** (1 + power)))
        for _ in range(length)
    ]


@pytest.mark.parametrize("seed", range(250))
def test_waves_waste_nothing(seed: int) -> None:
    """On a long stream waves make the calls, decisions and answer of asking one by one."""
    chance = Random(seed)
    most = chance.randint(1, 60)
    settings, stream = random_settings(chance, most), random_stream(chance, most)

    one_by_one, in_waves = sample(settings, stream, 1), sample(settings, stream, 16)

    assert in_waves[:2] == one_by_one[:2]
    assert sum(in_waves.waves) == len(one_by_one.waves)
    assert max(in_waves.waves) <= 16


@pytest.mark.parametrize(
    ("settings", "counts", "length"),
    [
        (Stopping(rule="entropy_only", entropy_threshold=0.95), (3, 3), 1),
        (Stopping(), (), 5),
        (Stopping(), (3, 2), 5),
        (Stopping(rule="predictive"), (), 3),
        (Stopping(rule="predictive"), (2, 1), 2),
        (Stopping(rule="beta"), (), 4),
        (Stopping(rule="ahead_by"), (1, 1), 3),
        (Stopping(rule="curtail"), (), 6),
        (Stopping(rule="fixed"), (), 10),
        (Stopping(rule="fixed", max_responses=40), (), 16),
        (Stopping(rule="fixed"), (7,), 3),
        (Stopping(rule="fixed", hurry=5), (), 10),
        (Stopping(rule="predictive", hurry=5), (), 5),
        (Stopping(rule="predictive", hurry=5), (4, 3), 3),
        (Stopping(rule="predictive", hurry=32, max_responses=40), (), 16),
        (Stopping(rule="fixed"), (10,), 0),
    ],
)
def test_lengths(settings: Stopping, counts: Counts, length: int) -> None:
    """Waves have these lengths, of which the first is 3 votes each under `entropy_only` 0.95."""
    assert Waves(StoppingRule(settings)).length(counts, 0, 16) == length


@pytest.mark.parametrize("rule", RULES)
def test_the_greatest_run_is_planned_at_once(rule: Rule) -> None:
    """Of 1,000 answers with futility, the wave after a split vote takes well under a second."""
    settings = Stopping(rule=rule, max_responses=1000, futility=0.01, confidence_threshold=0.5)
    start = thread_time()

    length = Waves(StoppingRule(settings)).length((90, 85, 5, 3), 0, 16)

    assert 1 <= length <= 16
    # A workflow that computes for two seconds is taken for deadlocked.
    assert thread_time() - start < 1.0
