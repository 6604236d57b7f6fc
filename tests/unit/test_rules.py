"""The stopping rules: their settings, when each one stops, curtailing, futility and the quorum."""

from math import inf, nan
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from mull.sampling.rules import RULES, Rule, Stopping, StoppingRule
from tests.unit.states import Counts, partitions


def test_the_defaults_are_the_source() -> None:
    """Without a word the settings are those of the source, and its `combined` mode."""
    assert Stopping().model_dump() == {
        "preset": None, "rule": "combined", "confidence_threshold": 0.8,
        "entropy_threshold": 0.3, "entropy_weight": 0.3, "min_responses": 5,
        "min_entropy_samples": 4, "max_responses": 10, "epsilon": 0.05, "beta_threshold": 0.95,
        "ahead_by": 3, "futility": None, "quorum": 1, "hurry": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "rule", "epsilon", "most"),
    [
        ({"preset": "thrifty"}, "predictive", 0.05, 10),
        ({"preset": "thorough"}, "predictive", 0.02, 40),
        ({"preset": "thorough", "max_responses": 20}, "predictive", 0.02, 20),
        ({"preset": "thorough", "rule": "beta"}, "beta", 0.02, 40),
        ({"preset": "thorough", "entropy_mode": "off"}, "off", 0.02, 40),
        ({"entropy_mode": "entropy_only"}, "entropy_only", 0.05, 10),
    ],
)
def test_presets(given: dict[str, Any], rule: Rule, epsilon: float, most: int) -> None:
    """A preset fills in what is not given; `entropy_mode` is another name of `rule`."""
    found = Stopping(**given)

    assert (found.rule, found.epsilon, found.max_responses) == (rule, epsilon, most)
    assert Stopping.model_validate_json(found.model_dump_json()) == found


BAD_MAXIMA: tuple[object, ...] = (0, 1001, nan, inf, "ten", [])
SHARES = (
    *("confidence_threshold", "entropy_threshold", "entropy_weight"),
    *("epsilon", "beta_threshold", "futility"),
)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rule": "luck"}, "rule"),
        ({"rule": None}, "rule"),
        ({"rule": ["combined"]}, "rule"),
        ({"entropy_mode": "unknown"}, "entropy_mode"),
        ({"rule": "off", "entropy_mode": "off"}, "entropy_mode"),
        ({"preset": "lavish"}, "preset"),
        ({"preset": {}}, "preset"),
        ({"threshold": 0.8}, "threshold"),
        ({"min_responses": 0}, "min_responses"),
        ({"min_responses": 11}, "min_responses (11) is above max_responses (10)"),
        ({"min_responses": 6, "max_responses": 5}, "min_responses (6) is above max_responses (5)"),
        ({"quorum": 11}, "quorum (11) is above max_responses (10)"),
        ({"quorum": 0}, "quorum"),
        *[({"max_responses": bad}, "max_responses") for bad in BAD_MAXIMA],
        ({"ahead_by": 0}, "ahead_by"),
        ({"min_entropy_samples": 0}, "min_entropy_samples"),
        *[({name: bad}, name) for name in SHARES for bad in (-0.01, 1.01, nan, inf, -inf, "high")],
    ],
)
def test_refusals(given: dict[str, Any], named: str) -> None:
    """What makes no sense is refused by the name of its field."""
    with pytest.raises(ValidationError) as refused:
        Stopping(**given)

    assert named in str(refused.value)


def test_every_rule_has_its_entry() -> None:
    """What a request may name is in the table of rules, in the same order, and nothing else is."""
    assert list(RULES) == list(get_args(Rule))


@pytest.mark.parametrize(
    ("rule", "most", "leaders"),
    [
        ("predictive", 10, (3, 4, 5, 6, 6)),
        ("predictive", 40, (4, 5, 7, 8, 10, 11)),
        ("beta", 100, (4, 6, 8, 9, 11, 12, 14, 15)),
        ("ahead_by", 40, (3, 4, 5, 6, 7)),
    ],
)
def test_the_least_lead_that_stops(rule: Rule, most: int, leaders: tuple[int, ...]) -> None:
    """Over a runner-up with 0, 1, 2 ... votes the rule first stops at these leading counts."""
    decide = StoppingRule(Stopping(rule=rule, max_responses=most)).decide

    found = [
        next(
            leader
            for leader in range(max(runner_up, 1), most)
            if decide((leader, runner_up) if runner_up else (leader,)).stop
        )
        for runner_up in range(len(leaders))
    ]

    assert tuple(found) == leaders


# Settings, votes, unreadable answers and the stop reason.
Row = tuple[dict[str, Any], Counts, int, str | None]
OF_EACH_RULE: list[Row] = [
    # The maximum wins over whatever the rule would say, and unreadable answers are no votes.
    ({}, (10,), 0, "max_responses"),
    ({}, (1,), 8, None),
    # The minimum counts votes.
    ({"min_responses": 6, "max_responses": 40}, (5,), 20, None),
    ({"min_responses": 6, "max_responses": 40}, (5,), 0, None),
    # From five votes on, and only if it is asked for, a threshold out of reach ends the run.
    ({}, (1,) * 9, 0, None),
    ({"futility": 0.05}, (1, 1, 1, 1), 0, None),
    ({"futility": 0.05}, (1, 1, 1, 1, 1), 0, "no_consensus"),
    ({"futility": 0.05}, (1, 1, 1, 1), 5, None),
    ({"futility": 0.05}, (2, 2, 1), 0, "no_consensus"),
    ({"futility": 0.05}, (3, 1, 1), 0, None),
    ({"futility": 0.05}, (3, 2, 1), 0, "no_consensus"),
    # A run that ends with fewer votes than its quorum has no consensus.
    ({"quorum": 1}, (), 10, "no_consensus"),
    ({"quorum": 1}, (1,), 9, "max_responses"),
    ({"quorum": 4}, (3,), 7, "no_consensus"),
    ({"quorum": 4}, (4,), 6, "max_responses"),
    ({"quorum": 10}, (9,), 1, "no_consensus"),
]
OF_ONE_RULE: list[Row] = [
    ({"rule": "predictive"}, (1,), 0, None),
    ({"rule": "predictive"}, (2,), 0, None),
    ({"rule": "predictive"}, (3,), 0, "rule"),
    ({"rule": "ahead_by", "max_responses": 40}, (4, 2, 2), 0, None),
    ({"rule": "ahead_by", "ahead_by": 1, "max_responses": 40}, (1,), 0, "rule"),
    ({"rule": "ahead_by", "ahead_by": 5, "max_responses": 40}, (4,), 0, None),
    ({"rule": "fixed"}, (9,), 0, None),
    # `curtail` stops once the lead is greater than the calls left, and no earlier.
    ({"rule": "curtail"}, (5,), 0, None),
    ({"rule": "curtail"}, (6,), 0, "decided"),
    ({"rule": "curtail"}, (5, 2), 0, None),
    ({"rule": "curtail"}, (6, 3), 0, "decided"),
    ({"rule": "curtail"}, (5, 4), 0, None),
    ({"rule": "curtail"}, (5, 5), 0, "max_responses"),
    ({"rule": "curtail"}, (4, 1), 3, "decided"),
    ({"rule": "curtail"}, (1,), 8, None),
    ({"rule": "curtail"}, (2,), 7, "decided"),
    ({"rule": "curtail"}, (2, 2, 2, 2), 1, None),
    # A rule that is content is not futile.
    ({"confidence_threshold": 0, "futility": 1}, (1,) * 5, 0, "rule"),
    # With a quorum of seven votes nothing ends a run at six.
    ({"quorum": 7, "futility": 0.05}, (1,) * 6, 0, None),
    ({"quorum": 7, "futility": 0.05}, (1,) * 7, 0, "no_consensus"),
    *[({"rule": rule, "quorum": 7}, (6,), 0, None) for rule in RULES],
    *[({"rule": rule, "quorum": 7}, (7,), 0, "rule") for rule in ("combined", "off", "beta")],
    ({"rule": "confidence_only", "quorum": 7}, (6, 1), 0, "rule"),
    ({"rule": "curtail", "quorum": 7}, (7,), 0, "decided"),
]


@pytest.mark.parametrize(
    ("settings", "counts", "unreadable", "reason"),
    [({"rule": rule, **row[0]}, *row[1:]) for rule in RULES for row in OF_EACH_RULE] + OF_ONE_RULE,
    ids=str,
)
def test_a_state_is_decided(
    settings: dict[str, Any], counts: Counts, unreadable: int, reason: str | None
) -> None:
    """These votes end a run under these settings for this reason, or go on."""
    ruling = StoppingRule(Stopping(**settings)).decide(counts, unreadable)

    assert ruling.stop_reason == reason


@pytest.mark.parametrize(
    ("settings", "counts", "value", "reason"),
    [
        ({"futility": 0.2}, (3, 1, 1), 56 / 462,
         "chance that agreement still reaches 0.8: 12.1 % (limit 20 %)"),
        ({"rule": "predictive"}, (3,), 1 / 33,
         "3.03 % chance that the runner-up overtakes it (limit 5 %)"),
        ({"rule": "beta"}, (4,), 0.96875,
         "chance that the leader is likelier than the runner-up 0.9688 reaches 0.95"),
    ],
)  # fmt: skip
def test_a_chance_is_called_what_it_is(
    settings: dict[str, Any], counts: Counts, value: float, reason: str
) -> None:
    """Its name, the probability and the bound; none of them is the chance of being right."""
    ruling = StoppingRule(Stopping(**settings)).decide(counts)

    assert ruling.value == pytest.approx(value, abs=1e-5)
    assert ruling.reason == reason


@pytest.mark.parametrize("unreadable", [0, 1, 2])
def test_thrifty_stops_as_three_ahead_does(unreadable: int) -> None:
    """Whatever the votes, predictive at epsilon 0.05 and at most 10 is a lead of three."""
    thrifty = StoppingRule(Stopping(rule="predictive", epsilon=0.05, max_responses=10))
    ahead = StoppingRule(Stopping(rule="ahead_by", ahead_by=3, max_responses=10))
    cases = [counts for votes in range(11 - unreadable) for counts in partitions(votes)]

    differing = [
        counts
        for counts in cases
        if thrifty.decide(counts, unreadable).stop != ahead.decide(counts, unreadable).stop
    ]

    assert len(cases) > 60
    assert differing == []
