"""How well two orders agree."""

from collections.abc import Sequence
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflection.critique.calibration.ranks import auc, kendall, spearman

LEVELS = st.integers(0, 4)
WEIGHTED = st.lists(st.tuples(LEVELS, LEVELS, st.integers(0, 3)), max_size=12)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Hours of television and IQ, the example of many textbooks: -29 / 165.
        (
            [106, 100, 86, 101, 99, 103, 97, 113, 112, 110],
            [7, 27, 2, 50, 28, 29, 20, 12, 6, 17],
            -0.175758,
        ),
        ([1, 2, 2, 3], [1, 2, 3, 4], 0.948683),
        ([0.1, 0.5, 0.9], [0, 0, 1], 0.866025),
        ([1, 2, 3], [10, 100, 1000], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3], [5, 5, 5], None),
        ([5, 5, 5], [1, 2, 3], None),
        ([1], [1], None),
        ([], [], None),
    ],
)
def test_spearman(first: list[float], second: list[float], expected: float | None) -> None:
    """Spearman's correlation is Pearson's of mid-ranks, and nothing where a side is constant."""
    found = spearman(first, second)([1] * len(first))

    assert found == (expected if expected is None else pytest.approx(expected, abs=1e-6))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # The example of SciPy's manual: 2 pairs in order, 6 not, 2 and 2 tied, one of them in both.
        ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0], -0.471405),
        ([1, 2, 3, 4], [1, 2, 4, 3], 0.666667),
        ([1, 2, 2, 3], [1, 2, 3, 4], 0.912871),
        ([0.1, 0.5, 0.9], [0, 0, 1], 0.816497),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3], [5, 5, 5], None),
        ([5, 5, 5], [1, 2, 3], None),
        ([1], [1], None),
        ([], [], None),
    ],
)
def test_kendall(first: list[float], second: list[float], expected: float | None) -> None:
    """Kendall's tau-b takes tied pairs out of the denominator, side by side."""
    found = kendall(first, second)([1] * len(first))

    assert found == (expected if expected is None else pytest.approx(expected, abs=1e-6))


@pytest.mark.parametrize(
    ("scores", "passes", "expected"),
    [
        ([0.1, 0.4, 0.35, 0.8], [False, False, True, True], 0.75),
        ([0.5, 0.5, 0.5, 0.5], [False, True, False, True], 0.5),
        ([0.2, 0.5, 0.5, 0.9], [False, False, True, True], 0.875),
        ([0.9, 0.1], [False, True], 0.0),
        ([0.1, 0.9], [True, True], None),
        ([0.1, 0.9], [False, False], None),
        ([], [], None),
    ],
)
def test_auc(scores: list[float], passes: list[bool], expected: float | None) -> None:
    """The area is the share of pairs of a pass and a fail in order, a tie being half a pair."""
    found = auc(scores, passes)([1] * len(scores))

    assert found == expected


@given(WEIGHTED)
def test_spearman_by_definition(rows: list[tuple[int, int, int]]) -> None:
    """A weight is as many equal examples, for Spearman's correlation as it is defined."""
    first, second = _expanded(rows)

    found = spearman([row[0] for row in rows], [row[1] for row in rows])([row[2] for row in rows])

    assert found == _approximately(_pearson(_mid_ranks(first), _mid_ranks(second)))


@given(WEIGHTED)
def test_kendall_by_definition(rows: list[tuple[int, int, int]]) -> None:
    """A weight is as many equal examples, for tau-b as it is defined over all pairs."""
    first, second = _expanded(rows)

    found = kendall([row[0] for row in rows], [row[1] for row in rows])([row[2] for row in rows])

    assert found == _approximately(_tau_b(first, second))


@given(WEIGHTED)
def test_auc_by_definition(rows: list[tuple[int, int, int]]) -> None:
    """A weight is as many equal examples, for the area as it is defined over all pairs."""
    scores, labels = _expanded(rows)
    passed = [score for score, label in zip(scores, labels, strict=True) if label > 1]
    failed = [score for score, label in zip(scores, labels, strict=True) if label <= 1]
    wins = sum((high > low) + (high == low) / 2 for high in passed for low in failed)

    found = auc([row[0] for row in rows], [row[1] > 1 for row in rows])([row[2] for row in rows])

    pairs = len(passed) * len(failed)
    assert found == _approximately(wins / pairs if pairs else None)


def _approximately(expected: float | None) -> object:
    return None if expected is None else pytest.approx(expected, abs=1e-12)


def _expanded(rows: Sequence[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    repeated = [(one, two) for one, two, weight in rows for _ in range(weight)]
    return [one for one, _ in repeated], [two for _, two in repeated]


def _mid_ranks(values: Sequence[int]) -> list[float]:
    return [
        sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values
    ]


def _pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    size = len(first)
    one = [value - sum(first) / size for value in first]
    two = [value - sum(second) / size for value in second]
    squares = sum(value**2 for value in one) * sum(value**2 for value in two)
    products = sum(a * b for a, b in zip(one, two, strict=True))
    return products / sqrt(squares) if squares else None


def _tau_b(first: Sequence[int], second: Sequence[int]) -> float | None:
    places = range(len(first))
    pairs = [
        (_sign(first[i] - first[j]), _sign(second[i] - second[j])) for i in places for j in range(i)
    ]
    free = sum(one != 0 for one, _ in pairs) * sum(two != 0 for _, two in pairs)
    return sum(one * two for one, two in pairs) / sqrt(free) if free else None


def _sign(difference: int) -> int:
    return (difference > 0) - (difference < 0)
