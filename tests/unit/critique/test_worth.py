"""The same questions by several methods, side by side."""

import pytest

from mull.critique.estimates import Estimate
from mull.critique.worth import (
    REFLECT,
    SINGLE,
    Comparison,
    Outcome,
    compare,
    mcnemar,
    paired_difference,
    wilson,
)

NO, YES = False, True


def outcomes(method: str, rights: dict[int, bool]) -> list[Outcome]:
    return [Outcome(question=place, method=method, right=right) for place, right in rights.items()]


@pytest.mark.parametrize(
    ("right", "size", "low", "high"),
    [
        # Table I of Newcombe (1998), method 3.
        (81, 263, 0.2553, 0.3662),
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
    [(9, 1, 0.021484375), (1, 9, 0.021484375), (12, 4, 0.076812744), (3, 3, 1.0), (0, 0, 1.0)],
)
def test_mcnemar(gained: int, lost: int, expected: float) -> None:
    """The p value is twice the smaller tail of as many fair coins as answers changed."""
    assert mcnemar(gained, lost) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("methods", "baseline"),
    [
        (["reflect", "single", "self_consistency"], "single"),
        (["reflect", "self_consistency"], "reflect"),
    ],
)
def test_baseline(methods: list[str], baseline: str) -> None:
    """The baseline is the single generation, and the first method where that is not there."""
    found = compare(one for method in methods for one in outcomes(method, {0: YES}))

    assert found.baseline == baseline
    assert [one.method for one in found.methods] == methods
    assert [one.method for one in found.paired] == [name for name in methods if name != baseline]


def test_paired() -> None:
    """Only questions that both methods were asked are compared."""
    first = outcomes("single", {0: NO, 1: NO, 2: YES, 3: YES, 5: YES})
    second = outcomes("reflect", {0: YES, 1: YES, 2: NO, 3: YES, 4: YES})

    found = compare([*first, *second]).paired[0]

    assert (found.method, found.baseline, found.questions) == ("reflect", "single", 4)
    assert (found.wrong_to_right, found.right_to_wrong) == (2, 1)
    assert (found.accuracy.value, found.p_value, found.tokens_change) == (0.25, 1.0, None)


@pytest.mark.parametrize(
    ("tokens", "change"),
    [
        # Only question 0 has the tokens of both; they are the source's.
        ({"single": [SINGLE, 8_000], "reflect": [REFLECT, None, 99_000]}, 112.5),
        ({"single": [None], "reflect": [17_000]}, None),
        ({"single": [0], "reflect": [17_000]}, None),
    ],
)
def test_tokens_change(tokens: dict[str, list[int | None]], change: float | None) -> None:
    """Tokens are compared where both methods' are known; there is no percent of nothing."""
    given = [
        Outcome(question=place, method=method, right=NO, tokens=count)
        for method, counts in tokens.items()
        for place, count in enumerate(counts)
    ]

    assert compare(given).paired[0].tokens_change == change


def test_what_is_nothing() -> None:
    """Of nothing there is nothing."""
    assert wilson(0, 0) == paired_difference(0, 0, 0) == Estimate()
    assert compare([]) == Comparison(baseline=None, methods=(), paired=())
