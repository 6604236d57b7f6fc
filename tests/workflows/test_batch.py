"""Batches through a real server: which runs are made, how often, and what becomes of each."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import CancelledError

from mull.batch.result import BatchResult
from mull.critique.result import ReflectOnResultResult
from tests.patience import PATIENCE
from tests.workflows.batches import (
    DraftReader,
    batch_of,
    begin_batch,
    drafts,
    judging,
    run_batch,
    served,
)


def statuses(result: BatchResult) -> list[str]:
    return [each.status for each in result.runs]


async def test_every_item_by_every_variant_as_often_as_it_says(client: Client) -> None:
    """Two items by one variant twice and another once are six runs, in order of item."""
    model = DraftReader()
    request = {
        "items": drafts("score 0.4", "score 0.9"),
        "variants": [judging("a", 2), judging("b")],
    }

    result = await run_batch(client, model, request)

    made = [(each.item, each.variant, each.repeat) for each in result.runs]
    assert made == [(0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", 0), (1, "a", 1), (1, "b", 0)]
    assert statuses(result) == ["completed"] * 6
    assert (result.completed, result.stop_reason, len(model.calls)) == (6, "completed", 6)


async def test_a_run_that_fails_fails_nothing_else(client: Client) -> None:
    """Its record says why, and all others go on."""
    texts = ["score 0.4", "score 0.9"]
    writing = judging("writing") | {"takes": {"query": "draft"}}
    wrong = judging("wrong", colour="secret")
    request = batch_of(*texts) | {"variants": [judging(), writing, wrong]}

    result = await run_batch(client, DraftReader(), request)

    assert statuses(result) == ["completed", "failed", "failed"] * 2
    errors = [run.error for run in result.runs[1:3]]
    assert errors == [
        "NotFoundError: nothing is written here",
        "InvalidRequest: malformed ReflectOnResultRequest: colour: no such field",
    ]
    assert (result.completed, result.failed, result.tokens) == (2, 4, None)


async def test_no_more_runs_at_once_than_asked_for(client: Client) -> None:
    """With a concurrency of 2, two of six runs are under way at once, never three."""
    model = DraftReader(delay=0.3)

    result = await run_batch(client, model, batch_of(*["score 0.4"] * 6, max_concurrency=2))

    assert (result.completed, model.most) == (6, 2)


@pytest.mark.parametrize(
    ("bound", "made"),
    [({"budget_tokens": 250}, 2), ({"budget_usd": 0.031}, 3)],
)
async def test_what_does_not_fit_a_budget_is_not_started(
    client: Client, bound: dict[str, float], made: int
) -> None:
    """With runs of 100 tokens and a cent, as many are made as fit, and the others are counted."""
    model = DraftReader()

    result = await run_batch(client, model, batch_of(*["score 0.4"] * 5, **bound))

    assert (result.completed, result.not_started, len(model.calls)) == (made, 5 - made, made)
    assert result.stop_reason == "budget"
    assert statuses(result).count("not_started") == 5 - made


async def test_it_continues_as_new_with_the_same_result(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """In histories of two runs each, the five runs are those of one history, and one trace."""
    texts = ["score 0.1", "score 0.2", "score 0.3", "score 0.4", "score 0.5"]
    whole = await run_batch(client, DraftReader(), batch_of(*texts))
    spans.clear()
    model = DraftReader()

    async with served(client, model):
        handle = await begin_batch(client, batch_of(*texts, runs_per_execution=2))
        result = BatchResult.model_validate(await handle.result())

    first = await client.get_workflow_handle(handle.id, run_id=handle.result_run_id).describe()
    assert first.status is WorkflowExecutionStatus.CONTINUED_AS_NEW
    unnamed = {"workflow_id"}
    assert [each.model_dump(exclude=unnamed) for each in result.runs] == [
        each.model_dump(exclude=unnamed) for each in whole.runs
    ]
    assert (result.tokens, result.total, len(model.calls)) == (whole.tokens, 5, 5)
    finished = spans.get_finished_spans()
    batches = [each for each in finished if each.name == "invoke_workflow BatchWorkflow"]
    assert len(batches) == 3
    assert all(each.status.is_ok or each.status.is_unset for each in batches)
    assert len({each.context.trace_id for each in finished if each.context}) == 1


async def test_runs_that_are_carried_are_not_made_again(client: Client) -> None:
    """What ended in an earlier batch of the same id stands in the result as it was."""
    model = DraftReader()
    carried = {
        "item": 0,
        "variant": "judge",
        "repeat": 0,
        "workflow_id": "earlier",
        "status": "completed",
        "tokens": 7,
        "cost_usd": 0.5,
    }

    result = await run_batch(client, model, batch_of("score 0.1", "score 0.2", carried=[carried]))

    assert [each.workflow_id == "earlier" for each in result.runs] == [True, False]
    assert (result.tokens, len(model.calls)) == (107, 1)


async def test_a_run_s_own_result_is_read_by_its_id(client: Client) -> None:
    """The batch has sums and no text; the child's id leads to its result, tokens to the batch."""
    async with served(client, DraftReader()):
        handle = await begin_batch(client, batch_of("score 0.4", "score 0.9"))
        result = BatchResult.model_validate(await handle.result())
        child = client.get_workflow_handle(
            result.runs[0].workflow_id, result_type=ReflectOnResultResult
        )
        draft, described = await child.result(), await handle.describe()

    assert result.runs[0].workflow_id == f"{handle.id}/0-judge-0"
    assert "score 0.4" not in result.model_dump_json()
    assert (draft.draft, draft.score) == ("score 0.4", 0.4)
    assert [(run.tokens, run.cost_usd) for run in result.runs] == [(100, 0.01), (100, 0.01)]
    assert result.tokens == 200
    assert result.cost_usd == pytest.approx(0.02)
    found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert (found["MullTokens"], found["MullStopReason"]) == (200, "completed")
    assert found["MullCostUsd"] == pytest.approx(0.02)


async def until(handle: WorkflowHandle[Any, Any], **counts: int) -> BatchResult:
    """Wait until this many runs have ended, run or failed, and return where the batch stands."""
    async with asyncio.timeout(PATIENCE):
        while True:
            seen: dict[str, Any] = await handle.query("progress")
            if counts.items() <= seen.items():
                return BatchResult.model_validate(seen)
            await asyncio.sleep(0.1)


async def test_finishing_it_keeps_the_runs_that_have_ended(client: Client) -> None:
    """Those in flight are cancelled, those not begun are named, and the ended ones count.

    Until then `progress` counts what has ended, failed and runs, and what it cost.
    """
    model = DraftReader()
    async with served(client, model):
        request = batch_of("score 0.4", "slow", "slow", "score 0.9", max_concurrency=2)
        handle = await begin_batch(client, request)
        seen = await until(handle, done=1, running=2)
        async with asyncio.timeout(PATIENCE):
            while len(model.calls) < 3:
                await asyncio.sleep(0.05)
        await handle.execute_update("finish_now", {"author": "Ada"})
        result = BatchResult.model_validate(await asyncio.wait_for(handle.result(), PATIENCE))

    assert (seen.total, seen.failed, seen.tokens, seen.stop_reason) == (4, 0, 100, None)
    assert statuses(result) == ["completed", "cancelled", "cancelled", "not_started"]
    assert result.stop_reason == "finished_by_person"
    assert result.stop_explanation == "finished by Ada"


async def test_cancelling_it_cancels_its_runs(client: Client) -> None:
    """A cancelled batch leaves no run going on."""
    model = DraftReader()
    async with served(client, model):
        handle = await begin_batch(client, batch_of("slow", "slow"))
        async with asyncio.timeout(PATIENCE):
            while len(model.calls) < 2:
                await asyncio.sleep(0.05)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), PATIENCE)
        children = [client.get_workflow_handle(f"{handle.id}/{place}-judge-0") for place in (0, 1)]
        found = [(await each.describe()).status for each in children]

    assert isinstance(caught.value.cause, CancelledError)
    assert found == [WorkflowExecutionStatus.CANCELED] * 2
