"""The bare workflows beside Mull's: the same activities in the same waves, and no more."""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow

INSTANT = timedelta(seconds=10)


@activity.defn
async def nothing(number: int) -> int:
    """Do nothing."""
    return number


@workflow.defn
class BareWorkflow:
    """Run waves of activities that do nothing."""

    @workflow.run
    async def run(self, waves: list[int]) -> int:
        """Run the waves one after the other, each all at once."""
        for length in waves:
            calls = [
                workflow.start_activity(
                    nothing, number, task_queue="bare-calls", start_to_close_timeout=INSTANT
                )
                for number in range(length)
            ]
            for call in calls:
                await call
        return sum(waves)


async def run_children(waves: list[int], children: int) -> int:
    """Run bare workflows as children, all at once."""
    runs = (
        workflow.execute_child_workflow(BareWorkflow.run, waves, id=f"{workflow.uuid4()}")
        for _ in range(children)
    )
    return sum(await asyncio.gather(*runs))


@workflow.defn
class BareParent:
    """Run children."""

    @workflow.run
    async def run(self, waves: list[int], children: int) -> int:
        """Run this many of them."""
        return await run_children(waves, children)


@workflow.defn
class BareSession:
    """Run a child for each update, until it is cancelled."""

    @workflow.run
    async def run(self) -> None:
        """Wait."""
        await workflow.wait_condition(lambda: False)

    @workflow.update
    async def send(self, waves: list[int]) -> int:
        """Run a child."""
        return await run_children(waves, 1)
