"""Votes, the measures of their distribution, the words for their levels, and how they moved."""

from collections import Counter
from collections.abc import Callable
from random import Random
from timeit import repeat

import pytest

from mull.sampling.result import (
    NOTHING,
    ConvergenceAnalysis,
    Tally,
    analyse,
    classify_consensus,
    classify_entropy,
    classify_uncertainty,
    rate,
    stability,
)
from mull.sampling.rules import entropy, normalized
from tests.unit.runs import tally_of


def test_nothing_counted() -> None:
    """Without a vote there is no leader, and every measure is 0."""
    tally = Tally()

    assert tally.measurement == NOTHING
    assert (tally.counts, tally.distribution, tally.tied) == ((), {}, False)


@pytest.mark.parametrize(
    ("answers", "leader", "first", "second", "tied"),
    [
        ("A", "A", 1, 0, False),
        ("AB", "A", 1, 1, True),
        ("BA", "B", 1, 1, True),
        ("ABB", "B", 2, 1, False),
        ("ABBA", "A", 2, 2, True),
        ("BAAB", "B", 2, 2, True),
        ("ABCCB", "B", 2, 2, True),
        ("ABCBCC", "C", 3, 2, False),
        ("AABBCC", "A", 2, 2, True),
    ],
)
def test_leader(answers: str, leader: str, first: int, second: int, tied: bool) -> None:
    """The leader has the most votes, and among equals it is the answer seen first."""
    tally = tally_of(answers)

    found = tally.measurement

    assert (found.leader, found.leader_votes, found.runner_up_votes) == (leader, first, second)
    assert tally.tied is tied


@pytest.mark.parametrize("seed", range(20))
def test_incremental_is_from_scratch(seed: int) -> None:
    """After each of 300 votes every measure is what counting from scratch gives."""
    chance = Random(seed)
    tally, seen = Tally(), Counter[str]()

    for _ in range(300):
        answer = str(int(12 * chance.random() ** 2))
        measured = tally.add(answer)
        seen[answer] += 1

        ranked = tuple(sorted(seen.values(), reverse=True))
        bits = entropy(ranked)
        assert (measured.leader, measured.leader_votes) == seen.most_common(1)[0]
        assert measured.runner_up_votes == (*ranked, 0)[1]
        assert (measured.votes, measured.distinct) == (sum(ranked), len(ranked))
        assert measured.confidence == ranked[0] / sum(ranked)
        assert measured.entropy == pytest.approx(bits, abs=1e-12)
        assert measured.normalized_entropy == pytest.approx(normalized(bits, len(ranked)))
        assert tally.counts == ranked


def test_no_rounding_error_is_entropy() -> None:
    """It is 0 however often the only answer is repeated, and normalized never above 1."""
    found = tally_of("A" * 1000).measurement

    assert (found.entropy, found.normalized_entropy, found.confidence) == (0.0, 0.0, 1.0)
    assert normalized(1.0000000000000002, 2) == 1.0


@pytest.mark.parametrize(
    ("counts", "bits", "scaled"),
    [
        ((), 0.0, 0.0),
        ((5,), 0.0, 0.0),
        ((1, 1), 1.0, 1.0),
        ((4, 1), 0.721928, 0.721928),
        ((2, 2, 1), 1.521928, 0.960230),
        ((3, 2, 1), 1.459148, 0.920620),
        ((1, 1, 1, 1), 2.0, 1.0),
        ((2, 1, 1, 1), 1.921928, 0.960964),
        ((999, 1), 0.011408, 0.011408),
    ],
)
def test_entropy_in_bits(counts: tuple[int, ...], bits: float, scaled: float) -> None:
    """Entropy is -sum(p log2 p) over the shares; it is scaled by log2 of the distinct answers."""
    assert entropy(counts) == pytest.approx(bits, abs=1e-6)
    assert normalized(entropy(counts), len(counts)) == pytest.approx(scaled, abs=1e-6)


@pytest.mark.parametrize(
    ("classify", "level", "numbers"),
    [
        (classify_entropy, "concentrated", (0.0, 0.2, 0.1 + 0.1 + 1e-16)),
        (classify_entropy, "scattered", (0.2001, 0.7, 0.6 + 0.1 + 1e-16)),
        (classify_entropy, "uniform", (0.7001, 1.0)),
        (classify_uncertainty, "low", (1.0, 0.8)),
        (classify_uncertainty, "medium", (0.7999, 0.6)),
        (classify_uncertainty, "high", (0.5999, 0.0)),
    ],
)
def test_levels(classify: Callable[[float], str], level: str, numbers: tuple[float, ...]) -> None:
    """A level of entropy, or of uncertainty by confidence, reaches up to its own bound."""
    assert {classify(number) for number in numbers} == {level}


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
        # 0.55 - 0.4 is above 0.15 in binary floating point.
        (0.55, 0.4, "binary"),
    ],
)
def test_consensus_patterns(first: float, second: float, pattern: str) -> None:
    """A binary split is looked for first, then 0.8 is strong, 0.4 emerging, less divided."""
    assert classify_consensus(first, second) == pattern


def test_the_first_table_moved() -> None:
    """The five answers of the source's first table have the series that its formulas give."""
    tally = Tally()
    measured = [tally.add(answer) for answer in "AAABA"]

    found = analyse(
        [one.confidence for one in measured], [one.normalized_entropy for one in measured]
    )

    assert found.confidence_evolution == (1.0, 1.0, 1.0, 0.75, 0.8)
    assert found.entropy_evolution == pytest.approx((0, 0, 0, 0.811278, 0.721928), abs=1e-6)
    assert found.convergence_rate == pytest.approx(-0.04)
    assert found.final_stability == pytest.approx(0.75)
    assert found.entropy_convergence_rate == pytest.approx(0.144386, abs=1e-6)
    assert found.entropy_final_stability == pytest.approx(0.188722, abs=1e-6)
    assert analyse([], []) == ConvergenceAnalysis()


@pytest.mark.parametrize(
    ("series", "change", "steady"),
    [
        ((), 0.0, 1.0),
        ((1.0,), 0.0, 1.0),
        ((0.5, 0.67, 0.75, 0.8, 0.8), 0.06, 0.95),
        ((1.0, 0.92, 0.81, 0.72, 0.72), -0.056, 0.91),
        ((0.2, 0.9), 0.35, 1.0),
        ((0.2, 0.9, 0.2), 0.0, 0.3),
        ((0.9, 0.2, 0.5, 0.5, 0.5), -0.08, 1.0),
    ],
)
def test_rate_and_stability(series: tuple[float, ...], change: float, steady: float) -> None:
    """A rate divides by the length of the series; a stability is 1 less the last three's spread."""
    assert (rate(series), stability(series)) == pytest.approx((change, steady))


def test_a_thousand_answers_in_five_milliseconds() -> None:
    """Every measure after each of 1,000 answers over 50 distinct ones takes under 5 ms in all."""
    answers = [str(index % 50) for index in range(1_000)]

    def count() -> None:
        counted = Tally()
        for answer in answers:
            counted.add(answer)

    assert min(repeat(count, number=1, repeat=10)) < 0.005
