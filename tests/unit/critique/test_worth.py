"""The same questions by several methods, side by side."""

import pytest

from reflection.critique.calibration import Estimate
from reflection.critique.worth import (
    SOURCE_COSTS,
    Comparison,
    Mean,
    Outcome,
    compare,
    mcnemar,
    paired_difference,
    wilson,
)

NO, YES = False, True


@pytest.mark.parametrize(
    ("right", "size", "low", "high"),
    [
        # Table I of Newcombe (1998), method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson(right: int, size: int, low: float, high: float) -> None:
    """A share has Wilson's interval, also where it is 0 or 1."""
    found = wilson(right, size)

    assert found.value == right / size
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("gained", "lost", "size", "value", "low", "high"),
    [
        (12, 4, 50, 0.16, 0.004171, 0.303521),
        (0, 0, 10, 0.0, -0.163330, 0.163330),
        (3, 0, 3, 1.0, 0.018581, 1.0),
        (0, 3, 3, -1.0, -1.0, -0.018581),
    ],
)
def test_paired_difference(
    gained: int, lost: int, size: int, value: float, low: float, high: float
) -> None:
    """A paired difference has an interval of some length, within -1 to 1."""
    found = paired_difference(gained, lost, size)

    assert found.value == value
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [
        (9, 1, 0.021484375),
        (1, 9, 0.021484375),
        (5, 0, 0.0625),
        (12, 4, 0.076812744),
        (3, 3, 1.0),
        (0, 0, 1.0),
        (3000, 0, 0.0),
    ],
)
def test_mcnemar(gained: int, lost: int, expected: float) -> None:
    """The p value is twice the smaller tail of as many fair coins as answers changed."""
    found = mcnemar(gained, lost)

    assert found == pytest.approx(expected, abs=1e-9)


def test_method() -> None:
    """Means are over the questions of which a value is known, and of none they are None."""
    outcomes = [
        Outcome(question=0, method="single", right=YES, tokens=100, seconds=1),
        Outcome(question=1, method="single", right=NO, tokens=300, seconds=2),
        Outcome(question=2, method="single", tokens=None, seconds=6),
    ]

    found = compare(3, outcomes, []).methods[0]

    assert (found.questions, found.judged, found.right, found.accuracy.value) == (3, 2, 1, 0.5)
    assert found.tokens == Mean(value=200.0, known=2)
    assert found.cost_usd == Mean(value=None, known=0)
    assert found.seconds == Mean(value=3.0, known=3)


def test_paired_by_score() -> None:
    """Differences of scores have an interval over paired questions, by resampling them."""
    outcomes = [
        Outcome(question=place, method=method, score=score)
        for method, scores in (("single", (0.2, 0.6, 0.5)), ("reflect", (0.6, 0.6)))
        for place, score in enumerate(scores)
    ]

    found = compare(3, outcomes, [(0, 0, 2), (1, 1, 2), (0, 1, 2)])

    assert found.methods[0].score.value == pytest.approx(1.3 / 3)
    paired = found.paired[0]
    assert (paired.questions, paired.unpaired) == (2, (2,))
    assert (paired.score.value, paired.score.low, paired.score.high) == pytest.approx(
        (0.2, 0.01, 0.39)
    )
    assert (paired.accuracy, paired.wrong_to_right, paired.p_value) == (Estimate(), None, None)


@pytest.mark.parametrize(
    ("methods", "baseline"),
    [
        (["reflect", "single", "self_consistency"], "single"),
        (["reflect", "self_consistency"], "reflect"),
    ],
)
def test_baseline(methods: list[str], baseline: str) -> None:
    """The baseline is the single generation, and the first method where that is not there."""
    outcomes = [Outcome(question=0, method=method, right=YES) for method in methods]

    found = compare(1, outcomes, [])

    assert found.baseline == baseline
    assert [each.method for each in found.methods] == methods
    assert [each.method for each in found.paired] == [m for m in methods if m != baseline]


def test_source_costs() -> None:
    """The source's one revision is 8,000 + 1,000 + 8,000 tokens, 112.5 % more than none."""
    without, reflecting = SOURCE_COSTS

    assert (without.total, without.change) == (8_000, 0.0)
    assert (reflecting.draft, reflecting.evaluation, reflecting.revision) == (8_000, 1_000, 8_000)
    assert (reflecting.total, reflecting.change) == (17_000, 112.5)


def test_paired_by_right_and_wrong() -> None:
    """Only questions that both methods answered are compared, and the others are named."""
    outcomes = [
        Outcome(question=place, method=method, right=right)
        for method, rights in (
            ("single", {0: NO, 1: NO, 2: YES, 3: YES, 5: YES}),
            ("reflect", {0: YES, 1: YES, 2: NO, 3: YES, 4: YES}),
        )
        for place, right in rights.items()
    ]

    found = compare(7, outcomes, []).paired[0]

    assert (found.method, found.baseline) == ("reflect", "single")
    assert (found.questions, found.unpaired) == (4, (4, 5, 6))
    assert (found.wrong_to_right, found.right_to_wrong) == (2, 1)
    assert (found.accuracy.value, found.p_value) == (0.25, 1.0)


@pytest.mark.parametrize(
    ("single", "reflect", "change"),
    [
        # Only question 0 has the tokens of both, though nobody knows what is right.
        ([8_000, 8_000], [17_000, None, 99_000], 112.5),
        ([None], [17_000], None),
        ([0], [17_000], None),
    ],
)
def test_tokens_change(
    single: list[int | None], reflect: list[int | None], change: float | None
) -> None:
    """Tokens are compared where both methods' are known; there is no percent of nothing."""
    outcomes = [
        Outcome(question=place, method=method, tokens=count)
        for method, counts in (("single", single), ("reflect", reflect))
        for place, count in enumerate(counts)
    ]

    found = compare(3, outcomes, []).paired[0]

    assert (found.tokens_change, found.questions, found.unpaired) == (change, 0, (0, 1, 2))


def test_what_is_nothing_and_what_is_refused() -> None:
    """Of nothing there is nothing; an outcome of no question, or a second one, is refused."""
    assert wilson(0, 0) == paired_difference(0, 0, 0) == Estimate()
    assert compare(3, [], []) == Comparison(questions=3, baseline=None, methods=(), paired=())
    for places, said in (((0, 2), "question 2, but there are only 2"), ((1, 1), "two outcomes of")):
        with pytest.raises(ValueError, match=said):
            compare(2, [Outcome(question=place, method="single") for place in places], [])
