"""What a request may ask for, and how a refusal is worded."""

from typing import Any

import pytest
from pydantic import ValidationError

from reflection.run import explain
from reflection.sampling.request import SelfConsistencyRequest


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"question": " \n"}, "question: should have at least 1 character"),
        ({"question": "x" * 100_001}, "question: 100,001 bytes exceed the limit of 100,000"),
        (
            {"question": "x" * 50_000, "max_responses": 401},
            "are 20,050,000 bytes of history, and at most 20,000,000 are taken",
        ),
        (
            {"question": "x", "prompt_template": "y" * 20_000, "max_responses": 1_000},
            "are 20,001,000 bytes of history",
        ),
        (
            {"question": "x", "answers": "llm", "max_responses": 101},
            "max_responses is at most 50 where answers are compared by a model",
        ),
        ({"question": "x", "max_concurrency": 33}, "max_concurrency: should be less than"),
        ({"question": "x", "temperature": float("nan")}, "temperature: "),
        ({"question": "x", "budget_usd": 0}, "budget_usd: "),
        ({"question": "x", "colour": 1}, "colour: no such field"),
        ({}, "question: missing"),
    ],
)
def test_a_refusal_names_the_field(fields: dict[str, Any], said: str) -> None:
    """Each wrong field is refused in one line that says why."""
    with pytest.raises(ValidationError) as caught:
        SelfConsistencyRequest(**fields)

    assert said in explain(caught.value)
    assert "\n" not in explain(caught.value)
