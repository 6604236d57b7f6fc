"""Runs that are found by their ids: of any loop, and of those that have not ended."""

from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus

from activities.memory import WORKFLOW as MEMORY
from activities.memory import memory_id
from commands.command import fail, run_page
from commands.follow import SHOWN_BY_DOCTOR
from commands.html.rendering import RunFacts
from mull.errors import RunCancelledError, RunFailedError
from mull.handle import TERMINATED, Run, described, find
from mull.request import INVALID
from mull.sheet import Sheet, Verdict
from mull.text import terminal_safe


async def reach(client: Client, run: str) -> Run[Any]:
    """Find a run by its id, or exit if its workflow type is not one of Mull's."""
    if run.startswith(memory_id("")):
        seen = await described(client, run)
        if seen is not None and seen.workflow_type == MEMORY:
            name = run.removeprefix(memory_id(""))
            fail(f"{run} is a memory. To see it:\n    mull memory show {name}")
    return await find(client, run)


async def reach_open(client: Client, run: str) -> Run[Any]:
    """Find a run by its id, or exit if it has ended."""
    found = await reach(client, run)
    if not found.goes_on:
        ended = status_words(found.description.status if found.description else None) or "closed"
        fail(f"the run has already ended ({ended}).")
    return found


def facts_of(run: Run[Any], request: Any) -> RunFacts:
    """Say what a page shows of a run that was found, besides its sheet."""
    seen = run.description
    where = run_page(run.id, seen.run_id)
    return RunFacts(run.id, seen.run_id, seen.start_time, seen.close_time, where, request)


def subject_of(run: Run[Any], request: Any) -> str:
    """Return what a run was asked; its id if that is not a text, or can not be read."""
    about = getattr(request, request.subject_field) if request else None
    return about if isinstance(about, str) else run.id


async def last_sheet(run: Run[Any], request: Any) -> Sheet:
    """Build the sheet of a run that has ended, with a result or without."""
    try:
        return run.loop.sheet(await run.result(), request)
    except (RunFailedError, RunCancelledError) as error:
        return error_sheet(error, run, await run.glance(), request)


def error_sheet(
    error: RunFailedError | RunCancelledError, run: Run[Any], seen: Any, request: Any
) -> Sheet:
    """Build the sheet of a run without a result: its error, what to do, and where it stood.

    Its last record and its request are None where nobody knows them.
    """
    words, advice = "the run was cancelled", ""
    if isinstance(error, RunFailedError):
        words = "the run was terminated"
        advice = f"To start it anew, repeat its command with --id {run.id}."
        if error.kind != TERMINATED:
            words = terminal_safe(f"the run failed. {error.kind}: {error.message}", 1_000)
        if error.kind == INVALID:
            advice = "Change the request, and start another run."
        elif shown := SHOWN_BY_DOCTOR.get(error.kind):
            advice = f"`mull doctor` shows {shown}. Mend that first. {advice}"
    about = Sheet(subject=subject_of(run, request), verdict=Verdict(words=""))
    stood = run.loop.stood_at(seen) if seen else about
    flags = (advice, *stood.flags) if advice else stood.flags
    verdict = Verdict(words=words, tone="bad")
    return stood.model_copy(update={"verdict": verdict, "flags": flags})


def status_words(status: WorkflowExecutionStatus | None) -> str | None:
    """Return the name of a status; Temporal's CANCELED is `cancelled` here."""
    if status is WorkflowExecutionStatus.CANCELED:
        return "cancelled"
    return status.name.lower() if status else None
