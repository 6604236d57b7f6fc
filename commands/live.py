"""A run while it goes on: its steps as they happen, how long it takes, and what it waits for.

Queries are billed on Temporal Cloud: a run is queried only once its history has something new, for
which the wait is free, and at most once a second. What the server says of a run is free as well.
"""

import asyncio
import base64
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text as Line
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from commands import terminal
from commands.loops import BATCH, LOOK, Handle, Loop, Seen, look
from connection import DATA_CONVERTER, STREAM_POLL
from reflection.details import bar
from reflection.text import lasting_words, neutral, terminal_safe
from reflection.turn.conversation import StreamedText

LOOK_SECONDS = 1.0
# Between two requests to the server for the calls under way.
ASK_SECONDS = 2.0
# Where nobody can see a line that changes in place, something is printed at least this often.
QUIET_SECONDS = 10.0
# A workflow task that failed more often than this fails for want of a key, or of other code.
FEW_TRIES = 2
NOBODY = "no worker answers; the run waits for one"
LOST = ", after a time-out"
ERROR_COLUMNS = 200
BAR_COLUMNS = 20
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


class News:
    """The kinds of events that a run's history, and any that follows it, has got since a look."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._kinds = set[int]()

    async def read(self) -> None:
        """Wait for new events, until this is cancelled."""
        while True:
            with suppress(RPCError):
                async for event in self._handle.fetch_history_events(wait_new_event=True):
                    self._kinds.add(event.event_type)
            # The run goes on in a new history, or the server is away.
            await asyncio.sleep(LOOK_SECONDS)

    def take(self) -> set[int]:
        """Return the kinds of events that may have changed the run's state, each once."""
        kinds, self._kinds = self._kinds - WRITTEN, set()
        return kinds


class Pulse:
    """Say how long a run has taken and what it waits for.

    In a terminal the status line says it always; elsewhere a line does where nothing else was
    printed for 10 s.
    """

    def __init__(self, handle: Handle, console: Console, status: Status | None) -> None:
        self._handle, self._console, self._status = handle, console, status
        self._began = self._spoke = self._asked = time.monotonic()
        self._slow: str | None = None
        # The words for a call that may have been lost with its worker.
        self.lost: str | None = None

    async def beat(self, busy: str, *, spoke: bool, written: str = "") -> None:
        """Say it if it is time; `spoke` is whether something else was printed just now.

        In a terminal the end of what is `written` stands below it, as far as there is room.
        """
        now = time.monotonic()
        if spoke:
            self._spoke = now
        due = self._status is None and now - self._spoke >= QUIET_SECONDS
        if due or (self._status and now - self._asked >= ASK_SECONDS):
            self._slow, self._asked = await _slow(self._handle), now
            self.lost = self._slow if self._slow and self._slow.endswith(LOST) else None
        words = f"{lasting_words(int(now - self._began))}: {self._slow or busy}"
        if self._status:
            width, rows = self._console.width, max(self._console.height - 4, 1)
            end = Line(neutral(written[-width * rows :])).wrap(self._console, width)[-rows:]
            self._status.update(Line("\n").join([Line(words), *end]))
        elif due:
            words = f"{words}; {busy}" if self._slow else words
            self._console.print(Line(words), style="dim", soft_wrap=True, highlight=False)
            self._spoke = now


class LiveAnswer:
    """The answer of a turn while it is written.

    It is read by queries, which history does not keep: each poll by an update would stay in it.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle, self._offset, self._written = handle, 0, StreamedText(step=0)

    async def read(self) -> str:
        """Return what is written so far of the newest attempt; as before where nobody answers."""
        try:
            known = {"from_offset": self._offset}
            found = await self._handle.query(STREAM_POLL, known, rpc_timeout=LOOK)
        except (RPCError, WorkflowQueryFailedError):
            return self._written.text
        for item in found["items"]:
            # What is no piece of an answer was published by somebody else.
            with suppress(Exception):
                payload = Payload.FromString(base64.b64decode(item["data"]))
                piece = DATA_CONVERTER.payload_converter.from_payload(payload, StreamedText)
                self._written = self._written.then(piece)
        self._offset = found["next_offset"]
        return self._written.text


class Shown:
    """What has been printed of a run, and whether a worker answers for it."""

    def __init__(self, console: Console, handle: Handle, loop: Loop, request: Any) -> None:
        self._console, self.handle, self._loop, self._request = console, handle, loop, request
        self.steps, self.silent, self.busy = 0, False, loop.doing
        self.waited: Any = None

    def show(self, seen: Seen | None) -> bool:
        """Print what is new; return whether there was something."""
        was_silent, before = self.silent, self.steps
        self.silent = seen is None
        if seen is None:
            self.busy = NOBODY
            if not was_silent:
                self._console.print(NOBODY, soft_wrap=True)
            return not was_silent
        sheet = self._loop.sheet(seen.progress, seen.decisions, self._request)
        self.busy = sheet.busy or sheet.verdict.words
        self.steps = terminal.print_steps(self._console, sheet.steps, before)
        if sheet.waiting and sheet.waiting != self.waited:
            terminal.print_waiting(self._console, self.handle.id, sheet.waiting)
        self.waited = sheet.waiting
        return self.steps > before

    def end(self, result: Any) -> None:
        """Print the steps that a look came too late for."""
        steps = self._loop.sheet(result, (), self._request).steps
        terminal.print_steps(self._console, steps, self.steps)


async def show_live(handle: Handle, loop: Loop, request: Any, ending: "asyncio.Task[Any]") -> None:
    """Print new steps, and once that a person's review is awaited, until the run ends."""
    console, news = Console(stderr=True), News(handle)
    shown = Shown(console, handle, loop, request)
    reading = asyncio.create_task(news.read())
    try:
        with console.status(loop.doing) if console.is_terminal else nullcontext() as status:
            pulse = Pulse(handle, console, status)
            streams = status is not None and getattr(request, "stream", False)
            answer = LiveAnswer(handle) if streams else None
            await _show_until(ending, loop, news, shown, pulse, answer)
    finally:
        reading.cancel()
    if not ending.cancelled() and ending.exception() is None:
        shown.end(ending.result())


async def _show_until(
    ending: "asyncio.Task[Any]",
    loop: Loop,
    news: News,
    shown: Shown,
    pulse: Pulse,
    answer: LiveAnswer | None,
) -> None:
    lost, written, looked = None, "", time.monotonic()
    while not ending.done():
        await asyncio.wait({ending}, timeout=LOOK_SECONDS)
        kinds, spoke = news.take(), False
        # The text of an answer comes by signals. Of a lost worker a lost call may be all that is
        # seen, and a batch's news are its pages': nobody reads their histories.
        due = bool(kinds - {SIGNALED} if answer else kinds)
        due |= shown.silent or pulse.lost not in {None, lost}
        due |= loop is BATCH and time.monotonic() - looked >= QUIET_SECONDS
        if due and not ending.done():
            seen, lost, looked = await look(shown.handle, loop), pulse.lost, time.monotonic()
            spoke = not ending.done() and shown.show(seen)
        if ending.done():
            break
        if answer and kinds and not shown.silent:
            written = await answer.read()
        # A wait for a person may last for weeks: it is said once.
        spoke |= shown.waited is not None
        await pulse.beat(shown.busy, spoke=spoke, written=written)


async def _slow(handle: Handle) -> str | None:
    """Read how far the search for documents is, or what the slowest call waits for."""
    try:
        described = await handle.describe()
    except RPCError:
        return None
    pending = described.raw_description.pending_activities
    if (tries := described.raw_description.pending_workflow_task.attempt) > FEW_TRIES:
        return f"the worker can't go on with this run (attempt {tries}): its log says why"
    for call in pending:
        if call.activity_type.name == "retrieve":
            details = list(call.heartbeat_details.payloads)
            return reading_words(await described.data_converter.decode(details))
        if call.last_failure.HasField("encoded_attributes"):
            error = await described.data_converter.decode_failure(call.last_failure)
            call.last_failure.message = getattr(error, "message", "")
    return slow_words(pending, datetime.now(UTC))


def slow_words(pending: Iterable[PendingActivityInfo], now: datetime) -> str | None:
    """Say of the call with most attempts what it waits for, and its last error; None if it is new.

    A call is slow after 10 s, or once an attempt failed.
    """
    call = max(pending, key=lambda one: (one.attempt, -one.last_started_time.seconds), default=None)
    if call is None:
        return None
    runs = call.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    since = call.last_started_time if runs else call.scheduled_time
    seconds = (now - since.ToDatetime(UTC)).total_seconds()
    if call.attempt < 2 and seconds < QUIET_SECONDS:
        return None
    took = f"has taken {lasting_words(int(seconds))}" if runs else "waits for a worker"
    words = f"a call {took}"
    if call.attempt > 1:
        # The server tells how long this attempt has taken, and not the ones before it.
        words = f"a call {'is in' if runs else 'waits for'} attempt {call.attempt}"
    if call.last_failure.HasField("timeout_failure_info"):
        words += LOST
    elif call.HasField("last_failure"):
        kind = call.last_failure.application_failure_info.type
        error = ": ".join(filter(None, (kind, call.last_failure.message)))
        words += f", last error {terminal_safe(error, ERROR_COLUMNS)}"
    return words


def reading_words(details: list[Any]) -> str | None:
    """Format a heartbeat's two details: files read, and files in all."""
    match details:
        case [int(done), int(total), *_] if total > 0:
            share = bar(min(done / total, 1.0), BAR_COLUMNS)
            return f"Reading documents {share} {done:,} of {total:,} files"
    return None
