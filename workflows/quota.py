"""Counts what one bearer key of `mull serve` uses, for all servers: docs/adr/0023."""

import asyncio
from datetime import datetime, timedelta

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.quota import PlacesTask, QuotaActivities
    from mull.quota import (
        AGAIN_SECONDS,
        EXHAUSTED,
        FreedPlace,
        Granted,
        Place,
        PlaceTask,
        Quota,
        QuotaRequest,
        Refusal,
    )
    from workflows.base import refusal
    from workflows.calls import priority, require

LONGEST_HISTORY = 2_000
# By then nothing that it counts matters any more.
IDLE = timedelta(days=2)
LOOK = timedelta(seconds=10)


@workflow.defn(failure_exception_types=[ValidationError])
class QuotaWorkflow:
    """Give places to the runs of a key, until none has asked for two days."""

    def __new__(cls, *inputs: object) -> "QuotaWorkflow":
        """Reject a start without a valid request, which would fail every workflow task."""
        require(QuotaRequest, inputs, '{"name": "..."}')
        return super().__new__(cls)

    @workflow.init
    def __init__(self, request: QuotaRequest) -> None:
        """Begin with what an earlier history held."""
        self._quota, self._looking = Quota(request), asyncio.Lock()
        self._looked: datetime | None = None
        self._asked = 0

    @workflow.run
    async def run(self, _: QuotaRequest) -> None:
        """Give places until nobody has asked for two days."""
        asked = -1
        while not self._is_long() and (asked != self._asked or self._quota.places):
            asked = self._asked
            try:
                await workflow.wait_condition(self._is_long, timeout=IDLE)
            except TimeoutError:
                continue
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._is_long() or self._quota.places or asked != self._asked:
            workflow.continue_as_new(self._quota.going_on())

    @workflow.query(description="Which runs have places, and what was spent today")
    def quota(self) -> QuotaRequest:
        """Return all that is held."""
        return self._quota.going_on()

    @workflow.update(description="Take a place for a run that is about to start")
    async def take_place(self, given: PlaceTask) -> Granted:
        """Give a run a place; where none is left, look first which runs have ended."""
        self._asked += 1
        async with self._looking:
            if (had := self._quota.places.get(given.run)) is not None:
                # Else what an earlier run with this id cost, which failed, would never be counted.
                await self._look(had)
            if self._quota.refusal(given, workflow.now()) and self._may_look():
                await self._look(*self._quota.places.values())
                self._looked = workflow.now()
            if refused := self._quota.refusal(given, workflow.now()):
                raise _exhausted(refused)
            return self._quota.take(given, workflow.now())

    @take_place.validator
    def _takes_run(self, given: PlaceTask) -> None:
        if not isinstance(given, PlaceTask):
            raise refusal('give one JSON object, such as {"run": "...", "runs_at_once": 4}')
        # Refused here, it leaves nothing in the history, however often a client asks.
        refused = self._quota.refusal(given, workflow.now())
        if refused and not self._may_look() and not self._looking.locked():
            raise _exhausted(refused)

    @workflow.signal(description="Free the place of a run that has ended")
    def free_place(self, given: FreedPlace) -> None:
        """Free it, once."""
        self._quota.free(given, workflow.now())

    def _is_long(self) -> bool:
        info = workflow.info()
        long = info.get_current_history_length() >= LONGEST_HISTORY
        return long or info.is_continue_as_new_suggested()

    def _may_look(self) -> bool:
        since = None if self._looked is None else workflow.now() - self._looked
        return since is None or since.total_seconds() >= AGAIN_SECONDS

    async def _look(self, *places: Place) -> None:
        """See which runs have ended: their server may have died before it could say so."""
        task = PlacesTask(places=places)
        try:
            found = await workflow.execute_activity_method(
                QuotaActivities.see_runs,
                task,
                start_to_close_timeout=LOOK,
                priority=priority(),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError as error:
            workflow.logger.warning("the runs of a key could not be looked at: %s", error)
        else:
            for seen in found:
                self._quota.see(seen, workflow.now())


def _exhausted(refused: Refusal) -> ApplicationError:
    """Refuse a run, with the seconds after which it may ask again as the detail."""
    said, again = refused.reason, refused.seconds
    return ApplicationError(said, again, type=EXHAUSTED, non_retryable=True)
