"""All that a labelled set says of each judge."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mull.critique.calibration import (
    Calibration,
    Example,
    Scored,
    Verdicts,
    calibrate,
    held_out_youden,
    position_gain,
    recommend,
    repeatability,
    verdicts,
)
from mull.critique.estimates import Estimate

NO, YES = False, True
SHARES = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
EXAMPLES = st.lists(
    st.builds(
        Example, query=st.just("q"), draft=st.text("x", max_size=3), label=SHARES,
        writer=st.sampled_from(["a", "b", None]),
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip
RATES = ("auc", "calibration_error")
CORRELATIONS = ("spearman", "kendall", "length_bias", "position_bias", "self_preference")


def labelled(*labels: float) -> list[Example]:
    return [Example(query="q", draft="d", label=label) for label in labels]


def scored(example: int, score: float | None, **known: Any) -> Scored:
    return Scored(example=example, judge="judge", score=score, **known)


@pytest.mark.parametrize(
    ("given", "labels", "threshold", "same"),
    [
        ([(0, 0.2), (0, 0.4), (1, 0.2), (2, 0.6), (2, 0.6)], (0.0, 0.0, 1.0), 0.45, 1.0),
        # Where no threshold is recommended, repeats are compared at the source's 0.7.
        ([(0, 0.6), (0, 0.8)], (1.0,), 0.7, 0.0),
    ],
)
def test_repeats_are_compared_at_the_threshold(
    given: list[tuple[int, float]], labels: tuple[float, ...], threshold: float, same: float
) -> None:
    """Whether verdicts are the same is asked where a draft should pass."""
    found = calibrate(labelled(*labels), [scored(*one) for one in given])[0]

    assert (found.recommended.threshold if found.recommended else 0.7) == threshold
    assert (found.repeatability.threshold, found.repeatability.same_verdict) == (threshold, same)


def test_biases() -> None:
    """Writers, lengths and orders each have their number."""
    examples = [
        Example(query="q", draft="x" * 10, label=0.5, writer="openai/judge"),
        Example(query="q", draft="x" * 99, label=0.5, writer="other"),
        Example(query="q", draft="x" * 50, label=0.5),
    ]
    given = [
        scored(0, 0.9, scores={"a": 0.9, "b": 0.9}),
        scored(0, 0.7, scores={"b": 0.9, "a": 0.5}, reversed=True),
        scored(1, 0.6, scores={"a": 0.6, "b": 0.6}),
        scored(2, 0.8),
    ]

    found = calibrate(examples, given)[0]

    assert found.self_preference.value == pytest.approx(0.3)
    assert found.length_bias.value == -1.0
    assert found.position_bias.value == pytest.approx(0.2)


@settings(max_examples=30)
@given(EXAMPLES, st.data())
def test_degenerate_sets(examples: list[Example], data: st.DataObject) -> None:
    """Whatever was labelled and scored, each number is within its range or None."""
    places = st.integers(0, len(examples) - 1)
    evaluation = st.builds(
        Scored, example=places, judge=st.just("a"), reversed=st.booleans(),
        score=st.none() | SHARES, scores=st.dictionaries(st.sampled_from("pqr"), SHARES),
    )  # fmt: skip
    given = data.draw(st.lists(evaluation, min_size=1, max_size=8))

    found = calibrate(examples, given)[0]

    assert all(0 <= number <= 1 for number in numbers(found, RATES))
    assert all(-2 <= number <= 2 for number in numbers(found, CORRELATIONS))


def numbers(found: Calibration, names: tuple[str, ...]) -> list[float]:
    estimates: list[Estimate] = [getattr(found, name) for name in names]
    ends = [number for one in estimates for number in (one.low, one.value, one.high)]
    return [number for number in ends if number is not None]


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
        ([{}], [{}], None),
    ],
)
def test_position_gain(
    in_order: list[dict[str, float]], in_reverse: list[dict[str, float]], expected: float | None
) -> None:
    """The gain is how much higher criteria score listed earlier than listed later."""
    found = position_gain(in_order, in_reverse)

    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("repeats", "threshold", "examples", "deviation", "same"),
    [
        ([[0.6, 0.8], [0.5, 0.5], [0.9]], 0.7, 2, 0.070711, 0.5),
        ([[0.6, 0.8]], 0.5, 1, 0.141421, 1.0),
        ([[0.7, 0.8, 0.9]], 0.7, 1, 0.1, 1.0),
        ([[0.5, 0.5], [0.9, 0.9, 0.9]], 0.7, 2, 0.0, 1.0),
        ([[0.5], [0.9]], 0.7, 0, None, None),
    ],
)
def test_repeatability(
    repeats: Any, threshold: float, examples: int, deviation: float | None, same: float | None
) -> None:
    """Deviation and verdicts are those within the examples that have two scores or more."""
    found = repeatability(repeats, threshold)

    assert (found.examples, found.threshold, found.same_verdict) == (examples, threshold, same)
    assert found.deviation == (deviation and pytest.approx(deviation, abs=1e-6))


@pytest.mark.parametrize(
    ("scores", "passes", "threshold", "youden", "accuracy", "wrong"),
    [
        ([0.2, 0.4, 0.6, 0.8], [NO, NO, YES, YES], 0.5, 1.0, 1.0, (0, 0)),
        # 0.35 and 0.75 have the same J; the second is nearer to 0.7.
        ([0.2, 0.5, 0.6, 0.9], [NO, YES, NO, YES], 0.75, 0.5, 0.75, (0, 1)),
        # 0.65 and 0.75 are as good and as near: the lower one.
        ([0.6, 0.7, 0.7, 0.8], [NO, YES, NO, YES], 0.65, 0.5, 0.75, (1, 0)),
        # 0.495 would be shown as 0.49, which lets 0.49 pass: 0.5 still tells the two apart.
        ([0.3, 0.49, 0.5, 0.8], [NO, NO, YES, YES], 0.5, 1.0, 1.0, (0, 0)),
        ([0.3, 0.491, 0.492, 0.8], [NO, NO, YES, YES], 0.4915, 1.0, 1.0, (0, 0)),
        # Balanced: letting one of ten fails through is less than failing the only pass.
        ([0.3] * 9 + [0.5, 0.5], [NO] * 9 + [NO, YES], 0.4, 0.9, 10 / 11, (1, 0)),
    ],
)
def test_recommend(
    scores: list[float], passes: list[bool], threshold: float, youden: float, accuracy: float,
    wrong: tuple[int, int],
) -> None:  # fmt: skip
    """The recommended threshold has the greatest J, among equals the one nearest to 0.7."""
    found = recommend(scores, passes)

    assert found is not None
    assert found.threshold == threshold
    assert found.youden == pytest.approx(youden)
    assert (found.accuracy, found.false_passes, found.false_fails) == (accuracy, *wrong)


def test_verdicts_at_the_source_s_threshold() -> None:
    """A score of 0.7 passes, and one below fails; of passes alone there is no J."""
    assert verdicts([], []) is None
    assert verdicts([0.7, 0.69, 0.9, 0.2], [NO, YES, YES, NO]) == Verdicts(
        threshold=0.7, accuracy=0.5, youden=0.0, false_passes=1, false_fails=1
    )
    assert verdicts([0.9, 0.1], [YES, YES]) == Verdicts(
        threshold=0.7, accuracy=0.5, youden=None, false_passes=0, false_fails=1
    )


def test_a_coin_is_not_recommended() -> None:
    """Where scores tell nothing there is no threshold, though one of them looks good."""
    chance, tempting = Random(0), 0
    for _ in range(8):
        scores = [chance.randrange(101) / 100 for _ in range(50)]
        passes = [chance.random() < 0.5 for _ in range(50)]
        tempting += recommend(scores, passes) is not None

        found = calibrate(labelled(*map(float, passes)), map(scored, range(50), scores))[0]

        assert found.recommended is None
    assert tempting >= 6


@pytest.mark.parametrize("seed", range(6))
def test_noise_is_no_miscalibration(seed: int) -> None:
    """A judge whose scores are exactly how likely a pass is has an interval with noise alone."""
    chance = Random(seed)
    scores = [chance.randrange(101) / 100 for _ in range(50)]
    labels = [float(chance.random() < score) for score in scores]

    right = calibrate(labelled(*labels), map(scored, range(50), scores))[0]
    wrong = calibrate(labelled(*(1 - label for label in labels)), map(scored, range(50), scores))[0]

    error, floor = right.calibration_error, right.calibration_floor
    assert None not in (error.low, error.high, floor)
    assert (error.low or 0) <= (floor or 0) <= (error.high or 0)
    assert (wrong.calibration_error.low or 0) > (floor or 0)


def test_a_held_out_j_is_less() -> None:
    """The best of many thresholds is worth less on examples that did not choose it."""
    chance = Random(0)
    scores = [chance.random() for _ in range(50)]
    passes = [chance.random() < 0.3 + 0.4 * score for score in scores]
    best, held_out = recommend(scores, passes), held_out_youden(scores, passes)

    assert best is not None
    assert best.youden is not None
    assert held_out is not None
    assert held_out < best.youden
    assert held_out_youden([0.1, 0.2, 0.8, 0.9] * 5, [NO, NO, YES, YES] * 5) == 1.0
    assert held_out_youden([], []) is None


@pytest.mark.parametrize(
    ("tokens", "usd", "expected"),
    [
        ([100, 200], [0.1, 0.2], (300, pytest.approx(0.3))),
        ([100, None], [None, 0.2], (None, None)),
        ([0, 0], [0.0, 0.0], (0, 0.0)),
    ],
)
def test_cost(
    tokens: list[int | None], usd: list[float | None], expected: tuple[object, object]
) -> None:
    """Cost is that of every evaluation, a failed one too, and unknown where one is unknown."""
    given = [
        scored(0, score, tokens=count, cost_usd=cost)
        for score, count, cost in zip((0.5, None), tokens, usd, strict=True)
    ]

    found = calibrate(labelled(1.0), given)[0]

    assert (found.tokens, found.cost_usd) == expected
