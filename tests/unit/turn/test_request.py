"""What a turn's request takes, and that the rest is refused at once with the field's name."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from mull.request import explain, parse_request
from mull.turn.request import ToolTurnRequest


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "message: missing"),
        ({"message": " "}, "message"),
        ({"message": "x" * 100_001}, "message"),
        ({"message": 5}, "message"),
        ({"think_level": 2}, "think_level"),
        ({"think_level": None}, "think_level"),
        ({"think_level": ["low"]}, "think_level"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": "6"}, "max_steps"),
        ({"max_steps": True}, "max_steps"),
        ({"max_tool_calls": -1}, "max_tool_calls"),
        ({"max_reflections": 1.5}, "max_reflections"),
        ({"max_context_tokens": 200_001}, "max_context_tokens"),
        ({"budget_seconds": 0}, "budget_seconds"),
        ({"budget_seconds": None}, "budget_seconds"),
        ({"reflect_every": -1}, "reflect_every"),
        ({"reflect_on_tool_error": "yes"}, "reflect_on_tool_error"),
        ({"turn_count": 0}, "turn_count"),
        ({"tools": "python"}, "tools"),
        ({"tools": [""]}, "tools.0"),
        ({"approve": [{"tool": "mail", "action": "maybe"}]}, "approve.0.action"),
        ({"review_timeout_seconds": None}, "review_timeout_seconds"),
    ],
)
def test_a_malformed_request_is_refused(given: dict[str, Any], field: str) -> None:
    """No wrong type is converted, and no bound passed."""
    whole = given if "message" in given or not given else {"message": "Why?", **given}

    with pytest.raises(ValidationError) as error:
        parse_request(ToolTurnRequest, json.dumps(whole))

    assert field in explain(error.value)


def test_a_request_with_all_that_it_takes() -> None:
    """Lists come as JSON has them."""
    whole = {
        "message": "Why?", "system": "Be kind.", "context": ["a", "b"],
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        "tools": ["python", "documents"],
        "approve": [{"tool": "mail", "arguments": {"to": "*@home"}, "action": "deny"}],
        "options": {"top_p": 0.9, "stop": ["END"]}, "budget_seconds": 30,
    }  # fmt: skip

    given = parse_request(ToolTurnRequest, json.dumps(whole))

    assert json.loads(given.model_dump_json(include=set(whole), exclude_unset=True)) == whole
