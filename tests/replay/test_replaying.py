"""What tests of workflows rely on: a step that depends on a worker's memory is found."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    import asyncio
    import uuid

    from temporalio.client import Client
    from temporalio.worker import UnsandboxedWorkflowRunner, Worker

    from tests.conftest import STRICT
    from tests.replaying import Replaying

BEGUN: list[str] = []


@workflow.defn
class RememberingWorkflow:
    """Waits where this worker has not run it before, or always."""

    @workflow.run
    async def run(self, always: bool) -> None:
        """Note the run where no history has it."""
        first = workflow.info().workflow_id not in BEGUN
        BEGUN.append(workflow.info().workflow_id)
        if always or first:
            await asyncio.sleep(0.01)


async def _served(client: Client, run_id: str, *, always: bool) -> None:
    async with Worker(
        client,
        task_queue="remembering",
        workflows=[RememberingWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        **STRICT,
    ):
        started = await client.start_workflow(
            RememberingWorkflow.run, always, id=run_id, task_queue="remembering"
        )
        await started.result()


async def test_a_run_that_depends_on_a_worker_s_memory_is_found(client: Client) -> None:
    """It has a result; the worker's end keeps an error, which would fail the test."""
    run_id = f"remembering-{uuid.uuid4().hex}"

    await _served(client, run_id, always=False)

    assert isinstance(Replaying.errors.pop(), workflow.NondeterminismError)
    assert BEGUN.count(run_id) == 2


async def test_a_run_that_does_not_is_replayed_once(client: Client) -> None:
    """It is replayed from its history, in which its step is the same."""
    run_id = f"remembering-{uuid.uuid4().hex}"

    await _served(client, run_id, always=True)

    assert BEGUN.count(run_id) == 2
