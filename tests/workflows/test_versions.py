"""A rolling deployment: versions of the worker side by side, on a real server."""

import asyncio
import gc
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from temporalio.api.enums.v1 import RoutingConfigUpdateState
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

import worker
from activities.doctor import DEPLOYMENT
from mull.connection import connect
from service import say_version
from tests.conftest import Handle, begin, until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel

QUEUES = ("mull", "llm")
LOOKS = 600
MOVES = RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS


class Held(ScriptedModel):
    """A model that answers all samples and all turns alike, once it is let go."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        super().__init__(held=self.free, sample=["7"] * 20, step=["seven"] * 20)


@pytest.fixture
async def client(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of a namespace whose new runs go to the current version alone."""
    del client  # it has set the server's address
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "versions")
    return await connect()


@asynccontextmanager
async def serving(
    client: Client, build_id: str | None, model: Held, queues: Sequence[str] = QUEUES
) -> AsyncIterator[None]:
    async with worker.running(worker.build(client, queues, model, build_id=build_id)):
        try:
            yield
        finally:
            # A failed test does not wait for what its model holds.
            model.free.set()
    # A run that is still in its cache ends its coroutines here, and not amid another test.
    gc.collect()


async def make_current(client: Client, build_id: str) -> None:
    """Send new runs to a version, as soon as the server knows of its workers."""
    asked = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=DEPLOYMENT,
        build_id=build_id,
        ignore_missing_task_queues=True,
    )
    described = DescribeWorkerDeploymentRequest(
        namespace=client.namespace, deployment_name=DEPLOYMENT
    )
    service = client.workflow_service
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(RPCError):
                await service.set_worker_deployment_current_version(asked)
                break
            await asyncio.sleep(0.1)
        # Its queues hear of it one after the other: some still send runs to the earlier version.
        # Where the server had no time for it, it may never say that all of them have.
        for _ in range(LOOKS):
            found = (await service.describe_worker_deployment(described)).worker_deployment_info
            if found.routing_config_update_state != MOVES:
                break
            await asyncio.sleep(0.1)


async def reason(handle: Handle) -> str:
    return str((await asyncio.wait_for(handle.result(), PATIENCE))["stop_reason"])


async def version_of(handle: Handle) -> str:
    info = (await handle.describe()).raw_description.workflow_execution_info
    return str(info.versioning_info.deployment_version.build_id)


async def until_begun(handle: Handle) -> None:
    """Wait until a run has a version: one that no worker has seen takes the current one."""
    await until(lambda: version_of(handle))


async def test_a_rolling_deployment_loses_no_run(client: Client) -> None:
    """Runs end on the version that they began on, new ones begin on the new, a session moves.

    The old version's worker is stopped in the midst of its runs, and another one of it takes over.
    """
    old_id, new_id = f"old-{uuid.uuid4().hex[:8]}", f"new-{uuid.uuid4().hex[:8]}"
    old, again, new = Held(), Held(), Held()
    again.free.set()
    new.free.set()
    question, told = {"question": "How much?"}, {"tools": [], "idle_seconds": 600}
    async with serving(client, new_id, new):
        async with serving(client, old_id, old):
            await make_current(client, old_id)
            session = await begin(client, told, "SessionWorkflow")
            old.free.set()
            first = await session.execute_update("send", {"message": "How much?"})
            old.free.clear()
            begun = [await begin(client, question) for _ in range(3)]
            for run in begun:
                await until_begun(run)
            await make_current(client, new_id)
            later = [await begin(client, question) for _ in range(3)]
            assert [await reason(each) for each in later] == ["rule"] * 3
            old.free.set()
        async with serving(client, old_id, again):
            assert [await reason(each) for each in begun] == ["rule"] * 3
        second = await session.execute_update("send", {"message": "And now?"})
        await session.execute_update("finish_now")
        assert await reason(session) == "finished_by_person"

    assert {await version_of(each) for each in begun} == {old_id}
    assert {await version_of(each) for each in (*later, session)} == {new_id}
    assert first["answer"] == second["answer"] == "seven"


async def test_workers_without_a_version_serve_the_runs_of_any(client: Client) -> None:
    """Where only the workflows have a version, the other queues' workers need none."""
    build_id, model = f"alone-{uuid.uuid4().hex[:8]}", Held()
    model.free.set()
    async with serving(client, build_id, model, ["mull"]), serving(client, None, model, ["llm"]):
        await make_current(client, build_id)
        run = await begin(client, {"question": "How much?"})

        assert await reason(run) == "rule"
        assert await version_of(run) == build_id


async def test_a_version_that_gets_no_runs_says_how_it_would(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    build_id, model = f"said-{uuid.uuid4().hex[:8]}", Held()
    command = f"set-current-version --deployment-name mull --build-id {build_id}"
    async with serving(client, build_id, model, ["mull"]):
        await say_version(client, build_id)
        assert command in caplog.text
        await make_current(client, build_id)
        caplog.clear()
        await say_version(client, build_id)
        assert caplog.text == ""
