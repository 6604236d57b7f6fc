"""Requests of other clients that are no requests: they fail at once, by the field's name."""

import gc
import uuid

import pytest
from temporalio.client import Client

from tests.conftest import begin, failure
from tests.workflows.multipath.running import researching, served


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"colour": "secret-8"}, "colour: no such field"),
        ({"prompt": " "}, "prompt: "),
        ({"prompt": "secret-9" * 20_000}, "prompt: 160,000 bytes, and at most 100,000 are taken"),
        ({"mode": "secret-10"}, "mode: "),
        ({"passages": 0}, "passages: "),
        ({"max_revisions": 0}, "max_revisions: "),
        ({"max_revisions": 11}, "max_revisions: "),
        ({"language": "cobol"}, "language: "),
        ({"entry": "secret-11()"}, "entry: "),
        ({"tests": {"name": "../x.py", "text": "x"}}, "tests.name: "),
        ({"tests": {"name": "x.py", "text": ""}}, "tests.text: "),
        ({"packages": ["../secret"]}, "packages.0: "),
        ({"limits": {"wall_seconds": 0}}, "limits.wall_seconds: "),
        ({"budget_seconds": 0}, "budget_seconds"),
    ],
)
async def test_a_malformed_request_fails_at_once(
    client: Client, fields: dict[str, object], said: str
) -> None:
    """The failure names the field and never quotes the input."""
    request = {"prompt": "secret-7", **fields}

    async with served(client, researching()):
        error = await failure(await begin(client, request, "MultiPathWorkflow"))

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize("inputs", [[], [{"prompt": "a"}, {"prompt": "b"}], [b"rubbish"]])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_start_without_its_one_request_fails_at_once(
    client: Client, inputs: list[object]
) -> None:
    """No input, two inputs and bytes are told what to give."""
    async with served(client, researching()):
        handle = await client.start_workflow(
            "MultiPathWorkflow", args=inputs, id=f"test-{uuid.uuid4()}", task_queue="mull"
        )
        error = await failure(handle)
    # The SDK leaves a coroutine behind that it never awaits, here and not in a later test.
    gc.collect()

    assert '{"prompt": "..."}' in error.message
