"""Start a run and follow it: its steps on standard error, the result on standard output."""

import asyncio
import json
import re
import shlex
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text as Line
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

from activities.doctor import DoctorRequest
from commands import terminal
from commands.command import (
    AcceptAny,
    Again,
    Detach,
    Exit,
    Json,
    NewId,
    fail,
    run_page,
    say_unserved,
    tell,
    unserved,
    write_file,
)
from commands.doctor import examine
from commands.live import show_live
from commands.loops import ASKED, Handle, Loop, Seen, look, loop_of, reach, request_of
from connection import TASK_QUEUE
from reflection.history import task_timeout
from reflection.request import Request
from reflection.sampling.loop import Sampling
from reflection.sampling.result import Bars
from reflection.sheet import Sheet
from reflection.text import terminal_safe

ANEW = WorkflowIDReusePolicy.ALLOW_DUPLICATE
UNLESS_DONE = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
SUMMARY_BYTES = 200
REPLY_COLUMNS = 2_000
# So a list of 80 columns has room for the id, how the run ended, its start and its result.
SLUG_COLUMNS = 16
# What `mull doctor` shows of the workers after an error of this type.
SHOWN_BY_DOCTOR = {
    "RetrievalError": "the folders that may be searched",
    "AuthenticationError": "the keys that are set",
}


class Wanted(NamedTuple):
    """How a result is printed, and what it is held to.

    `required` is a score, or an answer's bars; `out` is a file for the answer, otherwise printed.
    With `accept_any` a doubtful result is as good as any other. `web_ui` adds the run's address.
    Without `details` an answer comes with what matters most, in five lines.
    """

    as_json: Json = False
    accept_any: AcceptAny = False
    required: Bars | float | None = None
    out: Path | None = None
    web_ui: bool = True
    details: bool = True


class New(NamedTuple):
    """Under which id a run is started, even if one is done (`again`), and whether to detach."""

    workflow_id: NewId = None
    again: Again = False
    detach: Detach = False


async def start(client: Client, request: Request, new: New, wanted: Wanted) -> Exit:
    """Start a run and follow it, or print its id at once.

    The result of a run that is done is printed as if it had just ended, and nothing is paid.
    """
    loop = loop_of(request)
    if missing := await unserved(client, loop.queues(request)):
        say_unserved(missing, "run", waits=new.detach)
    for queue in await unserved(client, loop.optional_queues(request)):
        said = f'no worker is polling task queue "{queue}"'
        tell(f"Note: {said}; a run that needs it waits for a worker.")
    bars = wanted.required
    may_be_done = new.workflow_id is not None and not new.again
    if isinstance(bars, Bars) and bars.probability is not None and not may_be_done:
        await _expect_map(client, request)
    subject = getattr(request, loop.request.subject_field)
    # Ids are never encrypted.
    words = subject if client.data_converter.payload_codec is None else ""
    chosen = new.workflow_id or new_id(loop.command, words)
    summary = terminal_safe(subject, 120).encode()[:SUMMARY_BYTES].decode(errors="ignore")
    try:
        handle: Handle = await client.start_workflow(
            loop.workflow,
            request,
            id=chosen,
            task_queue=TASK_QUEUE,
            task_timeout=task_timeout(request),
            result_type=loop.result,
            static_summary=summary,
            memo={ASKED: summary},
            # What has failed, or was cancelled, has no result, and is started anew.
            id_reuse_policy=ANEW if new.again else UNLESS_DONE,
        )
    except WorkflowAlreadyStartedError:
        handle = await _done(client, chosen, request)
    if new.detach:
        sys.stdout.write(json.dumps({"id": chosen}) + "\n" if wanted.as_json else f"{chosen}\n")
        return Exit.DONE
    Console(stderr=True).print(f"run {chosen}", style="dim", markup=False, highlight=False)
    return await follow(handle, loop, request, wanted)


async def _expect_map(client: Client, request: Any) -> None:
    """Exit before anything is paid if no map can tell the probability that is required."""
    if request.calibration is not None:
        setup = Sampling(request).setup
        known = {"model": setup.model or request.calibration.model}
        if differs := request.calibration.differences(setup.model_copy(update=known), by_hand=True):
            fail(f"--calibration: the map does not fit: {'; '.join(differs)}.", Exit.USAGE)
        return
    checks = await examine(client, DoctorRequest(offline=True), timedelta(seconds=10))
    states = {check.state for check in checks if check.area in {"calibration", "workers"}}
    if not states & {"ok", "wrong"}:
        said = "--require-probability: without a calibration map no probability is known"
        how = "Fit one with `mull replay --calibrate MAP.json`, and give it with --calibration."
        fail(f"{said}, and the worker has none. {how}", Exit.USAGE)
    tell("Note: the probability will be known only if a map of the worker fits this run.")


async def _done(client: Client, run: str, request: Request) -> Handle:
    """Find the run that is done and was started by the same request, or exit."""
    found = await reach(client, run)
    if found.goes_on:
        said = f"a run with the id {run} is already running. Watch it, or choose another id."
        fail(said, Exit.USAGE)
    # Who watches is no part of what is asked, nor is what a long run carries into a new history.
    asked, left = (await request_of(client, found), request), {"stream", "carried"}
    earlier, now = (one and one.model_dump(exclude=left) for one in asked)
    if earlier != now:
        said = f"the run with the id {run} is done, and had another request."
        fail(f"{said} Choose another id, or start anew with --again.", Exit.USAGE)
    tell("This run is done, so nothing is paid again; --again starts it anew.")
    return found.handle


async def follow(handle: Handle, loop: Loop, request: Any, wanted: Wanted) -> Exit:
    """Show each step of a run as it happens, then the result; Ctrl-C detaches."""
    ending = asyncio.create_task(handle.result())
    try:
        await show_live(handle, loop, request, ending)
        result = await ending
    except WorkflowFailureError as error:
        return await ended_badly(error, handle, loop, wanted.as_json)
    except asyncio.CancelledError:
        tell(f"\nDetached; the run continues. To follow it:\n    mull watch {handle.id}")
        if wanted.out is not None:
            there = f"mull show {handle.id} > {shlex.quote(str(wanted.out))}"
            tell(f"{wanted.out} was not written. Once the run has ended:\n    {there}")
        raise
    sheet = loop.sheet(result, (), request)
    # It may have gone on in a new history.
    return show_result(handle, loop, sheet, result, (await handle.describe()).run_id, wanted)


def show_result(
    handle: Handle,
    loop: Loop,
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
    answer, out = sheet.answer, wanted.out
    if out is not None and answer is None:
        tell(f"{out} was not written: there is no output.")
    elif out is not None and answer is not None:
        instead = f" `mull show {handle.id}` prints the result."
        write_file(out, terminal.with_newline(answer.content), answer.title, instead)
    against = loop.against(result, wanted.required, accept_any=wanted.accept_any)
    if wanted.as_json:
        sys.stdout.write(result.model_dump_json() + "\n")
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
            terminal.print_summary(console, sheet, sure=not against)
        if wanted.web_ui and (page := run_page(handle.id, run_id)):
            tell(f"Web UI: {page}")
        say_further(handle, loop)
    if against:
        tell(against)
    return Exit.BELOW_BAR if against or (loop.answers and answer is None) else Exit.DONE


def say_further(handle: Handle, loop: Loop) -> None:
    """Print how to get what the result alone does not show, if there is more."""
    if loop.further:
        tell(loop.further.format(id=handle.id))


async def ended_badly(
    error: WorkflowFailureError, handle: Handle, loop: Loop, as_json: bool, *, whole: bool = False
) -> Exit:
    """Print how a run ended without a result and what it has so far; return the exit code.

    With `whole`, everything known is shown, not only the best draft.
    """
    cause = error.cause
    status, said, hint = "failed", f"the run failed. {terminal_safe(str(cause), 1_000)}", ""
    if isinstance(cause, CancelledError):
        status, said = "cancelled", "The run was cancelled."
    elif isinstance(cause, TerminatedError):
        status, said = "terminated", "the run was terminated."
    elif isinstance(cause, ApplicationError):
        said = f"the run failed. {terminal_safe(f'{cause.type}: {cause.message}', 1_000)}"
        if shown := SHOWN_BY_DOCTOR.get(cause.type or ""):
            hint = f"`mull doctor` shows {shown}."
    seen = await look(handle, loop) if loop.writes or whole else None
    sheet = stood_at(loop, seen) if seen else None
    best = sheet.answer if sheet and loop.writes else None
    if as_json:
        more = {"draft": best.content if best else None} if loop.writes else {}
        document = {"id": handle.id, "status": status, "error": said, **more}
        sys.stdout.write(json.dumps(document) + "\n")
    elif best is not None:
        terminal.print_answer(best)
        where = "" if whole else f" See `mull show {handle.id}` for the details."
        said = f"{said} Its best draft so far is printed.{where}"
    elif loop.writes and seen is None and status != "failed":
        said = f"{said} No worker answers, so its drafts can't be read now."
    tell(said if status == "cancelled" else f"Error: {said}")
    if hint:
        tell(hint)
    if sheet and whole and not as_json:
        console = Console(stderr=True)
        terminal.print_sheet(console, sheet, subject=True, decisions=True, label="stood at")
    say_further(handle, loop)
    return failure_code(error)


def stood_at(loop: Loop, seen: Seen) -> Sheet:
    """Build the sheet of a run that ended without a result: nothing in it goes on."""
    sheet = loop.sheet(seen.progress.model_copy(update={"in_flight": 0}), seen.decisions)
    facts = tuple(fact for fact in sheet.facts if fact.tone != "running")
    return sheet.model_copy(update={"facts": facts, "waiting": None})


def failure_code(error: WorkflowFailureError) -> Exit:
    """Return the exit code of a run that was cancelled or that failed."""
    return Exit.CANCELLED if isinstance(error.cause, CancelledError) else Exit.FAILED


def new_id(command: str, text: str) -> str:
    """Build a readable workflow id: the command, a few words, eight random characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:6]
    slug = "-".join(words)[:SLUG_COLUMNS].strip("-")
    return "-".join(part for part in (command, slug, uuid.uuid4().hex[:8]) if part)
