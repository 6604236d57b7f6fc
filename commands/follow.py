"""Start a run and follow it: its steps on standard error, the result on standard output."""

import asyncio
import shlex
import sys
import time
from contextlib import aclosing, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.status import Status
from rich.text import Text as Line
from temporalio.client import Client as Temporal
from temporalio.service import RPCError

from activities.doctor import DoctorRequest
from commands import terminal
from commands.command import (
    Exit,
    fail,
    need_workers,
    print_id,
    print_json,
    run_page,
    tell,
    write_file,
)
from commands.doctor import examine
from commands.options import New, Wanted
from mull.client import Client
from mull.connection import unserved
from mull.errors import RunCancelledError, RunFailedError, stuck_words
from mull.handle import TERMINATED, Run
from mull.loops import Loop, loop_of
from mull.news import LOOK_SECONDS, QUIET_SECONDS, News
from mull.request import INVALID, PERSON_PRIORITY, Request
from mull.sampling.loop import Sampling
from mull.sampling.result import Bars
from mull.sheet import Sheet
from mull.text import lasting_words, neutral, terminal_safe

REPLY_COLUMNS = 2_000
# Between two requests to the server for the calls under way.
ASK_SECONDS = 2.0
NOBODY = "no worker answers; the run waits for one"
# What `mull doctor` shows of the workers after an error of this type.
SHOWN_BY_DOCTOR = {
    "RetrievalError": "the folders that may be searched",
    "AuthenticationError": "the keys that are set",
}


async def start(client: Temporal, request: Request, new: New, wanted: Wanted) -> Exit:
    """Start a run and follow it, or print its id at once.

    The result of a run that is done is printed as if it had just ended, and nothing is paid.
    """
    loop = loop_of(request)
    await need_workers(client, loop.queues(request), "run", waits=new.detach)
    for queue in await unserved(client, loop.optional_queues(request)):
        said = f'no worker is polling task queue "{queue}"'
        tell(f"Note: {said}; a run that needs it waits for a worker.")
    bars = wanted.required
    may_be_done = new.workflow_id is not None and not new.again
    if isinstance(bars, Bars) and bars.probability is not None and not may_be_done:
        await _expect_map(client, request)
    priority = None if new.detach else PERSON_PRIORITY
    begin = Client(client).begin
    run = await begin(request, new.workflow_id, again=new.again, priority=priority)
    if not run.goes_on:
        tell("This run is done, so nothing is paid again; --again starts it anew.")
    elif run.description is not None:
        tell("This run goes on already, by the same request.")
    if new.detach:
        return print_id(run.id, as_json=wanted.as_json)
    Console(stderr=True).print(f"run {run.id}", style="dim", markup=False, highlight=False)
    return await follow(run, request, wanted)


async def _expect_map(client: Temporal, request: Any) -> None:
    """Exit before anything is paid if there is no map for the probability that is required."""
    if request.calibration is not None:
        setup = Sampling(request).setup
        known = {"model": setup.model or request.calibration.model}
        if differs := request.calibration.differences(setup.model_copy(update=known), by_hand=True):
            fail(f"--calibration: the map does not fit: {'; '.join(differs)}.")
        return
    checks = await examine(client, DoctorRequest(offline=True), timedelta(seconds=10))
    states = {check.state for check in checks if check.area in {"calibration", "workers"}}
    if not states & {"ok", "wrong"}:
        said = "--require-probability needs a calibration map, and the worker has none."
        how = "Fit one with `mull replay --calibrate MAP.json`, and give it with --calibration."
        fail(f"{said} {how}")
    tell("Note: the probability will be known only if a map of the worker fits this run.")


class Live:
    """A run while it goes on: its steps as they happen, how long it takes, and what it waits for.

    The time it takes stands in the status line of a terminal, else is printed after 10 s of
    silence.
    """

    def __init__(
        self, run: Run[Any], request: Any, console: Console, status: Status | None
    ) -> None:
        self._run, self._loop, self._request = run, run.loop, request
        self._console, self._status = console, status
        self._began = self._spoke = self._asked = time.monotonic()
        self._steps = 0
        self._waited: Any = None
        self._slow: str | None = None
        # The words for a call that may have been lost with its worker, when the run was looked at.
        self._lost: str | None = None
        streams = status is not None and getattr(request, "stream", False)
        self._news = News(run, streams=streams, beat=LOOK_SECONDS)
        self._silent = False
        self.busy, self.written = self._loop.doing, ""

    async def follow(self) -> Any:
        """Print what is new until the run ends, and return its result."""
        async with aclosing(aiter(self._news)) as news:
            async for new in news:
                if new.ended:
                    break
                if new.looked:
                    self._lost = self._slow
                if new.text is not None:
                    self.written = new.text
                spoke = new.looked and self._show(new.record)
                # A wait for a person may last for weeks: it is said once.
                await self.beat(spoke=spoke or self._waited is not None)
                # A lost call may be the only trace of a lost worker.
                said = self._slow or ""
                self._news.wanted = said != self._lost and said.endswith(terminal.LOST)
        return new.record

    def _show(self, seen: Any) -> bool:
        """Print what is new; return whether there was something."""
        before, was_silent = self._steps, self._silent
        self._silent = seen is None
        if seen is None:
            self.busy = NOBODY
            if not was_silent:
                self._console.print(NOBODY, soft_wrap=True)
            return not was_silent
        sheet = self._loop.sheet(seen, self._request)
        self.busy = sheet.busy or sheet.verdict.words
        self._steps = terminal.print_steps(self._console, sheet.steps, before)
        if sheet.waiting and sheet.waiting != self._waited:
            terminal.print_waiting(self._console, self._run.id, sheet.waiting)
        self._waited = sheet.waiting
        return self._steps > before

    async def beat(self, *, spoke: bool) -> None:
        """Say how long it takes, if it is time; `spoke`: something else was printed just now.

        In a terminal the end of what is written stands below it, as far as there is room.
        """
        now = time.monotonic()
        if spoke:
            self._spoke = now
        due = self._status is None and now - self._spoke >= QUIET_SECONDS
        if due or (self._status and now - self._asked >= ASK_SECONDS):
            self._slow, self._asked = await slow(self._run), now
        words = f"{lasting_words(int(now - self._began))}: {self._slow or self.busy}"
        if self._status:
            width, rows = self._console.width, max(self._console.height - 4, 1)
            end = Line(neutral(self.written[-width * rows :])).wrap(self._console, width)[-rows:]
            self._status.update(Line("\n").join([Line(words), *end]))
        elif due:
            words = f"{words}; {self.busy}" if self._slow else words
            self._console.print(Line(words), style="dim", soft_wrap=True, highlight=False)
            self._spoke = now

    def end(self, result: Any) -> None:
        """Print the steps that were made since the last look."""
        steps = self._loop.sheet(result, self._request).steps
        terminal.print_steps(self._console, steps, self._steps)


async def show_live(run: Run[Any], request: Any, detached: str) -> Any:
    """Print each step of a run as it happens, and return its result.

    On Ctrl-C it says what `detached` means. Raises RunFailedError and RunCancelledError.
    """
    console = Console(stderr=True)
    try:
        with console.status(run.loop.doing) if console.is_terminal else nullcontext() as status:
            live = Live(run, request, console, status)
            result = await live.follow()
    except asyncio.CancelledError:
        tell(f"\nDetached; {detached}")
        raise
    live.end(result)
    return result


async def slow(run: Run[Any]) -> str | None:
    """Read how far the search for documents is, or what the slowest call waits for."""
    try:
        described = await run.handle.describe()
    except RPCError:
        return None
    # What a call's worker wrote was encrypted for the call.
    pending, known = described.raw_description.pending_activities, run.temporal.data_converter
    if said := stuck_words(described.raw_description.pending_workflow_task.attempt):
        return said
    for call in pending:
        if call.activity_type.name == "retrieve":
            details = list(call.heartbeat_details.payloads)
            return terminal.reading_words(await known.decode(details))
        if call.last_failure.HasField("encoded_attributes"):
            error = await known.decode_failure(call.last_failure)
            call.last_failure.message = getattr(error, "message", "")
    return terminal.slow_words(pending, datetime.now(UTC))


async def follow(run: Run[Any], request: Any, wanted: Wanted) -> Exit:
    """Show each step of a run as it happens, then the result; Ctrl-C detaches.

    If the run was started and not found, a request that the worker refuses is wrong usage.
    """
    detached = f"the run continues. To follow it:\n    mull watch {run.id}"
    if wanted.out is not None:
        there = f"mull show {run.id} > {shlex.quote(str(wanted.out))}"
        detached += f"\n{wanted.out} was not written. Once the run has ended:\n    {there}"
    try:
        result = await show_live(run, request, detached)
    except (RunFailedError, RunCancelledError) as error:
        code = await ended_badly(error, run, wanted.as_json)
        started = run.description is None
        refused = started and getattr(error, "kind", None) == INVALID
        return Exit.USAGE if refused else code
    sheet = run.loop.sheet(result, request)
    # It may have gone on in a new history.
    return show_result(run, sheet, result, (await run.handle.describe()).run_id, wanted)


def show_result(
    run: Run[Any],
    sheet: Sheet,
    result: Any,
    run_id: str | None,
    wanted: Wanted,
    *,
    decisions: bool = False,
) -> Exit:
    """Print a result; the exit code says whether it can be relied on.

    The answer of a run with drafts goes alone to standard output or to its file, and the details
    to standard error. Any other result goes to standard output as a whole.
    """
    answer, out, loop = sheet.answer, wanted.out, run.loop
    if out is not None and answer is None:
        tell(f"{out} was not written: there is no output.")
    elif out is not None and answer is not None:
        instead = f" `mull show {run.id}` prints the result."
        write_file(out, terminal.with_newline(answer.content), answer.title, instead)
    why_not = against(loop, result, wanted)
    if wanted.as_json:
        print_record(run, result, loop.doubt(result, wanted.required))
    else:
        console = Console(stderr=loop.writes)
        if loop.reply is not None:
            reply = Line(terminal_safe(loop.reply(result), REPLY_COLUMNS), "bold")
            end = "\n" * (1 + wanted.details)
            console.print(reply, soft_wrap=not console.is_terminal, end=end)
        elif loop.writes and answer is not None and out is None:
            terminal.print_answer(answer)
        if loop.reply is None or wanted.details:
            terminal.print_sheet(console, sheet, decisions=decisions)
        else:
            terminal.print_summary(console, sheet, run.id, sure=not why_not)
        if wanted.web_ui and (page := run_page(run.id, run_id)):
            tell(f"Web UI: {page}")
        say_further(run)
    if why_not:
        tell(why_not)
    return Exit.BELOW_BAR if why_not else Exit.DONE


def print_record(run: Run[Any], record: Any, doubt: str = "") -> None:
    """Print the record of a run as JSON, with its id and, where it has ended, its doubt."""
    document = {"id": run.id, "doubt": doubt or None, **dict(record)}
    sys.stdout.write(to_json(document, inf_nan_mode="null").decode() + "\n")


def against(loop: Loop, result: Any, wanted: Wanted) -> str:
    """Say what speaks against building on a result: a bar that it misses, or a doubt."""
    if wanted.required is not None and (missed := loop.below(result, wanted.required)):
        return f"Not to be built on: {missed}, which was required."
    missing = loop.answers and loop.sheet(result).answer is None
    if not result.doubt or (wanted.accept_any and not missing):
        return ""
    said = f"Not to be built on: {result.doubt}."
    return said if missing else f"{said} With --accept-any the exit code is 0."


def say_further(run: Run[Any]) -> None:
    """Print how to get what the result alone does not show, if there is more."""
    if run.loop.further:
        tell(run.loop.further.format(id=run.id))


async def ended_badly(
    error: RunFailedError | RunCancelledError, run: Run[Any], as_json: bool, *, whole: bool = False
) -> Exit:
    """Print how a run ended without a result and what it has so far; return the exit code.

    With `whole`, everything known is shown, not only the best draft.
    """
    loop, status, said = run.loop, "cancelled", "The run was cancelled."
    if isinstance(error, RunFailedError):
        status = "terminated" if error.kind == TERMINATED else "failed"
        why = terminal_safe(f"{error.kind}: {error.message}", 1_000)
        said = "the run was terminated." if error.kind == TERMINATED else f"the run failed. {why}"
    seen = await run.glance() if loop.writes or whole else None
    sheet = loop.stood_at(seen) if seen else None
    best = sheet.answer if sheet and loop.writes else None
    if as_json:
        more = {"draft": best.content if best else None} if loop.writes else {}
        print_json({"id": run.id, "status": status, "error": said, **more})
    elif best is not None:
        terminal.print_answer(best)
        where = "" if whole else f" See `mull show {run.id}` for the details."
        said = f"{said} Its best draft so far is printed.{where}"
    elif loop.writes and seen is None and status != "failed":
        said = f"{said} No worker answers, so its drafts can't be read now."
    tell(said if status == "cancelled" else f"Error: {said}")
    if isinstance(error, RunFailedError) and (shown := SHOWN_BY_DOCTOR.get(error.kind)):
        tell(f"`mull doctor` shows {shown}.")
    if sheet and whole and not as_json:
        console = Console(stderr=True)
        terminal.print_sheet(console, sheet, subject=True, decisions=True, label="stood at")
    say_further(run)
    return Exit(error.exit_code)
