"""How a run ended, in words and as an exit code."""

import json
import sys

from rich.console import Console
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from commands.rendering import print_result
from commands.session import Exit
from commands.webui import run_page
from reflection.convergence.result import SelfConsistencyResult
from reflection.plain import plain


def show_result(
    handle: WorkflowHandle[object, SelfConsistencyResult],
    result: SelfConsistencyResult,
    as_json: bool,
    bar: float | None,
    run_id: str | None,
) -> Exit:
    """Print a result, and tell by the exit code whether it meets the bar that was asked for."""
    if as_json:
        sys.stdout.write(result.model_dump_json() + "\n")
    else:
        print_result(Console(), result)
        page = run_page(handle.id, run_id)
        if page:
            sys.stderr.write(f"Web UI: {page}\n")
    below = bar is not None and _below(result, bar)
    no_consensus = not result.quorum_met or result.stop_reason == "no_consensus"
    return Exit.BELOW_BAR if below or no_consensus else Exit.DONE


def _below(result: SelfConsistencyResult, bar: float) -> bool:
    """Tell whether a result is below what was required, and say so.

    A confidence that rests on fewer answers than a rule would decide on meets no bar.
    """
    if result.consensus_confidence < bar - 1e-9:
        said = f"confidence {result.consensus_confidence:.2f} is below {bar:g}"
    elif result.cut_short:
        said = f"a run that was cut short can't show a confidence of {bar:g}"
    else:
        return False
    sys.stderr.write(f"{said}, which was required.\n")
    return True


def ended_badly(error: WorkflowFailureError, run: str, as_json: bool) -> Exit:
    """Say how a run ended without a result, and give its exit code."""
    status, said = _how(error.cause)
    if as_json:
        sys.stdout.write(json.dumps({"id": run, "status": status, "error": said}) + "\n")
    sys.stderr.write(f"{said}\n" if status == "cancelled" else f"Error: {said}\n")
    return Exit.CANCELLED if status == "cancelled" else Exit.FAILED


def _how(cause: BaseException) -> tuple[str, str]:
    if isinstance(cause, CancelledError):
        return "cancelled", "The run was cancelled."
    if isinstance(cause, TerminatedError):
        return "terminated", "the run was terminated."
    said = str(cause)
    if isinstance(cause, ApplicationError):
        said = f"{cause.type}: {cause.message}"
    return "failed", f"the run failed. {plain(said, 1_000)}"
