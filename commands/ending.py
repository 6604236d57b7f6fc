"""How a run ended, in words and as an exit code."""

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
) -> Exit:
    """Print a result, and tell by the exit code whether it meets the bar that was asked for."""
    if as_json:
        sys.stdout.write(result.model_dump_json() + "\n")
    else:
        print_result(Console(), result)
        page = run_page(handle.id, handle.result_run_id or handle.run_id)
        if page:
            sys.stderr.write(f"Web UI: {page}\n")
    below = bar is not None and result.consensus_confidence < bar - 1e-9
    no_consensus = not result.quorum_met or result.stop_reason == "no_consensus"
    if below:
        said = f"confidence {result.consensus_confidence:.2f} is below {bar:g}"
        sys.stderr.write(f"{said}, which was required.\n")
    return Exit.BELOW_BAR if below or no_consensus else Exit.DONE


def ended_badly(error: WorkflowFailureError) -> Exit:
    """Say in one line how a run failed, and give its exit code."""
    cause = error.cause
    if isinstance(cause, CancelledError):
        sys.stderr.write("The run was cancelled.\n")
        return Exit.CANCELLED
    if isinstance(cause, TerminatedError):
        sys.stderr.write("Error: the run was terminated.\n")
    elif isinstance(cause, ApplicationError):
        said = plain(f"{cause.type}: {cause.message}", 1_000)
        sys.stderr.write(f"Error: the run failed. {said}\n")
    else:
        sys.stderr.write(f"Error: the run failed. {plain(str(cause), 1_000)}\n")
    return Exit.FAILED
