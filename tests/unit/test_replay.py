"""Recorded answers, replayed through the rules in many orderings."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from reflection.sampling.replay import Recorded, Replay, Runs, compare_rules, interval, recorded
from reflection.sampling.request import AnswerKind
from reflection.sampling.rules import Stopping, StoppingRule, Waves
from reflection.sampling.tally import Tally
from tests.unit.states import random_settings


def run_of(settings: Stopping, question: Recorded, ordering: Sequence[int]) -> Runs:
    """Run one rule over one ordering, one answer at a time, with nothing shared or kept."""
    rule, tally, unreadable, first = StoppingRule(settings), Tally(), 0, dict[str | None, int]()
    waves, calls, rounds, wave_end = Waves(rule), 0, 0, 0
    for position in ordering:
        if calls == wave_end:
            rounds, wave_end = rounds + 1, calls + waves.length(tally.counts, unreadable, 16)
        calls, vote = calls + 1, question.votes[position]
        if vote < 0:
            unreadable += 1
        else:
            tally.add(str(vote))
            first.setdefault(str(vote), position)
        if rule.decide(tally.counts, unreadable).stop:
            break
    final = first.get(tally.measurement.leader)
    right = question.right
    wins = None if right is None else int(final is not None and right[final])
    return Runs(1, len(ordering), calls, rounds, wins)


def random_question(chance: Random) -> Recorded:
    distinct, lost, length = chance.randint(1, 20), chance.choice([0, 0.3]), chance.randint(1, 40)
    answers = [
        None if chance.random() < lost else str(int(distinct * chance.random() ** 2))
        for _ in range(length)
    ]
    ok = [chance.randint(0, 1) for _ in answers]
    return recorded("exact", answers, gold="0", ok=chance.choice([ok, None]))


@pytest.mark.parametrize("seed", range(60))
def test_replaying_is_running(seed: int) -> None:
    """All rules at once have the calls, rounds and right answers of each run alone."""
    chance = Random(seed)
    most = chance.randint(1, 30)
    settings = [random_settings(chance, most) for _ in range(6)]
    replay, questions = Replay(settings), [random_question(chance) for _ in range(4)]

    for question in questions:
        size = len(question.votes)
        orders = [chance.sample(range(size), min(size, most)) for _ in range(5)]
        alone = [[run_of(each, question, order) for order in orders] for each in settings]
        summed = [
            Runs(5, 5 * min(size, most), *(sum(run[i] or 0 for run in runs) for i in (2, 3, 4)))
            for runs in alone
        ]

        assert replay.runs(question, orders) == summed


@pytest.mark.parametrize(
    ("rule", "calls", "rounds"),
    [
        ("combined", 10, 2),
        ("confidence_only", 10, 2),
        ("entropy_only", 10, 2),
        ("off", 10, 2),
        ("predictive", 9, 4),
        ("beta", 9, 3),
        ("ahead_by", 9, 4),
        ("fixed", 10, 1),
        ("curtail", 9, 3),
    ],
)
def test_one_run_of_each_rule(rule: str, calls: int, rounds: int) -> None:
    """Ten answers with votes for A and B take these calls and rounds."""
    question = recorded("exact", list("ABABAABAAA"), gold="A")

    runs = Replay([Stopping(rule=rule)]).runs(question, [range(10)])

    assert runs == [Runs(1, 10, calls, rounds, 1)]


@pytest.mark.parametrize(("rule", "tokens", "latency"), [("fixed", 55, 10), ("predictive", 45, 24)])
def test_tokens_and_latency(rule: str, tokens: int, latency: int) -> None:
    """A round is as long as its longest answer: waves of 3, 2, 2 and 2 answers end with one."""
    question = recorded("exact", list("ABABAABAAA"), tokens=range(1, 11))

    [run] = Replay([Stopping(rule=rule)]).runs(question, [range(10)])

    assert (run.tokens, run.latency, run.right) == (tokens, latency, None)
    outcome = compare_rules({rule: [run]})[rule]
    assert (outcome.tokens, outcome.latency) == (tokens, latency)


def test_hurry() -> None:
    """Five are asked at once, three decide, and the two under way are cancelled after 3 tokens."""
    question = recorded("exact", ["A"] * 10, gold="A", tokens=[1, 2, 3, *[9] * 7])
    rules = [Stopping(rule="predictive", hurry=hurry) for hurry in (0, 5)]

    minimal, hurried = Replay(rules).runs(question, [range(10)])

    assert minimal == Runs(1, 10, 3, 1, 1, tokens=6, latency=3)
    assert hurried == Runs(1, 10, 5, 1, 1, tokens=12, latency=3)


@pytest.mark.parametrize(
    ("tokens", "answers", "expected"),
    [
        # Three of four decide: without lengths the first three, else the three shortest.
        (None, "AAAB", Runs(1, 4, 4, 1, 1)),
        ([9, 3, 2, 1], "AAAB", Runs(1, 4, 4, 1, 1, tokens=15, latency=9)),
        ([9, 3, 2, 1], "BAAA", Runs(1, 4, 4, 1, 1, tokens=9, latency=3)),
        # A question with fewer answers than are asked for ends after the last one.
        ([9, 3], "AA", Runs(1, 2, 2, 1, 1, tokens=12, latency=9)),
    ],
)
def test_fixed_in_a_hurry(tokens: list[int] | None, answers: str, expected: Runs) -> None:
    """It ends once the answers that came decide, whichever they are."""
    question = recorded("exact", list(answers), gold="A", tokens=tokens)
    rule = Stopping(rule="fixed", max_responses=4, hurry=1)

    [found] = Replay([rule]).runs(question, [range(len(answers))])

    assert found == expected


@pytest.mark.parametrize("seed", range(20))
def test_hurry_changes_no_decision(seed: int) -> None:
    """Every run ends with the votes and the answer that it has in the shortest waves."""
    chance = Random(seed)
    settings = random_settings(chance, 16).model_copy(update={"rule": "predictive", "hurry": 0})
    hurried = settings.model_copy(update={"hurry": 7})

    for question in [random_question(chance) for _ in range(20)]:
        ends = Replay([settings, hurried]).ends(question, range(len(question.votes)))
        without, within = ((end.counts, end.leader) for end in ends)
        assert without == within


@pytest.mark.parametrize(
    ("answers", "fields", "ordering", "right"),
    [
        # Among equals the final answer is the first one of the ordering, not of the record.
        (["A", "B", "A", "B"], {"gold": "A"}, (0, 1, 2, 3), 1),
        (["A", "B", "A", "B"], {"gold": "A"}, (1, 0, 2, 3), 0),
        (["A", "B", "A", "B"], {"gold": "A"}, (3, 2, 1, 0), 0),
        # With `ok` a run is as right as the first occurrence of its final answer.
        (["24", "24.0", "24"], {"ok": [1, 0, 0]}, (0, 1, 2), 1),
        (["24", "24.0", "24"], {"ok": [1, 0, 0]}, (1, 0, 2), 0),
        # A run without a readable answer is wrong though `ok` says 1.
        ([None, "no idea", ""], {"ok": [1, 1, 1]}, (0, 1, 2), 0),
    ],
)
def test_the_final_answer(
    answers: list[str | None], fields: dict[str, Any], ordering: tuple[int, ...], right: int
) -> None:
    """It is the most frequent one of all calls that were made."""
    kind: AnswerKind = "exact" if "gold" in fields else "number"
    question = recorded(kind, answers, **fields)

    runs = Replay([Stopping(rule="fixed", max_responses=4)]).runs(question, [ordering])

    assert (runs[0].calls, runs[0].right) == (len(ordering), right)


@pytest.mark.parametrize(
    ("costs", "front"),
    [
        ({"a": (30, 7), "b": (50, 8), "c": (50, 7), "d": (100, 8)}, {"a", "b"}),
        ({"a": (30, 7), "b": (30, 7)}, {"a", "b"}),
        ({"a": (30, 7), "b": (30, 8)}, {"b"}),
        ({"a": (30, 7), "b": (40, 7)}, {"a"}),
        ({"a": (30, 9), "b": (40, 8), "c": (50, 7)}, {"a"}),
        ({"a": (30, 0), "b": (40, 5), "c": (50, 10)}, {"a", "b", "c"}),
    ],
)
def test_pareto_front(costs: dict[str, tuple[int, int]], front: set[str]) -> None:
    """A rule is on the front unless another is no worse in both, and better in one."""
    runs = {name: [Runs(10, 100, calls, 10, right)] for name, (calls, right) in costs.items()}

    outcomes = compare_rules(runs)

    assert {name for name, outcome in outcomes.items() if outcome.pareto} == front


@pytest.mark.parametrize(
    ("shares", "low", "high"),
    [
        ([0.0] * 100, 0.0, 0.036993),
        ([1.0] * 100, 0.963007, 1.0),
        ([1.0] * 50 + [0.0] * 50, 0.403365, 0.596635),
        ([1.0] * 90 + [0.0] * 10, 0.825184, 0.944934),
        ([0.6, 0.4] * 50, 0.480317, 0.519683),
        ([1.0], 0.206549, 1.0),
        ([0.5], 0.054621, 0.945379),
    ],
)
def test_interval(shares: list[float], low: float, high: float) -> None:
    """The interval is Wilson's, with the number of runs that varies as the questions do."""
    found = interval(shares)

    assert found == pytest.approx((low, high), abs=1e-6)


def test_answers_and_gold_are_read_alike() -> None:
    """The answer kind reads both, so that 1,290 is 1290.00; `ok` has precedence over gold."""
    question = recorded("number", ["$1,290.00", "1290", "12.9", None], gold="1290.")

    assert question == Recorded((0, 0, 1, -1), (True, True, False, False))
    assert recorded("exact", ["A", "B"], gold="A", ok=[0, 1]).right == (False, True)


@pytest.mark.parametrize(
    ("runs", "calls", "accuracy", "shares"),
    [
        # A question counts once in the interval, however many orderings it has.
        ([Runs(4, 40, 20, 8, 3), Runs(4, 40, 12, 6, 1)], 4.0, 0.5, [0.75, 0.25]),
        # Questions of which nobody knows what is right count for calls and not for accuracy.
        ([Runs(2, 20, 10, 4, 1), Runs(2, 20, 20, 4, None)], 7.5, 0.5, [0.5]),
        ([Runs(2, 20, 10, 4, None)], 5.0, None, []),
    ],
)
def test_outcome(
    runs: list[Runs], calls: float, accuracy: float | None, shares: list[float]
) -> None:
    """An outcome has means over runs, and the share right where somebody knows."""
    found = compare_rules({"beta": runs})["beta"]

    assert (found.calls, found.accuracy) == (calls, accuracy)
    assert found.pareto == (None if accuracy is None else True)
    assert found.saved == pytest.approx(1 - calls / 10)
    assert found.rounds == sum(one.rounds for one in runs) / sum(one.runs for one in runs)
    assert found.accuracy_ci == (interval(shares) if shares else None)
