"""Larger waves: calls that are no longer needed are cancelled, and late replies paid."""

from typing import Any

import pytest
from temporalio.client import Client

from tests.conftest import ask
from tests.scripted import ScriptedModel

SLOW = 30.0


@pytest.mark.parametrize(
    ("fields", "delays", "counted", "cancelled", "reason"),
    [
        ({"rule": "predictive"}, [0.1] * 3 + [SLOW] * 7, 3, 7, "rule"),
        ({"rule": "predictive"}, [0.6] + [0.0] * 9, 3, 0, "rule"),
        ({"rule": "fixed"}, [SLOW] * 4 + [0.1] * 6, 6, 4, "decided"),
        ({"rule": "fixed", "answers": "llm"}, [0.3] + [0.0] * 9, 6, 0, "decided"),
    ],
    ids=["the first decide", "the others came first", "fixed", "compared by a model"],
)
async def test_what_is_under_way_is_cancelled_once_the_answer_is_decided(
    client: Client,
    fields: dict[str, Any],
    delays: list[float],
    counted: int,
    cancelled: int,
    reason: str,
) -> None:
    """A late reply has no vote, but its price is counted."""
    model = ScriptedModel(["7"] * 10, delays=delays, same=lambda one, other: one == other)

    result = await ask(client, model, **fields, hurry=10)

    assert (result.final_answer, result.stop_reason) == ("7", reason)
    assert (result.waves, result.total_responses, result.valid_responses) == (
        (10,),
        counted,
        counted,
    )
    parts = result.usage.parts
    assert (parts["cancelled"].calls, parts["generating"].calls) == (cancelled, 10 - cancelled)
    assert len(model.cancelled) == cancelled
