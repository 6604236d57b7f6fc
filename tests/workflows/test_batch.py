"""Batches through a real server: which runs are made, how often, and what becomes of each."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import CancelledError

import worker
from activities.language_model.layers import PacedModel
from adapters import QUEUES
from bench.batch import InstantModel
from mull.batch.result import BatchResult
from mull.connection import TASK_QUEUE, connect
from mull.critique.result import ReflectOnResultResult
from tests.conftest import begin, failure, until, until_asked
from tests.workflows import batches
from tests.workflows.batches import (
    batch_of,
    begin_batch,
    draft_reader,
    judging,
    run_batch,
    served,
    standing,
)


def statuses(result: BatchResult) -> list[str]:
    return [each.status for each in result.runs]


async def test_every_item_by_every_variant_as_often_as_it_says(client: Client) -> None:
    model = draft_reader()
    request = batch_of("score 0.4", "score 0.9") | {"variants": [judging("a", 2), judging("b")]}

    result = await run_batch(client, model, request)

    made = [(each.item, each.variant, each.repeat) for each in result.runs]
    assert made == [(0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", 0), (1, "a", 1), (1, "b", 0)]
    assert statuses(result) == ["completed"] * 6
    assert (result.completed, result.stop_reason, len(model.calls)) == (6, "completed", 6)


async def test_a_run_that_fails_fails_nothing_else(client: Client) -> None:
    texts = ["score 0.4", "score 0.9"]
    writing = judging("writing") | {"takes": {"query": "draft"}}
    wrong = judging("wrong", colour="secret")
    request = batch_of(*texts) | {"variants": [judging(), writing, wrong]}

    result = await run_batch(client, draft_reader(), request)

    assert statuses(result) == ["completed", "failed", "failed"] * 2
    errors = [run.error for run in result.runs[1:3]]
    assert errors == [
        "NotFoundError: nothing is written here",
        "InvalidRequest: malformed ReflectOnResultRequest: colour: no such field",
    ]
    assert (result.completed, result.failed, result.tokens) == (2, 4, None)


async def test_no_more_runs_at_once_than_asked_for(client: Client) -> None:
    model = draft_reader(delay=0.3)

    result = await run_batch(client, model, batch_of(*["score 0.4"] * 6, max_concurrency=2))

    assert (result.completed, model.most) == (6, 2)


@pytest.mark.parametrize(
    ("bound", "made"), [({"budget_tokens": 250}, 2), ({"budget_usd": 0.031}, 3)]
)
async def test_what_does_not_fit_a_budget_is_not_started(
    client: Client, bound: dict[str, float], made: int
) -> None:
    model = draft_reader()

    result = await run_batch(client, model, batch_of(*["score 0.4"] * 5, **bound))

    assert (result.completed, result.not_started, len(model.calls)) == (made, 5 - made, made)
    assert result.stop_reason == "budget"
    assert statuses(result).count("not_started") == 5 - made


async def test_it_continues_as_new_with_the_same_result(
    client: Client, spans: InMemorySpanExporter
) -> None:
    texts = ["score 0.1", "score 0.2", "score 0.3", "score 0.4", "score 0.5"]
    whole = await run_batch(client, draft_reader(), batch_of(*texts))
    spans.clear()
    model = draft_reader()

    async with served(client, model):
        handle = await begin_batch(client, batch_of(*texts, runs_per_execution=2))
        result = await batches.ended(handle)

    first = await client.get_workflow_handle(handle.id, run_id=handle.result_run_id).describe()
    assert first.status is WorkflowExecutionStatus.CONTINUED_AS_NEW
    runs, one_history = (
        [run.model_copy(update={"workflow_id": ""}) for run in found.runs]
        for found in (result, whole)
    )
    assert runs == one_history
    assert (result.tokens, result.total, len(model.calls)) == (whole.tokens, 5, 5)
    finished = spans.get_finished_spans()
    executions = [each for each in finished if each.name == "invoke_workflow BatchWorkflow"]
    assert len(executions) == 3
    assert all(each.status.is_ok or each.status.is_unset for each in executions)
    assert len({each.context.trace_id for each in finished if each.context}) == 1


async def test_runs_that_are_carried_are_not_made_again(client: Client) -> None:
    model = draft_reader()
    carried = {"item": 0, "variant": "judge", "repeat": 0, "workflow_id": "earlier"}
    carried |= {"status": "completed", "tokens": 7, "cost_usd": 0.5}

    result = await run_batch(client, model, batch_of("score 0.1", "score 0.2", carried=[carried]))

    assert [each.workflow_id == "earlier" for each in result.runs] == [True, False]
    assert (result.tokens, len(model.calls)) == (107, 1)


async def test_a_run_s_own_result_is_read_by_its_id(client: Client) -> None:
    async with served(client, draft_reader()):
        handle = await begin_batch(client, batch_of("score 0.4", "score 0.9"))
        result = await batches.ended(handle)
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


async def test_finishing_it_keeps_the_runs_that_have_ended(client: Client) -> None:
    """Those in flight are cancelled, those not begun are named, and the ended ones count.

    Until then `progress` counts what has ended, failed and runs, and what it cost.
    """
    model = draft_reader()
    async with served(client, model):
        request = batch_of("score 0.4", "slow", "slow", "score 0.9", max_concurrency=2)
        handle = await begin_batch(client, request)
        seen = await standing(handle, done=1, running=2)
        await until_asked(model, 3)
        await handle.execute_update("finish_now", {"author": "Ada"})
        result = await batches.ended(handle)

    assert (seen.total, seen.failed, seen.tokens, seen.stop_reason) == (4, 0, 100, None)
    assert statuses(result) == ["completed", "cancelled", "cancelled", "not_started"]
    assert result.stop_reason == "finished_by_person"
    assert result.stop_explanation == "finished by Ada"


async def test_cancelling_it_cancels_its_runs(client: Client) -> None:
    model = draft_reader()
    async with served(client, model):
        handle = await begin_batch(client, batch_of("slow", "slow"))
        await until_asked(model, 2)
        await handle.cancel()
        await failure(handle, CancelledError)
        children = [client.get_workflow_handle(f"{handle.id}/{place}-judge-0") for place in (0, 1)]
        found = [(await each.describe()).status for each in children]

    assert found == [WorkflowExecutionStatus.CANCELED] * 2


RATE = 2.0


async def test_a_question_does_not_wait_behind_a_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where 64 calls of a batch wait, two a second, the two of a question are among the next 32.

    Behind them they would be the last. The pace is that of the worker and of its queue, in a
    namespace of its own, since the server remembers it.
    """
    del client  # for its server
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "paced")
    beside, instant = await connect(), InstantModel()
    model = PacedModel(instant, "scripted", RATE)
    options = {"max_responses": 2, "rule": "fixed"}
    variant = {"name": "ask", "workflow": "SelfConsistencyWorkflow", "request": options}
    request = {"variants": [variant], "pages": 1, "max_concurrency": 32}
    items = [{"question": f"What is half of {number}?"} for number in range(100)]
    async with worker.running(worker.build(beside, QUEUES, model, calls_per_second=RATE)):
        batch = await beside.start_workflow(
            "BatchWorkflow", request, id="beside", task_queue=TASK_QUEUE
        )
        await batch.execute_update("add_page", {"number": 0, "items": items})
        await until(lambda: instant.calls >= 8)

        before = instant.calls
        question = await begin(beside, {"question": "How much?", **options})
        await question.result()
        between = instant.calls - before
        stands = await batch.query("progress")
        await batch.cancel()
        page = beside.get_workflow_handle("beside/page-0")
        await failure(page, CancelledError)

    assert stands["running"] == 100
    assert between < 32


def test_five_hundred_lines() -> None:
    """Every line is answered once, in histories that stay small, and memory does not grow.

    The worker has a process of its own, with no memory but its own.
    """
    command = [sys.executable, "-m", "bench.batch", "--lines", "500"]
    kept: dict[str, Any] = {"capture_output": True, "text": True}
    # On a busy machine a worker may be silent for longer than by default, and is not lost.
    kept["env"] = {**os.environ, "MULL_HEARTBEAT_SECONDS": "120"}
    printed = subprocess.run(command, check=True, **kept)
    found = json.loads(printed.stdout)
    print(found)

    assert (found["completed"], found["calls"]) == (500, 500)
    assert found["most_events"] < 375
    assert found["most_bytes"] < 250_000
    assert found["memory_mb_at_the_end"] < found["memory_mb_after_a_tenth"] + 15
