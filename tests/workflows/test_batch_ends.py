"""Batches that are refused, looked at, finished or cancelled before they are done."""

import asyncio
import gc
import uuid
from typing import Any

import pytest
from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.client import WorkflowHandle as Handle
from temporalio.exceptions import CancelledError

from reflection.batch.result import BatchProgress, BatchResult
from tests.conftest import failure
from tests.scripted import ScriptedModel
from tests.workflows.batches import (
    DraftReader,
    batch_of,
    begin_batch,
    judging,
    served,
)
from workflows.batch import BatchWorkflow


def statuses(result: BatchResult) -> list[str]:
    return [each.status for each in result.runs]


async def standing(handle: Handle[Any, Any]) -> BatchProgress:
    return BatchProgress.model_validate(await handle.query("progress"))


async def until_done(handle: Handle[Any, Any], runs: int) -> None:
    async with asyncio.timeout(30):
        while (await standing(handle)).done < runs:
            await asyncio.sleep(0.1)


async def until_judging(model: DraftReader, calls: int) -> None:
    async with asyncio.timeout(30):
        while len(model.calls) < calls:
            await asyncio.sleep(0.05)


async def test_cancelling_it_cancels_its_runs(client: Client) -> None:
    """A cancelled batch leaves no run going on."""
    model = DraftReader()
    async with served(client, model):
        handle = await begin_batch(client, batch_of("slow", "slow"))
        await until_judging(model, 2)

        await handle.cancel()

        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), 30)
        children = [client.get_workflow_handle(f"{handle.id}/{place}-judge-0") for place in (0, 1)]
        found = [(await each.describe()).status for each in children]

    assert isinstance(caught.value.cause, CancelledError)
    assert found == [WorkflowExecutionStatus.CANCELED] * 2


async def test_finishing_it_keeps_the_runs_that_have_ended(client: Client) -> None:
    """Those in flight are cancelled, those not begun are named, and the ended ones count."""
    model = DraftReader()
    async with served(client, model):
        request = batch_of("score 0.4", "slow", "slow", "score 0.9", max_concurrency=2)
        handle = await begin_batch(client, request)
        await until_judging(model, 3)
        await until_done(handle, 1)

        await handle.execute_update("finish_now", {"author": "Ada"})
        result = BatchResult.model_validate(await asyncio.wait_for(handle.result(), 30))

    assert statuses(result) == ["completed", "cancelled", "cancelled", "not_started"]
    assert (result.stop_reason, result.stop_explanation) == (
        "finished_by_person",
        "finished by Ada",
    )


async def test_where_it_stands(client: Client) -> None:
    """While it goes on, `progress` counts what has ended, failed and runs, and what it cost."""
    model = DraftReader()
    async with served(client, model):
        handle = await begin_batch(client, batch_of("score 0.4", "slow", "score 0.9"))
        await until_judging(model, 3)
        await until_done(handle, 2)

        seen = await standing(handle)

        assert (seen.total, seen.done, seen.running, seen.failed) == (3, 2, 1, 0)
        assert (seen.tokens, seen.stop_reason) == (200, None)
        await handle.execute_update("finish_now")
        await handle.result()


def test_its_public_names() -> None:
    """The type, its query and its update have the names that other clients call."""
    definition = vars(BatchWorkflow)["__temporal_workflow_definition"]

    assert definition.name == "BatchWorkflow"
    assert (sorted(definition.queries), sorted(definition.updates)) == (
        ["progress"],
        ["finish_now"],
    )
    assert list(definition.failure_exception_types) == [ValidationError]


async def test_an_id_that_is_too_long_is_refused(client: Client) -> None:
    """The ids of its runs are made of it, and stand in every record."""
    async with served(client, ScriptedModel([])):
        handle = await client.start_workflow(
            "BatchWorkflow", batch_of("score 0.4"), id="b" * 101, task_queue="mull"
        )
        error = await failure(handle)

    assert (error.type, "over 100 bytes" in error.message) == ("InvalidRequest", True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_start_without_its_one_request_fails_at_once(client: Client) -> None:
    """Whoever starts it with nothing is told what to give."""
    async with served(client, ScriptedModel([])):
        handle = await client.start_workflow(
            "BatchWorkflow", args=[], id=f"test-{uuid.uuid4()}", task_queue="mull"
        )
        error = await failure(handle)
    # The SDK leaves a coroutine behind that it never awaits, here and not in a later test.
    gc.collect()

    assert '{"items": "..."}' in error.message


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({}, "items: missing"),
        (batch_of("secret", colour="secret"), "colour: no such field"),
        (batch_of("secret") | {"variants": [judging(colour="secret")]}, "colour: no such field"),
        ("secret", "BatchRequest"),
    ],
)
async def test_a_malformed_batch_fails_at_once(client: Client, request_: Any, said: str) -> None:
    """The failure names the field and never quotes the input."""
    async with served(client, ScriptedModel([])):
        error = await failure(await begin_batch(client, request_))

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert "secret" not in error.message
