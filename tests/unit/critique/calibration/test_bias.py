"""What moves a judge's score besides quality."""

import pytest

from reflection.critique.calibration.bias import (
    length_bias,
    position_gain,
    same_model,
    self_preference,
)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpt-5", "gpt-5", True),
        ("openai/gpt-5", "gpt-5", True),
        ("gpt-5", "azure/gpt-5", True),
        ("openai/gpt-5", "azure/gpt-5", True),
        ("openrouter/openai/gpt-5", "openai/gpt-5", True),
        ("openai/gpt-5", "openai/gpt-5-mini", False),
        ("openai/gpt-5", "openai", False),
    ],
)
def test_same_model(one: str, other: str, same: bool) -> None:
    """Two names mean one model where they are equal without a provider's prefix."""
    assert same_model(one, other) is same


def test_self_preference() -> None:
    """The gap is between a judge's own drafts and those of others; unknown writers are neither."""
    statistic = self_preference("openai/a", ["a", "openai/a", "b", None], [0.3, 0.1, -0.1, 0.9])

    found = statistic([1, 1, 1, 1])

    assert found == pytest.approx(0.3)


@pytest.mark.parametrize("writers", [["a", "a"], ["b", "b"], [None, "a"], [None, None]])
def test_no_self_preference(writers: list[str | None]) -> None:
    """Without drafts of its own, or without those of others, there is no gap."""
    statistic = self_preference("a", writers, [0.3, 0.1])

    assert statistic([1, 1]) is None


def test_self_preference_when_one_side_was_not_drawn() -> None:
    """A resample without a draft of the judge's own has no gap."""
    statistic = self_preference("a", ["a", "b"], [0.3, 0.1])

    assert statistic([0, 2]) is None


@pytest.mark.parametrize(
    ("lengths", "scores", "labels", "expected"),
    [
        ([10, 200, 3000], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5], 1.0),
        ([10, 200, 3000], [0.3, 0.2, 0.1], [0.5, 0.5, 0.5], -1.0),
        ([10, 200, 3000], [0.4, 0.4, 0.4], [0.0, 0.5, 1.0], None),
        ([10, 10, 10], [0.1, 0.2, 0.3], [0.0, 0.5, 1.0], None),
        # The labels go with length, and the judge with the labels: that is no bias.
        ([10, 200, 3000], [0.1, 0.2, 0.3], [0.0, 0.5, 1.0], 0.0),
        # r(length, score) = 0.8, r(length, label) = r(score, label) = 0: nothing to hold fixed.
        ([1, 2, 3, 4], [0.1, 0.3, 0.2, 0.4], [0.0, 1.0, 1.0, 0.0], 0.8),
    ],
)
def test_length_bias(
    lengths: list[int], scores: list[float], labels: list[float], expected: float | None
) -> None:
    """The bias is the rank correlation of a draft's characters and its score, label held fixed."""
    found = length_bias(["x" * length for length in lengths], scores, labels)([1] * len(lengths))

    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("in_order", "in_reverse", "expected"),
    [
        # a gains 0.3 by coming first, and b 0.1.
        ([{"a": 0.8, "b": 0.6}], [{"b": 0.7, "a": 0.5}], 0.2),
        # The middle one of three stays where it is.
        ([{"a": 0.8, "b": 0.6, "c": 0.5}], [{"c": 0.7, "b": 0.1, "a": 0.6}], 0.2),
        # Repeats are averaged, and one that has no scores is none.
        ([{"a": 0.8, "b": 0.6}, {}, {"a": 0.6, "b": 0.6}], [{"b": 0.8, "a": 0.5}], 0.2),
        # Who judges low what comes first has a bias below 0.
        ([{"a": 0.4, "b": 0.6}], [{"b": 0.5, "a": 0.5}], -0.1),
        ([{"a": 0.8, "b": 0.6}], [{"b": 0.6}], 0.0),
        ([{"a": 0.8}], [{"a": 0.5}], None),
        ([{"a": 0.8, "b": 0.6}], [], None),
        ([], [{"b": 0.7, "a": 0.5}], None),
        ([{}], [{}], None),
    ],
)
def test_position_gain(
    in_order: list[dict[str, float]], in_reverse: list[dict[str, float]], expected: float | None
) -> None:
    """The gain is how much higher criteria score listed earlier than listed later."""
    found = position_gain(in_order, in_reverse)

    assert found == (expected if expected is None else pytest.approx(expected))
