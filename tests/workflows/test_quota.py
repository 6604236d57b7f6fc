"""The workflow that counts for a bearer key: who gets a place, and how it becomes free."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import CancelledError

import workflows.quota
from mull import quota
from mull.connection import TASK_QUEUE
from mull.quota import FreedPlace, Granted, PlaceTask, QuotaRequest
from tests.conftest import Handle, begin, ended, failure, refusal, served, until
from tests.scripted import SPENT, ScriptedModel


class Key:
    """A key of this test's own, whose runs take places as a server has them taken."""

    def __init__(self, client: Client, runs: int = 2, **limits: float) -> None:
        self.client, self.name = client, f"key-{uuid.uuid4().hex[:8]}"
        self._limits = {"runs_at_once": runs, **limits}

    @property
    def handle(self) -> Handle:
        return self.client.get_workflow_handle(quota.quota_id(self.name))

    async def take(self, run: str) -> Granted:
        begun = WithStartWorkflowOperation[Any, Any](
            quota.WORKFLOW,
            QuotaRequest(name=self.name),
            id=quota.quota_id(self.name),
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        task = PlaceTask.model_validate({"run": run, **self._limits})
        found: Granted = await self.client.execute_update_with_start_workflow(
            "take_place", task, start_workflow_operation=begun, result_type=Granted
        )
        return found

    async def refused(self, run: str) -> tuple[str, float]:
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await self.take(run)
        cause: Any = caught.value.cause
        assert cause.type == quota.EXHAUSTED
        return cause.message, cause.details[0]

    async def held(self) -> QuotaRequest:
        found: QuotaRequest = await self.handle.query("quota", result_type=QuotaRequest)
        return found

    async def runs(self) -> list[str]:
        return [place.run for place in (await self.held()).places]

    async def ask(self, run: str, **fields: Any) -> Handle:
        return await begin(self.client, {"question": "How much?", **fields}, name=run)


def new(*names: str) -> list[str]:
    return [f"{name}-{uuid.uuid4().hex[:8]}" for name in names]


async def test_of_many_that_ask_at_once_so_many_get_a_place(client: Client) -> None:
    """Whoever asks, and in whatever order: here two clients, each for four runs."""
    async with served(client, ScriptedModel()):
        key = Key(client, 3)
        runs = new(*"abcdefgh")
        said = await asyncio.gather(*map(key.take, runs), return_exceptions=True)
        got = [run for run, one in zip(runs, said, strict=True) if isinstance(one, Granted)]

        assert len(got) == 3
        assert set(await key.runs()) == set(got)


async def test_a_run_s_end_frees_its_place_although_its_server_died(client: Client) -> None:
    """Nobody says that it ended: the next one who asks in vain has the workflow look."""
    async with served(client, ScriptedModel(sample=["5"] * 3)):
        key, [dead, more] = Key(client, 1, usd_a_day=4), new("dead", "more")
        assert (await key.take(dead)).place.usd == 4
        await ended(await key.ask(dead, max_responses=3, min_responses=3))
        taken = await key.take(more)

        assert taken.taken
        assert await key.runs() == [more]
        assert (await key.held()).spent_usd == pytest.approx(3 * (SPENT.cost_usd or 0))


async def test_a_run_that_goes_on_keeps_its_place_although_its_server_died(
    client: Client,
) -> None:
    """And while that was seen just now, nobody looks again, nor does a refusal leave a trace."""
    held = asyncio.Event()
    async with served(client, ScriptedModel(sample=["5"] * 3, held=held)):
        key, [dead] = Key(client, 1), new("dead")
        await key.take(dead)
        run = await key.ask(dead, max_responses=3)
        assert (await key.refused("other"))[1] == quota.AGAIN_SECONDS
        before = (await key.handle.describe()).history_length
        for other in new(*"abcd"):
            await key.refused(other)
        after = (await key.handle.describe()).history_length
        held.set()
        await ended(run)

    assert before == after


async def test_what_a_failed_run_spent_is_counted(client: Client) -> None:
    """It has no result, but its record says what its replies cost."""
    async with served(client, ScriptedModel(sample=["5"] * 3, delays=[0, 0, 60])):
        key, [lost] = Key(client, 1, usd_a_day=4), new("lost")
        await key.take(lost)
        run = await key.ask(lost, max_responses=3, max_concurrency=1)
        await until(lambda: run.query("progress"), lambda seen: seen["total_responses"] == 2)
        await run.terminate()
        await key.take(*new("more"))

        assert (await key.held()).spent_usd == pytest.approx(2 * (SPENT.cost_usd or 0))


async def test_what_a_cancelled_run_spent_is_counted_before_the_next_with_its_id(
    client: Client,
) -> None:
    """Else whoever cancels and asks again by the same id would spend without end."""
    async with served(client, ScriptedModel(sample=["5"] * 3, delays=[0, 0, 60])):
        key, [again] = Key(client, 1, usd_a_day=4), new("again")
        first = await key.take(again)
        run = await key.ask(again, max_responses=3, max_concurrency=1)
        await until(lambda: run.query("progress"), lambda seen: seen["total_responses"] == 2)
        await run.cancel()
        await failure(run, CancelledError)
        second = await key.take(again)

        assert (second.taken, second.place.since > first.place.since) == (True, True)
        assert (await key.held()).spent_usd == pytest.approx(2 * (SPENT.cost_usd or 0))


async def test_an_earlier_run_with_the_same_id_frees_nothing(client: Client) -> None:
    """It failed, and its id has a place again, for a run that is about to start."""
    async with served(client, ScriptedModel()):
        key, [again] = Key(client, 1), new("again")
        await failure(await key.ask(again, max_responses=1))
        await key.take(again)

        await key.refused("other")
        assert await key.runs() == [again]


async def test_a_place_without_a_run_is_free_again_after_a_while(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server died before it could start the run."""
    monkeypatch.setattr(quota, "ABSENT", timedelta(seconds=0))
    async with served(client, ScriptedModel()):
        key, [never, more] = Key(client, 1, usd_a_day=1), new("never", "more")
        await key.take(never)
        await key.take(more)
        held = await key.held()

    assert ([place.run for place in held.places], held.spent_usd) == ([more], 0)


async def test_a_new_history_knows_who_has_a_place(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nine runs none is counted twice or forgotten on the way."""
    monkeypatch.setattr(workflows.quota, "LONGEST_HISTORY", 20)
    async with served(client, ScriptedModel()):
        key, runs = Key(client, 9, usd_a_day=9), new(*"abcdefghi")
        taken = [await key.take(run) for run in runs]
        for one in taken[:4]:
            freed = FreedPlace(place=one.place, usd=0.5)
            await key.handle.signal("free_place", freed)
            await key.handle.signal("free_place", freed)

        held = await until(key.held, lambda held: len(held.places) == 5)
        assert held.spent_usd == 2
        first = (await client.get_workflow_handle(key.handle.id).describe()).raw_description
        assert first.workflow_execution_info.first_run_id != (
            first.workflow_execution_info.execution.run_id
        )


async def test_it_ends_once_nobody_asked_for_long(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while a run has a place; whoever asks later has it begin again."""
    monkeypatch.setattr(workflows.quota, "IDLE", timedelta(seconds=0.3))
    async with served(client, ScriptedModel()):
        key = Key(client)
        one = await key.take("one")
        await asyncio.sleep(1)
        assert await key.runs() == ["one"]
        await key.handle.signal("free_place", FreedPlace(place=one.place, usd=0))
        await ended(key.handle)
        assert (await key.take("two")).taken


@pytest.mark.parametrize(
    "given", [(), ({"run": "a"},), ({"run": "", "runs_at_once": 1},), ("a",), ({"run": 5},)]
)
async def test_what_is_no_request_is_refused(client: Client, given: tuple[Any, ...]) -> None:
    async with served(client, ScriptedModel()):
        key = Key(client)
        await key.take("one")
        await refusal(key.handle, "take_place", *given)
        await key.handle.signal("free_place", "rubbish")

        assert await key.runs() == ["one"]
