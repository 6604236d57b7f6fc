"""What is new of a run: its record once its history has grown, its text while it is written."""

import asyncio
import base64
import math
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError

from mull.connection import DATA_CONVERTER, STREAM_POLL, translated
from mull.loops import BATCH, Loop
from mull.turn.conversation import StreamedText

LOOK = timedelta(seconds=10)
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


class Followed(Protocol):
    """A run, as far as its news need it: `mull.Run` is one."""

    loop: Loop
    handle: WorkflowHandle[Any, Any]

    @property
    def id(self) -> str:
        """The workflow's id."""

    async def glance(self) -> Any:
        """Query the record; None if no worker answers."""

    async def result(self) -> Any:
        """Wait for the result. Raises MullError."""


class Change(NamedTuple):
    """What is new of a run: its `record`, in the end its result, and the `text` of an answer.

    `looked` without a record: no worker answers.
    """

    record: Any = None
    looked: bool = False
    text: str | None = None
    ended: bool = False


class News:
    """What is new of a run until its result, or an error that `result` raises.

    Its record is queried only once its history has something new, or where that is `wanted`: on
    Temporal Cloud queries are billed, while waiting for events is free. So two of them are at least
    `apart` seconds, and the first one comes LOOK_SECONDS after an event, since what follows on it
    soon takes no other one; `at_once` it comes with the event. With `streams`, signals bring the
    text of an answer, and start no query of the record. Without `looks` no record is queried. After
    `beat` seconds without anything new a change is yielded that is empty.
    """

    def __init__(
        self,
        run: Followed,
        *,
        streams: bool = False,
        looks: bool = True,
        apart: float = APART_SECONDS,
        at_once: bool = False,
        beat: float = math.inf,
    ) -> None:
        self._run, self._looks, self._apart, self._beat = run, looks, apart, beat
        self._settle = 0.0 if at_once else LOOK_SECONDS
        self._answer = LiveAnswer(run.handle) if streams else None
        self._woken = asyncio.Event()
        # When the first event came that no look has seen, and the last looks at record and text.
        self._new, self._looked = math.inf, time.monotonic() - apart
        self._read = self._looked
        self._signaled = self._silent = False
        self.wanted = False

    async def __aiter__(self) -> AsyncGenerator[Change, None]:
        """Yield what is new; the last one is the result."""
        ending = asyncio.create_task(self._run.result())
        ending.add_done_callback(lambda _: self._woken.set())
        watching = asyncio.create_task(self._watch())
        try:
            while await self._due(ending):
                with translated(self._run.id):
                    new = await self._see()
                if not ending.done():
                    yield new
            yield Change(await ending, ended=True)
        finally:
            watching.cancel()
            ending.cancel()
            await asyncio.gather(watching, ending, return_exceptions=True)

    async def _watch(self) -> None:
        """Note new events of this history and of those that follow it, for ever."""
        while True:
            with suppress(RPCError):
                async for event in self._run.handle.fetch_history_events(wait_new_event=True):
                    if event.event_type == SIGNALED and self._answer:
                        self._signaled = True
                    elif event.event_type not in WRITTEN:
                        self._new = min(self._new, time.monotonic())
                    self._woken.set()
            # The run goes on in a new history, or the server is away.
            await asyncio.sleep(LOOK_SECONDS)

    async def _due(self, ending: "asyncio.Task[Any]") -> bool:
        """Wait until it is time for a look or a beat; False once the run has ended."""
        until = time.monotonic() + self._beat
        while not ending.done():
            self._woken.clear()
            left = min(until, self._record_due(), self._text_due()) - time.monotonic()
            if left <= 0:
                return True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), left)
        return False

    def _record_due(self) -> float:
        """Say when the record is to be queried, by the monotonic clock."""
        if not self._looks:
            return math.inf
        quiet = QUIET_SECONDS if self._run.loop is BATCH else math.inf
        again = APART_SECONDS if self._silent else quiet
        due = -math.inf if self.wanted else min(self._new + self._settle, self._looked + again)
        return max(due, self._looked + self._apart)

    def _text_due(self) -> float:
        """Say when the text is to be read: a worker that is silent otherwise is not asked."""
        apart = min(self._apart, LOOK_SECONDS)
        return self._read + apart if self._signaled and not self._silent else math.inf

    async def _see(self) -> Change:
        seen, now = Change(), time.monotonic()
        if self._record_due() <= now:
            self._new, self._looked = math.inf, now
            seen = Change(await self._run.glance(), looked=True)
            self._silent = seen.record is None
        if self._answer and self._text_due() <= now:
            self._signaled, self._read = False, now
            seen = seen._replace(text=await self._answer.read())
        return seen


class LiveAnswer:
    """The answer of a turn while it is written.

    It is read by queries, which history does not keep: each poll by an update would stay in it.
    """

    def __init__(self, handle: WorkflowHandle[Any, Any]) -> None:
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
