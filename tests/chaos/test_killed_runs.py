"""Workers that are killed outright amid runs of each kind, as the kernel or an eviction does it."""

import asyncio
import json
import uuid
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateStage
from temporalio.common import WorkflowIDConflictPolicy

from mull.connection import TASK_QUEUE
from mull.critique.result import ReflectOnResultResult
from mull.sampling.result import Decision, SelfConsistencyResult
from tests.chaos.rebuilt import assert_whole
from tests.chaos.runs import lasting, replied
from tests.chaos.working import assert_decided, working
from tests.conftest import ask, begin, begin_reflecting, ended, until, until_step
from tests.scripted import ScriptedModel, judgement
from tests.scripted_endpoint import Body, Scripted
from tests.workflows import batches
from tests.workflows.batches import begin_batch, drafts, judging

ANSWERS = ["7", "8", "7", "9", "7", "7", "8", "7", "7", "7"]
REQUEST = {"question": "What is it?", "seed": 0, "answers": "number", "max_responses": 10}


def said(request: Body) -> Scripted:
    seed = request["seed"]
    text = json.dumps({"reasoning": "counted", "answer": ANSWERS[seed]})
    return Scripted(text=text, delay=0.2 + 0.3 * (seed % 5))


def untimed(result: SelfConsistencyResult) -> list[Decision]:
    """Every decision, but for when it was taken."""
    return [each.model_copy(update={"at": None}) for each in result.decisions]


@pytest.mark.parametrize("kill_after", [[3], [2, 7]])
async def test_a_killed_worker_changes_nothing(
    client: Client, tmp_path: Path, kill_after: list[int]
) -> None:
    undisturbed = await ask(client, ScriptedModel(sample=ANSWERS), **REQUEST)
    traces = tmp_path / "spans"
    async with working(said, traces) as place:
        handle = await begin(client, REQUEST)
        for calls in kill_after:
            await until(lambda: len(place.requests) >= calls)
            await asyncio.sleep(0.5)
            place.replace()
        result = SelfConsistencyResult.model_validate(await ended(handle))
    made = Counter(each["seed"] for each in place.requests)

    assert untimed(result) == untimed(undisturbed)
    assert result.final_answer == undisturbed.final_answer == "7"
    assert result.answer_distribution == undisturbed.answer_distribution
    assert (result.waves, result.usage.calls) == (undisturbed.waves, undisturbed.usage.calls)
    attempts = {each.index: each.attempts for each in result.responses}
    assert all(made[index] <= attempts[index] for index in attempts)
    assert sum(attempts.values()) > len(attempts)
    assert_one_id_each(traces)
    names = await assert_decided(client, handle, traces, result)
    assert names["chat openai/scripted"] == len(result.responses)


def assert_one_id_each(traces: Path) -> None:
    """No event of the run has two span ids, though several workers wrote spans of it."""
    ids: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for line in traces.read_text().splitlines():
        span = json.loads(line)
        known = span["attributes"]
        names = ("mull.wave", "mull.sample.index", "mull.attempt")
        ids[span["name"], *(known.get(name) for name in names)].add(span["context"]["span_id"])
    assert ids
    assert {event: found for event, found in ids.items() if len(found) > 1} == {}


RUNS, PAGES = 8, 3


def judged(request: Body) -> Scripted:
    prompt = request["messages"][-1]["content"]
    score = float(prompt.partition('Draft: "score ')[2].partition('"')[0])
    return Scripted(judgement(prompt, score), delay=0.4)


async def test_a_killed_worker_changes_no_batch(client: Client, tmp_path: Path) -> None:
    items = drafts(*(f"score 0.{place}" for place in range(1, RUNS + 1)))
    limits = {"variants": [judging()], "max_concurrency": 2, "runs_per_execution": 5}
    async with working(judged, tmp_path / "spans") as place:
        handle = await begin_batch(client, {**limits, "items": items})
        paged = await begin_batch(client, {**limits, "pages": PAGES})
        await paged.execute_update("add_page", {"number": 0, "items": items[:3]})
        await paged.execute_update("add_page", {"number": 1, "items": items[3:6]})
        await until(lambda: len(place.requests) >= 6)
        place.kill()
        last = {"number": 2, "items": items[6:]}
        late = asyncio.create_task(paged.execute_update("add_page", last))
        place.start()
        await late
        result, whole = await batches.ended(handle), await batches.ended(paged)

    found = await assert_whole(client, handle.id, tmp_path / "spans")
    assert sum(len(one.children) for one in found) == RUNS
    assert [(each.item, each.status) for each in result.runs] == [
        (place, "completed") for place in range(RUNS)
    ]
    assert result.tokens == whole.tokens == 18 * RUNS
    assert (whole.completed, whole.total) == (RUNS, RUNS)
    assert 2 * RUNS <= len(place.requests) <= 2 * RUNS + 4


HANGS = 100


class Model:
    """Say back what was said last; hang the first time that it is `b`."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Body) -> Scripted:
        said = str(request["messages"][-1]["content"])
        self.asked[said] += 1
        return Scripted(f"re {said}", delay=HANGS if self.asked == {"a": 1, "b": 1} else 0)


async def send(client: Client, session: str, message: str) -> Any:
    """Send a message, with the start of the session if there is none; return what awaits it."""
    begun = WithStartWorkflowOperation[Any, Any](
        "SessionWorkflow",
        {"tools": [], "turns_per_execution": 2, "budget_seconds": 300.0},
        id=session,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    return await client.start_update_with_start_workflow(
        "send",
        {"message": message},
        id=f"message-{message}",
        start_workflow_operation=begun,
        wait_for_stage=WorkflowUpdateStage.ACCEPTED,
    )


async def tasks_lost(client: Client, workflow_id: str, run_id: str) -> int:
    """Count the workflow tasks that nobody took, since they were offered to a dead worker."""
    run = client.get_workflow_handle(workflow_id, run_id=run_id)
    kinds = [event.event_type async for event in run.fetch_history_events()]
    return kinds.count(EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)


async def test_a_killed_worker_loses_no_message(client: Client, tmp_path: Path) -> None:
    """Each is answered once and in order, also in a new history; only a hung call is paid twice.

    No task waits for the dead worker: neither the turn's after its call, nor then the session's.
    """
    session, model = f"session-{uuid.uuid4().hex}", Model()
    async with working(model, tmp_path / "traces") as place:
        first = await ended(await send(client, session, "a"))
        taken = await send(client, session, "b")
        await until(lambda: model.asked["b"])
        place.replace()
        second = await ended(taken)
        third = await ended(await send(client, session, "c"))
        again = await ended(await send(client, session, "b"))

    found = await assert_whole(client, session, tmp_path / "traces")
    assert [await tasks_lost(client, one.workflow_id, one.run_id) for one in found] == [0] * 5
    assert [len(one.children) for one in found if one.workflow_id == session] == [2, 1]
    answers = [(one["number"], one["answer"]) for one in (first, second, third, again)]
    assert answers == [(1, "re a"), (2, "re b"), (3, "re c"), (2, "re b")]
    assert model.asked == {"a": 1, "b": 2, "c": 1}


ACCEPT = {"accept": True, "author": "ann"}
FIELDS: dict[str, Any] = {
    "max_revisions": 2,
    "judges": ["openai/a", "openai/b"],
    "guardrails": ["default"],
    "review_below": 0.6,
}


def slow(request: Body) -> Scripted:
    """Take the time in which a worker can be killed."""
    return replace(replied(request), delay=0.5)


def key(request: Body) -> tuple[str, str]:
    return request["model"], request["messages"][0]["content"]


async def run(
    client: Client, traces: Path, kills: list[int]
) -> tuple[ReflectOnResultResult, Counter[tuple[str, str]]]:
    """Run while the worker is killed after so many calls each, and then once more as it waits."""
    async with working(slow, traces) as place:
        handle = await begin_reflecting(client, **FIELDS)
        for calls in kills:
            await until(lambda: len(place.requests) >= calls)
            await asyncio.sleep(0.25)
            place.replace()
        await until_step(handle, "waiting_for_review")
        if kills:
            place.replace()
        await handle.execute_update("review", ACCEPT)
        result = ReflectOnResultResult.model_validate(await ended(handle))
    await assert_decided(client, handle, traces, result)
    return result, Counter(map(key, place.requests))


async def test_a_worker_killed_at_each_step_changes_nothing(client: Client, tmp_path: Path) -> None:
    expected, _ = await run(client, tmp_path / "undisturbed", [])

    for kills in ([2, 8], [4]):
        result, made = await run(client, tmp_path / f"{kills}", kills)

        assert lasting(result.model_dump(mode="json")) == lasting(expected.model_dump(mode="json"))
        assert (result.draft, result.stop_reason) == ("draft two", "accepted_by_person")
        lost = made.total() - len(made)
        assert 0 <= lost <= 2 * len(kills)
        assert result.usage.parts["retried"].calls >= lost
