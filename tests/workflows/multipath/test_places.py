"""How many programs a worker for code takes at once."""

import asyncio

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import worker
from activities.sandbox.port import TASK_QUEUE, Program, Result, SandboxActivities
from tests.scripted import finished
from workflows.calls import test_times as times_of_a_test


class CountingSandbox:
    """Knows how many programs were given to it at once, and refuses none."""

    name = "counting"

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.most = 0
        self._now = 0

    async def run(self, program: Program) -> Result:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.2)
        self._now -= 1
        return finished(program)


@workflow.defn
class Programs:
    """Runs six programs at once."""

    @workflow.run
    async def run(self) -> int:
        runs = [
            workflow.execute_activity_method(
                SandboxActivities.run_code,
                Program(code="1"),
                task_queue=TASK_QUEUE,
                **times_of_a_test(10, 1),
            )
            for _ in range(6)
        ]
        return len(await asyncio.gather(*runs))


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_worker_takes_what_it_has_places_for(client: Client, at_once: int) -> None:
    """The others wait in the queue, where another worker may take them, and not in this one."""
    sandbox = CountingSandbox(at_once)
    (code,) = worker.build(client, ["code"], sandbox=sandbox)

    runner = UnsandboxedWorkflowRunner()
    async with (
        code,
        Worker(client, task_queue="places", workflows=[Programs], workflow_runner=runner),
    ):
        done = await client.execute_workflow(
            Programs.run, id=f"places-{at_once}", task_queue="places"
        )

    assert (done, sandbox.most) == (6, at_once)
