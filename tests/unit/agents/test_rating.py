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

Texts = tuple[str, str]


def pair(first: float, second: float, texts: Texts = ("a", "b")) -> RatedPair:
    """Two reflections with these gains over an episode of return 0.5."""
    return returned(0.5, (0.5 + first, 0.5 + second), texts)


def returned(failed: float, later: tuple[float, float], texts: Texts = ("a", "b")) -> RatedPair:
    """Two reflections with these returns after an episode with that one."""
    tried = tuple(
        TrainItem(prompt="p", reflection=text, rewards=rewards)
        for text, rewards in zip(texts, later, strict=True)
    )
    return RatedPair(
        environment="counting", task="7", environment_seed=0, rollout=1, first_return=failed,
        tried=tried, planner=None, reflector=None, temperature=0.9, workflow_id="w", run_id="r",
    )  # fmt: skip


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
    """The better is correct above 0; none is at or below it; equals above 0 are undetermined.

    A gain is G(next) - G. A written pair has gains and labels, which are computed anew when read.
    """
    rated = pair(*gains)

    found = {"gains": gains, "correct": correct, "undetermined": undetermined}
    assert {name: getattr(rated, name) for name in found} == found
    assert json.loads(rated.model_dump_json()).items() >= json.loads(json.dumps(found)).items()
    assert RatedPair.model_validate_json(rated.model_dump_json()) == rated


def test_a_pair_with_other_gains_has_other_labels() -> None:
    """Nothing else of it differs."""
    one = pair(0.5, 0.0)

    other = one.gaining(0.0, 0.25)

    assert (other.gains, other.correct) == ((0.0, 0.25), (False, True))
    assert [item.reflection for item in other.tried] == ["a", "b"]
    assert other.gaining(*one.gains) == one


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
    good_a, bad_a, good_b, bad_b = (
        Judgment("p", text, correct=correct) for text in "ab" for correct in (True, False)
    )
    rated = [pair(0.0, -0.5), pair(0.5, 0.5)]
    blank = [pair(0.5, 0.0, ("a", " \n")), pair(0.0, 0.0, ("", "b"))]

    assert judgments(rated, "ordered") == [good_a, bad_b]
    assert judgments(rated, "positive") == [bad_a, bad_b, good_a, good_b]
    assert judgments(blank, "positive") == [good_a, bad_b]
