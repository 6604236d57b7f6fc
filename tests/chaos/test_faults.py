"""Whatever happens to worker, server, network, provider or clock, runs end as undisturbed ones."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError

from bench import chaos
from tests.chaos.runs import REQUESTS, replied
from tests.chaos.stage import Stage
from tests.conftest import until
from tests.patience import PATIENCE
from tests.scripted_endpoint import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

Ended = dict[str, Any]
# Those that cost time come once, and the others again and again.
SLOW = ("429", "overloaded", "dripping", "hanging")
QUICK = [reply for name, reply in chaos.ENDPOINT_FAULTS.items() if name not in SLOW]
# What asks a model for an answer, and for a step of a turn.
CALLS = {"sample_answer", "ask_step"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with Stage(tmp_path_factory.mktemp("stage")) as stage:
        stage.start_worker()
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(stage: Stage) -> Ended:
    """How a run of each workflow ends that nobody disturbs."""
    return dict(zip(REQUESTS, await stage.runs(REQUESTS, "undisturbed"), strict=True))


async def disturbed(stage: Stage, fault: str, after: float = 2.0, seconds: float = 6.0) -> Ended:
    """Disturb a run of each workflow once, and return how each ends."""
    runs = asyncio.create_task(stage.runs(REQUESTS, fault))
    await asyncio.sleep(after)
    await chaos.FAULTS[fault](stage, random.Random(7), seconds)
    return dict(zip(REQUESTS, await asyncio.wait_for(runs, PATIENCE), strict=True))


@pytest.mark.parametrize("fault", ["kills", "server", "network"])
async def test_what_ends_and_comes_back(stage: Stage, undisturbed: Ended, fault: str) -> None:
    """A worker that is killed again while it recovers, a server on its file, and a network."""
    assert await disturbed(stage, fault) == undisturbed


async def test_a_wrong_version(stage: Stage, undisturbed: Ended) -> None:
    """Runs stall at a nondeterministic version, saying why, and go on when it is taken back."""
    stage.reply = lambda _: Scripted("late", delay=100)
    runs = asyncio.create_task(stage.runs(REQUESTS, "version"))
    names = [f"version-{kind}-{[*REQUESTS].index(kind)}" for kind in ("ask", "turn")]
    # A history has no failure of a task that a killed worker had begun.
    for name in names:
        await until(lambda: waits_for_a_model(stage.client, name))
    stage.kill_workers()
    stage.reply = replied
    await stage.serve(chaos.OTHER_VERSION)
    said = [await why_it_stalls(stage.client, name) for name in names]
    stage.kill_workers()
    stage.start_worker()
    ended = await asyncio.wait_for(runs, PATIENCE)

    assert dict(zip(REQUESTS, ended, strict=True)) == undisturbed
    assert [each[:7] for each in said] == ["[TMPRL1"] * 2


async def waits_for_a_model(client: Client, name: str) -> bool:
    """Tell whether a run has a call of a model under way, and nothing else to do."""
    try:
        found = (await client.get_workflow_handle(name).describe()).raw_description
    except RPCError:
        return False
    called = {each.activity_type.name for each in found.pending_activities}
    return not (called.isdisjoint(CALLS) or found.HasField("pending_workflow_task"))


async def why_it_stalls(client: Client, name: str) -> str:
    events = client.get_workflow_handle(name).fetch_history_events(wait_new_event=True)
    async for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return event.workflow_task_failed_event_attributes.failure.message
    return "it has ended"


async def test_every_fault_of_a_provider(stage: Stage, undisturbed: Ended) -> None:
    failing = chaos.Failing(*chaos.ENDPOINT_FAULTS.values(), *QUICK * 20)
    stage.reply = failing
    try:
        ended = await stage.runs(REQUESTS, "endpoint")
    finally:
        stage.reply = replied

    assert dict(zip(REQUESTS, ended, strict=True)) == undisturbed


@pytest.mark.skipif(not chaos.FAKETIME.exists(), reason="libfaketime is not installed")
async def test_a_clock_that_steps(stage: Stage, undisturbed: Ended) -> None:
    """A worker whose clock jumps by hours and days, to and fro, changes nothing."""
    await chaos.clock(stage, random.Random(7), 0)
    assert await disturbed(stage, "clock") == undisturbed
