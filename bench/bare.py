"""The workflow that Mull is compared with: the same activities in the same waves, and no more."""

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
