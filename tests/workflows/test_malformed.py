"""Requests of other clients that are no requests: they fail at once, by the field's name."""

import gc
import uuid

import pytest
from temporalio.client import Client

from tests.conftest import begin, failure, served
from tests.scripted import ScriptedModel

SUM = "What is the sum of the first 10 prime numbers?"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"question": "secret-7", "colour": "secret-8"}, "colour: no such field"),
        ({}, "question: missing"),
        ({"question": "  "}, "question: "),
        ({"question": "secret-7", "entropy_mode": "secret-8"}, "entropy_mode: should be"),
        (
            {"question": "secret-7", "min_responses": 6, "max_responses": 5},
            "min_responses (6) is above max_responses (5)",
        ),
        ({"question": "secret-7", "confidence_threshold": 1.5}, "confidence_threshold: "),
        ({"question": "secret-7" * 100_000}, "question: "),
        ("secret-7", "SelfConsistencyRequest"),
    ],
)
async def test_a_malformed_request_fails_at_once(
    client: Client, request_: object, said: str
) -> None:
    """The failure names the field and never quotes the input."""
    async with served(client, ScriptedModel([])):
        error = await failure(await begin(client, request_))

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize("inputs", [[], [{"question": SUM}, {"question": SUM}], [b"rubbish"]])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_start_without_its_one_request_fails_at_once(
    client: Client, inputs: list[object]
) -> None:
    """No input, two inputs and bytes are told what to give."""
    async with served(client, ScriptedModel([])):
        handle = await client.start_workflow(
            "SelfConsistencyWorkflow", args=inputs, id=f"test-{uuid.uuid4()}", task_queue="mull"
        )
        error = await failure(handle)
    # The SDK leaves a coroutine behind that it never awaits, here and not in a later test.
    gc.collect()

    assert '{"question": "..."}' in error.message
