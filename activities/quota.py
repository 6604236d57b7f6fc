"""The activity that looks which runs of a bearer key have ended, and what they cost."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import Field
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode

from mull.drafts import RunRecord
from mull.quota import MOST_PLACES, Place, SeenRun
from mull.request import Record

# Of a worker that answers no query the look does not wait for long.
ANSWER = timedelta(seconds=3)
AT_ONCE = 20


class PlacesTask(Record):
    """The places of runs."""

    places: Annotated[tuple[Place, ...], Field(max_length=MOST_PLACES)]


class QuotaActivities:
    """Looks at runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn
    async def see_runs(self, task: PlacesTask) -> tuple[SeenRun, ...]:
        """Say of each run whether it has ended, and what it cost. Raises RPCError."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def seen(place: Place) -> SeenRun:
            async with slots:
                return await self._see(place)

        return tuple(await asyncio.gather(*map(seen, task.places)))

    async def _see(self, place: Place) -> SeenRun:
        handle: Any = self._client.get_workflow_handle(place.run, result_type=RunRecord)
        try:
            described = await handle.describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return SeenRun(place=place, state="absent")
        if described.status is WorkflowExecutionStatus.RUNNING:
            return SeenRun(place=place, state="running")
        if described.close_time < place.since:
            # It is an earlier run with the same id, which failed.
            return SeenRun(place=place, state="absent")
        done = described.status is WorkflowExecutionStatus.COMPLETED
        try:
            query = partial(handle.query, "progress", result_type=RunRecord, rpc_timeout=ANSWER)
            record: RunRecord = await (handle.result() if done else query())
        except (RPCError, TemporalError, ValueError):
            # No worker answers, or nobody here can read it.
            return SeenRun(place=place, state="ended")
        return SeenRun(place=place, state="ended", usd=record.usage.cost_usd)
