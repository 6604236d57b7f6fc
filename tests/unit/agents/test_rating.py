"""How reflections are rated: gains, the labels of figure 23, and what training reads of them."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mull.agents.memory import TrainItem
from mull.agents.rating import (
    Judgment,
    Pairing,
    Preference,
    RatedPair,
    count,
    judgments,
    preferences,
)


def pair(first: float, second: float, texts: tuple[str, str] = ("a", "b")) -> RatedPair:
    """Two reflections with these gains over an episode of return 0.5."""
    return returned(0.5, (0.5 + first, 0.5 + second), texts)


def returned(
    failed: float, next_: tuple[float, float], texts: tuple[str, str] = ("a", "b")
) -> RatedPair:
    """Two reflections with these returns after an episode with that one."""
    tried = tuple(
        TrainItem(prompt="p", reflection=text, rewards=rewards)
        for text, rewards in zip(texts, next_, strict=True)
    )
    return RatedPair(
        environment="counting", task="7", environment_seed=0, rollout=1, first_return=failed,
        tried=tried, planner=None, reflector=None, temperature=0.9, workflow_id="w", run_id="r",
    )  # fmt: skip


def test_a_gain_is_the_next_return_less_the_failed_one() -> None:
    """G(next) - G, for each of the two."""
    assert pair(0.25, -0.5).gains == (0.25, -0.5)


@pytest.mark.parametrize(
    ("gains", "correct", "undetermined"),
    [
        ((0.5, 0.25), (True, False), False),
        ((0.25, 0.5), (False, True), False),
        ((0.5, 0.0), (True, False), False),
        ((-0.5, 0.25), (False, True), False),
        ((0.0, -0.5), (False, False), False),
        ((-0.25, 0.0), (False, False), False),
        ((0.0, 0.0), (False, False), False),
        ((-0.5, -0.5), (False, False), False),
        ((0.5, 0.5), (True, True), True),
    ],
)
def test_the_labels_are_those_of_the_figure(
    gains: tuple[float, float], correct: tuple[bool, bool], undetermined: bool
) -> None:
    """The better is correct above 0; none is at or below it; equals above 0 are undetermined."""
    rated = pair(*gains)

    assert (rated.correct, rated.undetermined) == (correct, undetermined)


def test_a_pair_with_other_gains_has_other_labels() -> None:
    """Nothing else of it differs."""
    one = pair(0.5, 0.0)

    other = one.gaining(0.0, 0.25)

    assert (other.gains, other.correct) == ((0.0, 0.25), (False, True))
    assert [item.reflection for item in other.tried] == ["a", "b"]
    assert other.gaining(*one.gains) == one


def test_a_written_pair_says_its_labels() -> None:
    """A pair as JSON has its gains and labels, which are computed anew when it is read."""
    written = pair(0.5, -0.5).model_dump_json()

    said = json.loads(written)
    assert (said["gains"], said["correct"], said["undetermined"]) == (
        [0.5, -0.5], [True, False], False,
    )  # fmt: skip
    assert RatedPair.model_validate_json(written) == pair(0.5, -0.5)


@pytest.mark.parametrize(
    ("rated", "ordered", "positive"),
    [
        (pair(0.5, 0.0), [("a", "b")], [("a", "b")]),
        (pair(0.0, 0.5), [("b", "a")], [("b", "a")]),
        (pair(0.0, -0.5), [("a", "b")], []),
        (pair(0.5, 0.5), [], []),
        (pair(0.0, 0.0), [], []),
        (pair(0.5, 0.0, ("a", "a")), [], []),
        (returned(0.0, (0.3, 0.1 + 0.2)), [], []),
        (returned(0.3, (0.1 + 0.2, 0.0)), [("a", "b")], []),
    ],
)
def test_a_pair_tells_better_from_worse_or_is_none(
    rated: RatedPair, ordered: list[tuple[str, str]], positive: list[tuple[str, str]]
) -> None:
    """Equal gains and equal texts carry no signal; `positive` wants a gain above 0 as well."""
    expected: dict[Pairing, list[tuple[str, str]]] = {"ordered": ordered, "positive": positive}
    for pairing, wanted in expected.items():
        assert preferences([rated], pairing) == [Preference("p", *texts) for texts in wanted]


@given(
    cents=st.lists(st.integers(-99_999, 99_999), max_size=30),
    gain=st.sampled_from([-0.01, 0, 0.01, 3]),
    chance=st.randoms(use_true_random=False),
)
def test_equal_decimals_are_equal(cents: list[int], gain: float, chance: random.Random) -> None:
    """In whatever order they were added up: no pair, no gain, and no label tells them apart."""

    def total() -> float:
        chance.shuffle(cents)
        return sum(cent / 100 for cent in cents)

    rated = returned(total(), (total() + gain, gain + total()))

    assert (rated.equal, rated.correct) == (True, (gain > 0, gain > 0))
    found = count([rated], "ordered")
    assert (found.equal, found.preferences, found.good) == (1, 0, 2 * (gain > 0))


def test_single_reflections_are_labelled_by_the_figure_or_by_order() -> None:
    """`positive` has all of them with figure 23's labels; `ordered` the pairs that tell alone."""
    rated = [pair(0.0, -0.5), pair(0.5, 0.5)]

    assert judgments(rated, "ordered") == [
        Judgment("p", "a", correct=True), Judgment("p", "b", correct=False),
    ]  # fmt: skip
    assert judgments(rated, "positive") == [
        Judgment("p", "a", correct=False), Judgment("p", "b", correct=False),
        Judgment("p", "a", correct=True), Judgment("p", "b", correct=True),
    ]  # fmt: skip
    blank = [pair(0.5, 0.0, ("a", " \n")), pair(0.0, 0.0, ("", "b"))]
    assert judgments(blank, "positive") == [
        Judgment("p", "a", correct=True), Judgment("p", "b", correct=False),
    ]  # fmt: skip
