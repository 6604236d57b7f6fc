"""Ending without an answer to trust: futility, and the quorum that gates everything."""

from typing import get_args

import pytest

from reflection.sampling.rules import Rule, Stopping, StoppingRule

RULES: tuple[Rule, ...] = get_args(Rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("counts", "unreadable", "reason"),
    [
        ((1, 1, 1, 1), 0, None),
        ((1, 1, 1, 1, 1), 0, "no_consensus"),
        ((1, 1, 1, 1), 5, None),
        ((2, 2, 1), 0, "no_consensus"),
        ((3, 1, 1), 0, None),
        ((3, 2, 1), 0, "no_consensus"),
    ],
)
def test_futility(rule: Rule, counts: tuple[int, ...], unreadable: int, reason: str | None) -> None:
    """From five votes on every rule gives up where the threshold is out of reach."""
    settings = Stopping(rule=rule, futility=0.05)

    verdict = StoppingRule(settings).decide(counts, unreadable)

    assert verdict.stop_reason == reason


@pytest.mark.parametrize("rule", RULES)
def test_futility_is_off_by_default(rule: Rule) -> None:
    """Unless it is asked for, no rule gives up before the maximum."""
    verdict = StoppingRule(Stopping(rule=rule)).decide((1,) * 9)

    assert verdict.stop_reason is None


def test_futility_says_its_numbers() -> None:
    """Giving up names the probability, its bound and the share that is out of reach."""
    judgement = StoppingRule(Stopping(futility=0.2)).decide((3, 1, 1))

    assert judgement.value == pytest.approx(56 / 462)
    assert judgement.bound == 0.2
    assert judgement.reason == "the chance that confidence reaches 0.8 is 0.1212, within 0.2"


def test_a_rule_that_stops_is_not_futile() -> None:
    """Where a rule is content, its stop reason is `rule` though the threshold is out of reach."""
    settings = Stopping(rule="confidence_only", confidence_threshold=0.0, futility=1.0)

    verdict = StoppingRule(settings).decide((1, 1, 1, 1, 1))

    assert verdict.stop_reason == "rule"


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("combined", (6,), (7,)),
        ("off", (6,), (7,)),
        ("confidence_only", (5, 1), (6, 1)),
        ("entropy_only", (6,), (7,)),
        ("predictive", (6,), (7,)),
        ("beta", (6,), (7,)),
        ("ahead_by", (6,), (7,)),
        ("curtail", (6,), (7,)),
    ],
)
def test_the_quorum_gates_every_rule(
    rule: Rule, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """With a quorum of seven votes no rule stops at six, nor curtails."""
    decide = StoppingRule(Stopping(rule=rule, quorum=7)).decide

    stops = decide(before).stop, decide(after).stop

    assert stops == (False, True)


def test_the_quorum_gates_futility() -> None:
    """With a quorum of seven votes nobody gives up at six different answers."""
    decide = StoppingRule(Stopping(quorum=7, futility=0.05)).decide

    reasons = decide((1,) * 6).stop_reason, decide((1,) * 7).stop_reason

    assert reasons == (None, "no_consensus")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("quorum", "counts", "unreadable", "reason"),
    [
        (1, (), 10, "no_consensus"),
        (1, (1,), 9, "max_responses"),
        (4, (3,), 7, "no_consensus"),
        (4, (4,), 6, "max_responses"),
        (10, (9,), 1, "no_consensus"),
    ],
)
def test_the_quorum_at_the_maximum(
    rule: Rule, quorum: int, counts: tuple[int, ...], unreadable: int, reason: str
) -> None:
    """A run that ends with fewer votes than its quorum ends in `no_consensus`."""
    verdict = StoppingRule(Stopping(rule=rule, quorum=quorum)).decide(counts, unreadable)

    assert verdict.stop_reason == reason


@pytest.mark.parametrize("rule", RULES)
def test_the_least_number_of_votes(rule: Rule) -> None:
    """`min_responses` counts votes: unreadable answers do not fill it up."""
    decide = StoppingRule(Stopping(rule=rule, min_responses=6, max_responses=40)).decide

    stops = decide((5,), 20).stop, decide((5,), 0).stop

    assert stops == (False, False)
