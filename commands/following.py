"""Starting a run and following it: waves on standard error, the result on standard output."""

import asyncio
import re
import sys
import uuid
from contextlib import nullcontext, suppress
from datetime import timedelta

from rich.console import Console
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError

from commands.console import fail
from commands.rendering import print_result, print_wave
from commands.session import Exit, unserved
from commands.webui import run_page
from connection import TASK_QUEUE
from reflection.convergence.outcome import standing
from reflection.convergence.request import SelfConsistencyRequest
from reflection.convergence.result import Decision, Progress, SelfConsistencyResult
from reflection.plain import plain

WORKFLOW = "SelfConsistencyWorkflow"
QUEUES = (TASK_QUEUE, "mull-llm")
LOOK_SECONDS = 0.4
SUMMARY_BYTES = 200


async def start(
    client: Client,
    request: SelfConsistencyRequest,
    workflow_id: str | None,
    detach: bool,
    as_json: bool,
    bar: float | None,
) -> Exit:
    """Start a run and follow it; detached, print its id at once."""
    missing = await unserved(client, QUEUES)
    if missing:
        _say_unserved(missing, waits=detach)
    chosen = workflow_id or new_id("ask", request.question)
    try:
        handle: WorkflowHandle[object, SelfConsistencyResult] = await client.start_workflow(
            WORKFLOW,
            request,
            id=chosen,
            task_queue=TASK_QUEUE,
            result_type=SelfConsistencyResult,
            static_summary=_summary(request.question),
        )
    except WorkflowAlreadyStartedError:
        fail(f"a run with the id {chosen} is under way. Watch it, or choose another.", Exit.USAGE)
    if detach:
        sys.stdout.write(f'{{"id": "{chosen}"}}\n' if as_json else f"{chosen}\n")
        return Exit.DONE
    Console(stderr=True).print(f"run {chosen}", style="dim", markup=False, highlight=False)
    return await follow(handle, request, as_json, bar)


async def follow(
    handle: WorkflowHandle[object, SelfConsistencyResult],
    request: SelfConsistencyRequest,
    as_json: bool,
    bar: float | None,
) -> Exit:
    """Show each wave as it is counted, then the result; Ctrl-C detaches."""
    console = Console(stderr=True)
    ending = asyncio.create_task(handle.result())
    try:
        await _show_waves(console, handle, request, ending)
        result = await ending
    except WorkflowFailureError as error:
        return ended_badly(error)
    except asyncio.CancelledError:
        sys.stderr.write(f"\nDetached; the run goes on: starter.py watch {handle.id}\n")
        raise
    return show_result(handle, result, as_json, bar)


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


def new_id(command: str, text: str) -> str:
    """Make a workflow id that reads well in a list: the command, a few words, eight characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:6]
    slug = "-".join(words)[:32].strip("-")
    return "-".join(part for part in (command, slug, uuid.uuid4().hex[:8]) if part)


def _summary(question: str) -> str:
    line = plain(question, 120)
    return line.encode()[:SUMMARY_BYTES].decode(errors="ignore")


def _say_unserved(queues: list[str], *, waits: bool) -> None:
    said = f"no worker polls {' and '.join(queues)}"
    hint = "Start one with `worker.py`, or an embedded one with `starter.py dev`."
    if not waits:
        fail(f"{said}.\n{hint}", Exit.UNREACHABLE)
    sys.stderr.write(f"Note: {said}; the run waits until one does.\n")


async def _show_waves(
    console: Console,
    handle: WorkflowHandle[object, SelfConsistencyResult],
    request: SelfConsistencyRequest,
    ending: "asyncio.Task[SelfConsistencyResult]",
) -> None:
    shown, silent = 0, False
    with console.status("asking") if console.is_terminal else nullcontext():
        while not ending.done():
            await asyncio.wait({ending}, timeout=LOOK_SECONDS)
            if ending.done():
                break
            decisions = await _decisions(handle)
            if decisions is None and not silent:
                sys.stderr.write("no worker answers just now; the run waits for one\n")
            silent = decisions is None
            shown = _print_waves(console, request, decisions or [], shown)
        if ending.exception() is None:
            _print_waves(console, request, list(ending.result().decisions), shown)


async def _decisions(
    handle: WorkflowHandle[object, SelfConsistencyResult],
) -> list[Decision] | None:
    with suppress(RPCError):
        found: list[Decision] = await handle.query(
            "decisions", result_type=list[Decision], rpc_timeout=timedelta(seconds=10)
        )
        return found
    description = await handle.describe()
    return None if description.status is WorkflowExecutionStatus.RUNNING else []


def _print_waves(
    console: Console, request: SelfConsistencyRequest, decisions: list[Decision], shown: int
) -> int:
    """Print the waves after the first `shown`; return how many are shown now."""
    last = {each.wave: number for number, each in enumerate(decisions) if each.wave}
    for wave, number in sorted(last.items()):
        if wave > shown:
            until = decisions[: number + 1]
            print_wave(console, standing(request, until), until)
    return max([shown, *last])


async def standing_of(
    handle: WorkflowHandle[object, SelfConsistencyResult],
) -> tuple[Progress, list[Decision]]:
    """Ask a running run where it stands; a worker has to answer."""
    patience = timedelta(seconds=10)
    try:
        standing_now: Progress = await handle.query(
            "progress", result_type=Progress, rpc_timeout=patience
        )
        decisions: list[Decision] = await handle.query(
            "decisions", result_type=list[Decision], rpc_timeout=patience
        )
    except RPCError:
        fail("the run goes on, and no worker answers for it just now.", Exit.UNREACHABLE)
    return standing_now, decisions
