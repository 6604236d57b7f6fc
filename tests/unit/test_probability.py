"""A calibration map's knots, and the probability that is read off between them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from mull.sampling.probability import CalibrationMap, Knot, probability
from mull.sampling.prompts import hash_prompt

KNOTS = [Knot(0.5, 0.2), Knot(0.75, 0.4), Knot(0.875, 0.9)]


@pytest.mark.parametrize(
    ("first", "votes", "expected"),
    [
        # 3 of 3 votes are 3.5 of 4; 2 of 3 are 0.625, half way between two knots.
        (3, 3, 0.9),
        (2, 3, 0.3),
        (1, 2, 0.2),
        # Beyond the first and the last knot nothing is known but theirs.
        (1, 5, 0.2),
        (10, 10, 0.9),
    ],
)
def test_probability(first: int, votes: int, expected: float) -> None:
    """It is linear between knots, and constant beyond them."""
    assert probability(KNOTS, first, votes) == pytest.approx(expected)
    assert probability(KNOTS[-1:], first, votes) == 0.9


@pytest.mark.parametrize(
    "knots",
    [[], [(0.5, 0.2), (0.5, 0.3)], [(0.5, 0.2), (0.6, 0.1)], [(0.5, 1.2)], [(0.1, 0.1)] * 51],
)
def test_knots_that_are_no_map(knots: list[tuple[float, float]]) -> None:
    """Shares rise, probabilities do not fall, and there are 1 to 50 knots."""
    field = CalibrationMap.model_fields["knots"]

    with pytest.raises(ValidationError):
        TypeAdapter(field.rebuild_annotation()).validate_python(knots)


def test_the_prompt_s_hash() -> None:
    """It is of all that is asked but the question: the template, and how to reply."""
    hashes = {
        hash_prompt(template, kind) for template in (None, "Think.") for kind in ("exact", "number")
    }

    assert len(hashes) == 4
    assert hash_prompt("Think.", "exact") == hash_prompt("Think.\n\n{question}", "exact")
