"""The stopping rules beyond the source: when each stops, and curtailing."""

from itertools import product

import pytest

from reflection.run import Ruling
from reflection.sampling.rules import RULES, Rule, Stopping, StoppingRule, StopReason
from reflection.sampling.tally import Tally
from tests.unit.states import states


def least_stopping(settings: Stopping, runner_up: int) -> int:
    """Find the least leading count at which the rule itself says stop."""
    rule = StoppingRule(settings)
    for leader in range(max(runner_up, 1), settings.max_responses - runner_up + 1):
        if rule.decide((leader, runner_up) if runner_up else (leader,)).stop:
            return leader
    raise AssertionError("never stops")


@pytest.mark.parametrize(
    ("most", "runner_up", "leader"),
    [
        *[(10, votes, least) for votes, least in enumerate((3, 4, 5, 6, 6))],
        *[(40, votes, least) for votes, least in enumerate((4, 5, 7, 8, 10, 11))],
    ],
)
def test_predictive_bounds(most: int, runner_up: int, leader: int) -> None:
    """`predictive` at 0.05 first stops at this leading count over this runner-up."""
    settings = Stopping(rule="predictive", max_responses=most)

    found = least_stopping(settings, runner_up)

    assert found == leader


@pytest.mark.parametrize(("runner_up", "leader"), list(enumerate((4, 6, 8, 9, 11, 12, 14, 15))))
def test_beta_bounds(runner_up: int, leader: int) -> None:
    """`beta` at 0.95 first stops at this leading count over this runner-up."""
    settings = Stopping(rule="beta", max_responses=100)

    found = least_stopping(settings, runner_up)

    assert found == leader


@pytest.mark.parametrize(
    ("lead", "counts", "stops"),
    [(3, (3,), True), (3, (4, 1), True), (3, (4, 2, 2), False), (1, (1,), True), (5, (4,), False)],
)
def test_ahead_by(lead: int, counts: tuple[int, ...], stops: bool) -> None:
    """`ahead_by` stops as soon as the leader is so many votes ahead of the runner-up."""
    rule = StoppingRule(Stopping(rule="ahead_by", ahead_by=lead, max_responses=40))

    assert rule.decide(counts).stop is stops


def test_fixed_takes_all() -> None:
    """`fixed` goes on at nine equal answers of ten, and stops at the maximum."""
    rule = StoppingRule(Stopping(rule="fixed"))

    reasons = rule.decide((9,)).stop_reason, rule.decide((10,)).stop_reason

    assert reasons == (None, "max_responses")


@pytest.mark.parametrize(
    ("counts", "unreadable", "reason"),
    [
        ((5,), 0, None),
        ((6,), 0, "decided"),
        ((5, 2), 0, None),
        ((6, 3), 0, "decided"),
        ((5, 4), 0, None),
        ((5, 5), 0, "max_responses"),
        ((4, 1), 3, "decided"),
        ((1,), 8, None),
        ((2,), 7, "decided"),
        ((2, 2, 2, 2), 1, None),
    ],
)
def test_curtailing(counts: tuple[int, ...], unreadable: int, reason: str | None) -> None:
    """`curtail` stops once the lead is greater than the calls left, and no earlier."""
    rule = StoppingRule(Stopping(rule="curtail"))

    assert rule.decide(counts, unreadable).stop_reason == reason


@pytest.mark.parametrize(
    "rule", [name for name, entry in RULES.items() if not entry.ends_when_decided]
)
def test_the_source_never_curtails(rule: Rule) -> None:
    """The source's modes and `fixed` go on where the lead can't be caught up any more."""
    settings = Stopping(rule=rule, confidence_threshold=1.0, entropy_threshold=0.0)

    verdict = StoppingRule(settings).decide((8, 1))

    # `combined` has an override at a confidence of 0.9, and 8 of 9 is below it.
    assert verdict.stop_reason is None


def end_of(
    rule: StoppingRule, stream: tuple[int | None, ...]
) -> tuple[Ruling[StopReason], str | None, int]:
    tally, unreadable = Tally(), 0
    for calls, answer in enumerate(stream, start=1):
        if answer is None:
            unreadable += 1
        else:
            tally.add(str(answer))
        verdict = rule.decide(tally.counts, unreadable)
        if verdict.stop:
            return verdict, tally.measurement.leader, calls
    raise AssertionError("never stops")


@pytest.mark.parametrize("most", range(1, 8))
def test_curtailing_never_changes_the_answer(most: int) -> None:
    """Over every stream of up to 7 answers `curtail` ends with the answer of taking them all."""
    curtail = StoppingRule(Stopping(rule="curtail", max_responses=most))
    fixed = StoppingRule(Stopping(rule="fixed", max_responses=most))

    answers = [
        (end_of(curtail, stream)[1], end_of(fixed, stream)[1])
        for stream in product((0, 1, 2, None), repeat=most)
    ]

    assert all(early == late for early, late in answers)


def test_curtailing_saves_calls() -> None:
    """Six equal answers of ten are enough for `curtail`."""
    rule = StoppingRule(Stopping(rule="curtail"))

    verdict, leader, calls = end_of(rule, (1,) * 10)

    assert (verdict.stop_reason, leader, calls) == ("decided", "1", 6)


def test_predictive_first_stops_at_three() -> None:
    """At its defaults `predictive` goes on at one and two equal answers, and stops at three."""
    rule = StoppingRule(Stopping(rule="predictive"))

    reasons = [rule.decide((votes,)).stop_reason for votes in (1, 2, 3)]

    assert reasons == [None, None, "rule"]


@pytest.mark.parametrize("rule", RULES)
def test_the_maximum_wins(rule: Rule) -> None:
    """At the maximum the stop reason is `max_responses`, whatever the rule would say."""
    verdict = StoppingRule(Stopping(rule=rule)).decide((10,))

    assert verdict.stop_reason == "max_responses"


@pytest.mark.parametrize("rule", RULES)
def test_unreadable_answers_never_count_as_votes(rule: Rule) -> None:
    """Eight unreadable answers and one vote are not certain, and end the run under no rule."""
    verdict = StoppingRule(Stopping(rule=rule)).decide((1,), 8)

    assert verdict.stop_reason is None


@pytest.mark.parametrize("rule", RULES)
def test_a_run_always_ends(rule: Rule) -> None:
    """Every state at the maximum stops, and every state without a vote before it goes on."""
    decide = StoppingRule(Stopping(rule=rule, max_responses=8)).decide

    for counts, unreadable in states(8):
        full = sum(counts) + unreadable == 8
        assert not full or decide(counts, unreadable).stop
        assert counts or full or not decide(counts, unreadable).stop
