"""The settings of stopping rules: defaults, presets, and what is refused."""

from math import inf, nan
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from reflection.sampling.rules import Rule, Stopping

RULES: tuple[Rule, ...] = get_args(Rule)


def test_the_defaults_are_the_source() -> None:
    """Without a word the settings are those of the source, and its `combined` mode."""
    found = Stopping()

    assert found.model_dump() == {
        "preset": None,
        "rule": "combined",
        "confidence_threshold": 0.8,
        "entropy_threshold": 0.3,
        "entropy_weight": 0.3,
        "min_responses": 5,
        "min_entropy_samples": 4,
        "max_responses": 10,
        "epsilon": 0.05,
        "beta_threshold": 0.95,
        "ahead_by": 3,
        "futility": None,
        "quorum": 1,
    }


@pytest.mark.parametrize(
    ("given", "least"),
    [
        ({}, 5),
        *[({"rule": rule}, 5) for rule in ("combined", "confidence_only", "entropy_only", "off")],
        *[({"rule": rule}, 1) for rule in ("predictive", "beta", "ahead_by", "fixed", "curtail")],
        ({"entropy_mode": "off"}, 5),
        ({"preset": "thrifty"}, 1),
        ({"preset": "thorough", "rule": "combined"}, 5),
        ({"rule": "predictive", "min_responses": 4}, 4),
        ({"rule": "combined", "min_responses": 2}, 2),
        ({"rule": "combined", "max_responses": 3}, 3),
        ({"rule": "combined", "max_responses": 3.0}, 3),
        ({"rule": "combined", "min_responses": None}, 5),
    ],
)
def test_the_default_minimum(given: dict[str, Any], least: int) -> None:
    """`min_responses` is 5 for the source's modes, within the maximum, and 1 for the others."""
    found = Stopping(**given)

    assert found.min_responses == least


@pytest.mark.parametrize(
    ("given", "rule", "epsilon", "most"),
    [
        ({"preset": "thrifty"}, "predictive", 0.05, 10),
        ({"preset": "thorough"}, "predictive", 0.02, 40),
        ({"preset": "thorough", "max_responses": 20}, "predictive", 0.02, 20),
        ({"preset": "thorough", "rule": "beta"}, "beta", 0.02, 40),
        ({"preset": "thorough", "entropy_mode": "off"}, "off", 0.02, 40),
    ],
)
def test_presets(given: dict[str, Any], rule: Rule, epsilon: float, most: int) -> None:
    """A preset fills in what is not given, and gives way to what is."""
    found = Stopping(**given)

    assert (found.rule, found.epsilon, found.max_responses) == (rule, epsilon, most)


def test_the_name_of_the_source() -> None:
    """`entropy_mode` is another name of `rule`."""
    found = Stopping.model_validate({"entropy_mode": "entropy_only"})

    assert found.rule == "entropy_only"


@pytest.mark.parametrize("rule", RULES)
def test_settings_survive_json(rule: Rule) -> None:
    """Settings that are written as JSON and read again are the same."""
    settings = Stopping(rule=rule, max_responses=7, futility=0.1)

    found = Stopping.model_validate_json(settings.model_dump_json())

    assert found == settings


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rule": "majority"}, "rule"),
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
        ({"max_responses": 0}, "max_responses"),
        ({"max_responses": 1001}, "max_responses"),
        ({"max_responses": nan}, "max_responses"),
        ({"max_responses": inf}, "max_responses"),
        ({"max_responses": "ten"}, "max_responses"),
        ({"max_responses": []}, "max_responses"),
        ({"ahead_by": 0}, "ahead_by"),
        ({"min_entropy_samples": 0}, "min_entropy_samples"),
        *[
            ({name: value}, name)
            for name in (
                "confidence_threshold",
                "entropy_threshold",
                "entropy_weight",
                "epsilon",
                "beta_threshold",
                "futility",
            )
            for value in (-0.01, 1.01, nan, inf, -inf, "high")
        ],
    ],
)
def test_refusals(given: dict[str, Any], named: str) -> None:
    """What makes no sense is refused by the name of its field."""
    with pytest.raises(ValidationError) as refused:
        Stopping(**given)

    assert named in str(refused.value)


def test_settings_never_change() -> None:
    """Settings are frozen."""
    settings = Stopping()

    with pytest.raises(ValidationError):
        settings.max_responses = 11  # type: ignore[misc]
