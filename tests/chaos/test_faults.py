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
    """A stage for all of these tests, with one worker."""
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


async def test_a_worker_killed_also_while_it_recovers(stage: Stage, undisturbed: Ended) -> None:
    """Two kills in a row change no result."""
    assert await disturbed(stage, "kills") == undisturbed


async def test_a_server_killed(stage: Stage, undisturbed: Ended) -> None:
    """A server that was killed goes on from its file, and so do the runs."""
    assert await disturbed(stage, "server") == undisturbed


async def test_a_network_cut(stage: Stage, undisturbed: Ended) -> None:
    """Workers that reach no server for a while go on once they do."""
    assert await disturbed(stage, "network") == undisturbed


async def test_a_wrong_version(stage: Stage, undisturbed: Ended) -> None:
    """Runs stall at a nondeterministic version, saying why, and go on when it is taken back."""
    stage.reply = lambda _: Scripted("late", delay=100)
    runs = asyncio.create_task(stage.runs(REQUESTS, "version"))
    names = [f"version-{kind}-{[*REQUESTS].index(kind)}" for kind in ("ask", "turn")]
    async with asyncio.timeout(PATIENCE):
        # A history has no failure of a task that a killed worker had begun.
        for name in names:
            while not await waits_for_a_model(stage.client, name):
                await asyncio.sleep(0.1)
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
    """Wait until a task of a run fails, and return what is said of it."""
    events = client.get_workflow_handle(name).fetch_history_events(wait_new_event=True)
    async for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return event.workflow_task_failed_event_attributes.failure.message
    return "it has ended"


async def test_every_fault_of_a_provider(stage: Stage, undisturbed: Ended) -> None:
    """Each first call fails in one of many ways, and each run ends alike."""
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
