"""The measures of a distribution and the words for their levels."""

import pytest

from reflection.sampling.tally import (
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
    entropy,
    normalized,
)


@pytest.mark.parametrize(
    ("counts", "bits"),
    [
        ((), 0.0),
        ((5,), 0.0),
        ((1, 1), 1.0),
        ((4, 1), 0.721928),
        ((2, 2, 1), 1.521928),
        ((3, 2, 1), 1.459148),
        ((1, 1, 1, 1), 2.0),
        ((2, 1, 1, 1), 1.921928),
        ((999, 1), 0.011408),
    ],
)
def test_entropy_in_bits(counts: tuple[int, ...], bits: float) -> None:
    """Entropy is -sum(p log2 p) over the shares of the votes."""
    found = entropy(counts)

    assert found == pytest.approx(bits, abs=1e-6)


@pytest.mark.parametrize(
    ("bits", "distinct", "scaled"),
    [
        (0.0, 0, 0.0),
        (0.0, 1, 0.0),
        (1.0, 2, 1.0),
        (0.721928, 2, 0.721928),
        (1.521928, 3, 0.960230),
        (1.921928, 4, 0.960964),
        (1.0000000000000002, 2, 1.0),
    ],
)
def test_normalized_by_distinct_answers(bits: float, distinct: int, scaled: float) -> None:
    """Normalized entropy divides by log2 of the distinct answers, and stays within 0 and 1."""
    found = normalized(bits, distinct)

    assert found == pytest.approx(scaled, abs=1e-6)
    assert 0.0 <= found <= 1.0


@pytest.mark.parametrize(
    ("scaled", "level"),
    [
        (0.0, "concentrated"),
        (0.2, "concentrated"),
        (0.1 + 0.1 + 1e-16, "concentrated"),
        (0.2001, "scattered"),
        (0.7, "scattered"),
        (0.6 + 0.1 + 1e-16, "scattered"),
        (0.7001, "uniform"),
        (1.0, "uniform"),
    ],
)
def test_entropy_levels(scaled: float, level: str) -> None:
    """An entropy level reaches up to its bound, which belongs to it."""
    found = classify_entropy(scaled)

    assert found == level


@pytest.mark.parametrize(
    ("confidence", "level"),
    [
        (1.0, "low"),
        (0.8, "low"),
        (0.7999, "medium"),
        (0.6, "medium"),
        (0.5999, "high"),
        (0.0, "high"),
    ],
)
def test_uncertainty_levels(confidence: float, level: str) -> None:
    """Uncertainty is low from a confidence of 0.8, medium from 0.6, and else high."""
    found = classify_uncertainty(confidence)

    assert found == level


@pytest.mark.parametrize(
    ("first", "second", "pattern"),
    [
        (0.0, 0.0, "undefined"),
        (1.0, 0.0, "strong"),
        (0.8, 0.2, "strong"),
        (0.79, 0.21, "emerging"),
        (0.5, 0.5, "binary"),
        (4 / 7, 3 / 7, "binary"),
        (0.6, 0.4, "emerging"),
        (0.5, 0.35, "binary"),
        (0.49, 0.34, "emerging"),
        (0.4, 0.4, "binary"),
        (0.4, 0.2, "emerging"),
        (0.39, 0.34, "divided"),
        (0.39, 0.35, "binary"),
        (1 / 3, 1 / 3, "divided"),
    ],
)
def test_consensus_patterns(first: float, second: float, pattern: str) -> None:
    """A binary split is looked for first, then 0.8 is strong, 0.4 emerging, less divided."""
    found = classify_consensus(first, second)

    assert found == pattern


def test_consensus_compares_exactly() -> None:
    """11 and 8 votes of 20 differ by 0.15 and are binary, though 0.55 - 0.4 is above 0.15."""
    assert 0.55 - 0.4 > 0.15

    found = classify_consensus(0.55, 0.4)

    assert found == classify_consensus(11 / 20, 8 / 20) == "binary"
