"""How a run ended, in words and as an exit code."""

import json
import sys

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from commands.console import fail
from commands.kinds import Answering, AnyAnswering, AnyKind
from commands.runs.reaching import Handle, look
from commands.session import Exit
from commands.webui import run_page
from reflection.run import Record
from reflection.text import terminal_safe


def show_result(
    handle: Handle,
    kind: AnyKind,
    result: Record,
    as_json: bool,
    bar: float | None,
    run_id: str | None,
) -> Exit:
    """Print a result, and tell by the exit code whether it meets the bar that was asked for."""
    _keep(handle, kind, result)
    if as_json:
        sys.stdout.write(result.model_dump_json() + "\n")
    else:
        kind.print_result(result)
        page = run_page(handle.id, run_id)
        if page:
            sys.stderr.write(f"Web UI: {page}\n")
        say_further(handle, kind)
    return (
        Exit.BELOW_BAR if isinstance(kind, Answering) and _misses(kind, result, bar) else Exit.DONE
    )


def _keep(handle: Handle, kind: AnyKind, result: Record) -> None:
    try:
        kind.keep(result)
    except OSError as error:
        said = f"{error.filename} can't be written: {error.strerror}"
        fail(f"{said}; `starter.py show {handle.id}` prints the result.", Exit.FAILED)


def _misses(kind: AnyAnswering, result: Record, bar: float | None) -> bool:
    missed = None if bar is None else kind.below(result, bar)
    if missed is not None:
        sys.stderr.write(f"{missed}, which was required.\n")
    return missed is not None or not kind.conclusive(result)


def say_further(handle: Handle, kind: AnyKind) -> None:
    """Say how to get what a result alone does not tell, where there is more."""
    said = kind.further(handle.id)
    if said:
        sys.stderr.write(f"{said}\n")


async def ended_badly(
    error: WorkflowFailureError,
    handle: Handle,
    kind: AnyKind,
    as_json: bool,
    *,
    whole: bool = False,
) -> Exit:
    """Say how a run ended without a result, give what it has all the same, and its exit code.

    `whole` asks for all that is known of a run with drafts, and not for the best of them alone.
    """
    status, said = _how(error.cause)
    drafting = kind if isinstance(kind, Answering) and kind.keeps_drafts else None
    seen = await look(handle, kind) if drafting else None
    draft = drafting.so_far(seen[0]) if drafting and seen else None
    if as_json:
        more = {"draft": draft} if drafting else {}
        document = {"id": handle.id, "status": status, "error": said, **more}
        sys.stdout.write(json.dumps(document) + "\n")
    elif drafting and draft is not None:
        drafting.print_draft(draft)
        where = "" if whole else f" `starter.py show {handle.id}` says what it rests on."
        said = f"{said} What is printed is its best draft so far.{where}"
    elif drafting and seen is None and status != "failed":
        said = f"{said} No worker answers, so that its drafts can't be had just now."
    sys.stderr.write(f"{said}\n" if status == "cancelled" else f"Error: {said}\n")
    if drafting and seen and whole and not as_json:
        drafting.print_standing(*seen, ended=True)
    say_further(handle, kind)
    return exit_code(error)


def exit_code(error: WorkflowFailureError) -> Exit:
    """Tell a cancelled run from one that failed."""
    return Exit.CANCELLED if isinstance(error.cause, CancelledError) else Exit.FAILED


def _how(cause: BaseException) -> tuple[str, str]:
    if isinstance(cause, CancelledError):
        return "cancelled", "The run was cancelled."
    if isinstance(cause, TerminatedError):
        return "terminated", "the run was terminated."
    said = str(cause)
    if isinstance(cause, ApplicationError):
        said = f"{cause.type}: {cause.message}"
    return "failed", f"the run failed. {terminal_safe(said, 1_000)}"
