"""The seven tables of the source, row by row from `min_responses` on.

Where a table contradicts the pseudo-code the expected value is the pseudo-code's: in table 1 a
normalized entropy of 0.72 is uniform, in table 3 seven responses are binary, in table 5 the
entropies of 7 to 10 responses are those of the formula. What tables 2 and 6 shorten ("Exercise",
"AGI") is one answer all the same.
"""

from typing import NamedTuple

import pytest

from mull.sampling.result import classify_consensus, classify_entropy
from mull.sampling.rules import Stopping, StoppingRule
from tests.unit.runs import tally_of


class Row(NamedTuple):
    """One row: after so many responses, what is measured and decided."""

    responses: int
    confidence: float
    entropy: float
    normalized: float
    level: str
    consensus: str
    stop_reason: str | None


PRIME_SUM = ("129", "129", "129", "128", "129")
AGREED = Row(5, 0.8, 0.7219, 0.7219, "uniform", "strong", "rule")
BACK_PAIN = (
    "Physical therapy", "Exercise and stretching", "Physical therapy", "Medication management",
    "Exercise and stretching", "Physical therapy", "Exercise and stretching",
    "Physical therapy",
)  # fmt: skip
IS_ONE_PRIME = ("No", "Yes", "No", "Yes", "No", "Yes", "No", "No", "No", "No")
TWO_AND_TWO = ("4", "4", "4", "4", "4")
BREAKTHROUGH = (
    "Artificial General Intelligence", "Quantum computing", "Fusion energy",
    "Brain-computer interfaces", "Artificial General Intelligence", "Quantum computing",
    "Fusion energy", "Artificial General Intelligence", "Artificial General Intelligence",
    "Brain-computer interfaces",
)  # fmt: skip

TABLES: dict[str, tuple[Stopping, tuple[str, ...], list[Row]]] = {
    "1 basic convergence": (Stopping(rule="combined", max_responses=10), PRIME_SUM, [AGREED]),
    "2 resource limit": (
        Stopping(rule="combined", max_responses=8),
        BACK_PAIN,
        [
            Row(5, 0.4, 1.5219, 0.9602, "uniform", "binary", None),
            Row(6, 0.5, 1.4591, 0.9206, "uniform", "emerging", None),
            Row(7, 0.4286, 1.4488, 0.9141, "uniform", "binary", None),
            Row(8, 0.5, 1.4056, 0.8869, "uniform", "binary", "max_responses"),
        ],
    ),
    "3 binary consensus": (
        Stopping(rule="combined", max_responses=10),
        IS_ONE_PRIME,
        [
            Row(5, 0.6, 0.9710, 0.9710, "uniform", "emerging", None),
            Row(6, 0.5, 1.0, 1.0, "uniform", "binary", None),
            Row(7, 0.5714, 0.9852, 0.9852, "uniform", "binary", None),
            Row(8, 0.625, 0.9544, 0.9544, "uniform", "emerging", None),
            Row(9, 0.6667, 0.9183, 0.9183, "uniform", "emerging", None),
            Row(10, 0.7, 0.8813, 0.8813, "uniform", "emerging", "max_responses"),
        ],
    ),
    "4 early high confidence": (
        Stopping(rule="combined", max_responses=10),
        TWO_AND_TWO,
        [Row(5, 1.0, 0.0, 0.0, "concentrated", "strong", "rule")],
    ),
    "5 entropy only": (
        Stopping(rule="entropy_only", max_responses=10),
        (*PRIME_SUM, "129", "129", "129", "129", "129"),
        [
            Row(5, 0.8, 0.7219, 0.7219, "uniform", "strong", None),
            Row(6, 0.8333, 0.6500, 0.6500, "scattered", "strong", None),
            Row(7, 0.8571, 0.5917, 0.5917, "scattered", "strong", None),
            Row(8, 0.875, 0.5436, 0.5436, "scattered", "strong", None),
            Row(9, 0.8889, 0.5033, 0.5033, "scattered", "strong", None),
            Row(10, 0.9, 0.4690, 0.4690, "scattered", "strong", "max_responses"),
        ],
    ),
    "6 low confidence": (
        Stopping(rule="combined", max_responses=10),
        BREAKTHROUGH,
        [
            Row(5, 0.4, 1.9219, 0.9610, "uniform", "emerging", None),
            Row(6, 0.3333, 1.9183, 0.9591, "uniform", "divided", None),
            Row(7, 0.2857, 1.9502, 0.9751, "uniform", "divided", None),
            Row(8, 0.375, 1.9056, 0.9528, "uniform", "divided", None),
            Row(9, 0.4444, 1.8366, 0.9183, "uniform", "emerging", None),
            Row(10, 0.4, 1.9219, 0.9610, "uniform", "emerging", "max_responses"),
        ],
    ),
    "7 off": (Stopping(rule="off"), PRIME_SUM, [AGREED]),
    "7 confidence only": (Stopping(rule="confidence_only"), PRIME_SUM, [AGREED]),
    "7 entropy only": (
        Stopping(rule="entropy_only"),
        PRIME_SUM,
        [AGREED._replace(stop_reason=None)],
    ),
    "7 combined": (Stopping(rule="combined"), PRIME_SUM, [AGREED]),
}
ROWS = [
    pytest.param(settings, answers, row, id=f"table {name}, {row.responses} responses")
    for name, (settings, answers, rows) in TABLES.items()
    for row in rows
]


@pytest.mark.parametrize(("settings", "answers", "row"), ROWS)
def test_row(settings: Stopping, answers: tuple[str, ...], row: Row) -> None:
    """Each row has the source's measures, words, decision and stop reason."""
    tally = tally_of(answers[: row.responses])
    measured, verdict = tally.measurement, StoppingRule(settings).decide(tally.counts)

    assert measured.votes == row.responses
    assert measured.confidence == pytest.approx(row.confidence, abs=5e-5)
    assert measured.entropy == pytest.approx(row.entropy, abs=5e-5)
    assert measured.normalized_entropy == pytest.approx(row.normalized, abs=5e-5)
    assert classify_entropy(measured.normalized_entropy) == row.level
    runner_up = measured.runner_up_votes / measured.votes
    assert classify_consensus(measured.confidence, runner_up) == row.consensus
    assert verdict.stop is (row.stop_reason is not None)
    assert verdict.stop_reason == row.stop_reason


def test_a_split_goes_on_for_its_score() -> None:
    """Table 3 goes on at six responses because of its score of 0.35, under 0.72."""
    verdict = StoppingRule(Stopping()).decide((3, 3))

    assert verdict.value == pytest.approx(0.35)
    assert verdict.bound == pytest.approx(0.72)
    assert verdict.reason == "score 0.35 is under 0.72"
