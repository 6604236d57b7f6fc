"""A calibration's numbers as words, and its diagram."""

import pytest

from commands.measuring.judges.diagram import diagram
from commands.measuring.judges.numbers import interval_of, value_of
from reflection.critique.calibration.estimate import Estimate
from reflection.critique.calibration.reliability import reliability


@pytest.mark.parametrize(
    ("found", "signed", "value", "interval"),
    [
        (Estimate(), False, "-", ""),
        (Estimate(value=0.5), False, "0.50", ""),
        (Estimate(value=0.5, low=0.25, high=0.754), False, "0.50", "0.25 to 0.75"),
        (Estimate(value=-0.004, low=-0.1, high=0.1), True, "+0.00", "-0.10 to +0.10"),
    ],
)
def test_numbers(found: Estimate, signed: bool, value: str, interval: str) -> None:
    """Two places, a dash for what is undefined, and no loss where there is none."""
    assert (value_of(found, signed=signed), interval_of(found, signed=signed)) == (value, interval)


def test_a_mark_for_each_bin_with_a_draft_in_it() -> None:
    """The scores 0.05, 0.95 and 0.95 are two marks, the fuller one larger."""
    drawn = diagram(reliability([0.05, 0.95, 0.95], [0, 1, 0.5]), "a/b", 3)

    assert drawn.count("<circle") == 2
    assert "2 with scores of 0.9 to 1: mean score 0.95, mean label 0.75" in drawn
    assert 'r="11.0"' in drawn
    assert 'aria-labelledby="reliability-3"' in drawn


def test_a_judge_s_name_can_do_nothing_to_the_page() -> None:
    """It is escaped where it is put in."""
    drawn = diagram(reliability([0.5], [0.5]), "<script>alert(1)</script>", 1)

    assert "<script>" not in drawn


def test_without_a_score_there_is_nothing_to_draw() -> None:
    """The page says so in the drawing's place."""
    assert "nothing to draw" in diagram(reliability([], []), "a/b", 1)
