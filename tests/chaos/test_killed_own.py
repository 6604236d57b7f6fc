"""A user's own worker that is killed outright while its workflows wait for Mull's runs."""

import asyncio
import os
import uuid
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import Replayer

from commands.embedded import Place
from tests import forks
from tests.chaos.own_worker import QUEUE
from tests.chaos.working import working
from tests.conftest import Handle, ended, until
from tests.patience import PATIENCE
from tests.scripted_endpoint import Body, Scripted
from tests.workflows.own_flows import Calling
from tests.workflows.test_nexus import make_endpoint, run_of
from tests.workflows.test_own_workflow import child_of

DONE = WorkflowExecutionStatus.COMPLETED


def own_worker(log: Path) -> ForkServerProcess:
    return forks.start(["tests/chaos/own_worker.py", "default", "home"], dict(os.environ), log, log)


async def test_a_killed_caller_goes_on_with_the_result(
    client: Client, place: Place, tmp_path: Path
) -> None:
    """By a child and by Nexus: the run ends meanwhile, and nothing is asked a second time."""
    log, killed, released = tmp_path / "own.log", list[ForkServerProcess](), asyncio.Event()

    def model(_: Body) -> Scripted:
        return Scripted('{"reasoning": "so", "answer": "yes"}', until=released.is_set)

    given = {"max_responses": 1, "min_responses": 1}
    async with working(model, tmp_path / "traces", "--nexus") as mulls:
        endpoints, callers = {"default": None, "home": make_endpoint(place)}, dict[str, Handle]()
        killed.append(own_worker(log))
        for namespace, endpoint in endpoints.items():
            own = await Client.connect(place.address, namespace=namespace)
            callers[namespace] = await own.start_workflow(
                Calling.run,
                args=["ask", "Is it?", {**given, "endpoint": endpoint}],
                id=f"killed-{uuid.uuid4().hex}",
                task_queue=QUEUE,
            )
        await until(lambda: len(mulls.requests) == 2)
        killed[0].kill()
        killed[0].join(PATIENCE)
        released.set()
        runs = [await child_of(client, callers["default"]), await run_of(client, callers["home"])]
        for run in runs:
            await until(run.describe, lambda seen: seen.status is DONE)
        standing = [(await caller.describe()).status for caller in callers.values()]
        killed.append(own_worker(log))
        try:
            records = [await ended(caller) for caller in callers.values()]
        finally:
            killed[1].terminate()
            killed[1].join(PATIENCE)

    assert standing == [WorkflowExecutionStatus.RUNNING] * 2
    assert [record["final_answer"] for record in records] == ["yes", "yes"]
    assert len(mulls.requests) == 2
    for caller in callers.values():
        await Replayer(workflows=[Calling]).replay_workflow(await caller.fetch_history())
