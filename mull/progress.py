"""How a run stands while it goes on: its record, what is new, and the answer that a turn writes."""

import asyncio
import base64
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeAlias

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError

from mull.batch.request import PAGE_ID
from mull.batch.result import BatchResult
from mull.connection import DATA_CONVERTER, STREAM_POLL
from mull.loops import BATCH, Loop
from mull.text import FITTED_DECISIONS
from mull.turn.conversation import StreamedText

Handle: TypeAlias = WorkflowHandle[Any, Any]

LOOK = timedelta(seconds=10)
# The counts of a batch to which its pages under way add theirs.
SUMMED = (
    "done", "running", "completed", "failed", "cancelled", "not_started",
    "tokens", "cost_usd", "known_tokens", "known_usd",
)  # fmt: skip
LOOK_SECONDS = 1.0
# Between two looks, each of which is billed on Temporal Cloud.
APART_SECONDS = 2.0
# A batch's news stand in the histories of its pages, which are not read.
QUIET_SECONDS = 10.0
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
# What a workflow task writes follows from an event before it, and a query waits for that task.
WRITTEN = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
}
# A workflow task that failed more often than this needs a key, or other code.
FEW_TRIES = 2


async def look(handle: Handle, loop: Loop, patience: timedelta = LOOK) -> Any:
    """Query the record of a run, open or closed; None if no worker answers.

    If earlier decisions may have been left out, they are queried too: a live view shows them all.
    """
    try:
        seen = await handle.query("progress", result_type=loop.result, rpc_timeout=patience)
        if loop is BATCH:
            seen = await _with_pages(handle, seen, patience)
        elif len(seen.decisions) == FITTED_DECISIONS:
            kind: Any = loop.result.model_fields["decisions"].annotation
            every = await handle.query("decisions", result_type=kind, rpc_timeout=patience)
            seen = seen.model_copy(update={"decisions": every})
    except (RPCError, WorkflowQueryFailedError):
        return None
    return seen


class News:
    """What is new of a run: its record is queried only once its history has something new.

    Queries are billed on Temporal Cloud, so there are at least two seconds between them; waiting
    for events is free. `silent` is true while no worker answers. With `streams`, signals bring the
    text of an answer, and are no news.
    """

    def __init__(self, handle: Handle, loop: Loop, *, streams: bool = False) -> None:
        self._handle, self._loop, self._streams = handle, loop, streams
        self._looked, self._kinds = time.monotonic() - APART_SECONDS, set[int]()
        self.silent = False

    async def read(self) -> None:
        """Note the kinds of new events of this history and of those that follow it, for ever."""
        while True:
            with suppress(RPCError):
                async for event in self._handle.fetch_history_events(wait_new_event=True):
                    self._kinds.add(event.event_type)
            # The run goes on in a new history, or the server is away.
            await asyncio.sleep(LOOK_SECONDS)

    def due(self, *, more: bool = False) -> bool:
        """Tell whether the record may have changed, or has to be seen for something `more`."""
        waited = time.monotonic() - self._looked
        found = bool(self._kinds - WRITTEN - ({SIGNALED} if self._streams else set()))
        quiet = self._loop is BATCH and waited >= QUIET_SECONDS
        return waited >= APART_SECONDS and (found or self.silent or more or quiet)

    async def look(self) -> Any:
        """Query the record; None if no worker answers."""
        # A signal's text is read with `wrote`, whatever the record shows.
        self._kinds &= {SIGNALED} if self._streams else set()
        self._looked = time.monotonic()
        seen = await look(self._handle, self._loop)
        self.silent = seen is None
        return seen

    def wrote(self) -> bool:
        """Tell whether a signal came since this was last asked."""
        came = SIGNALED in self._kinds
        self._kinds.discard(SIGNALED)
        return came


class LiveAnswer:
    """The answer of a turn while it is written.

    It is read by queries, which history does not keep: each poll by an update would stay in it.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle, self._offset, self._written = handle, 0, StreamedText(step=0)

    async def read(self) -> str:
        """Return what is written so far of the newest attempt; as before if no worker answers."""
        try:
            known = {"from_offset": self._offset}
            found = await self._handle.query(STREAM_POLL, known, rpc_timeout=LOOK)
        except (RPCError, WorkflowQueryFailedError):
            return self._written.text
        for item in found["items"]:
            # Anything else was not published by Mull.
            with suppress(Exception):
                payload = Payload.FromString(base64.b64decode(item["data"]))
                piece = DATA_CONVERTER.payload_converter.from_payload(payload, StreamedText)
                self._written = self._written.then(piece)
        self._offset = found["next_offset"]
        return self._written.text


async def _with_pages(handle: Handle, whole: BatchResult, patience: timedelta) -> BatchResult:
    """Add the counts of the pages under way: a batch itself hears only of pages that have ended."""
    if not whole.under_way:
        return whole
    parts, sums = [whole.model_copy(update={"running": 0})], dict[str, Any]()
    for number in whole.under_way:
        # No public attribute of a handle leads to another workflow.
        page = handle._client.get_workflow_handle(handle.id + PAGE_ID.format(number))
        parts.append(await page.query("progress", result_type=BatchResult, rpc_timeout=patience))
    for name in SUMMED:
        counted = [getattr(part, name) for part in parts]
        sums[name] = None if None in counted else sum(counted)
    return whole.model_copy(update=sums)


def stuck_words(described: WorkflowExecutionDescription) -> str | None:
    """Say that a worker fails at a run again and again; None if that is not so."""
    tries = described.raw_description.pending_workflow_task.attempt
    said = f"the worker can't go on with this run (attempt {tries}): its log says why"
    return said if tries > FEW_TRIES else None
