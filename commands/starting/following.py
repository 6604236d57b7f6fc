"""Starting a run and following it: waves on standard error, the result on standard output."""

import asyncio
import json
import re
import sys
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta

from rich.console import Console
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from activities import asking
from commands.console import fail
from commands.rendering import print_wave
from commands.runs.ending import ended_badly, show_result
from commands.session import Exit, unserved
from connection import TASK_QUEUE
from reflection.convergence.outcome import standing
from reflection.convergence.request import SelfConsistencyRequest
from reflection.convergence.result import Decision, Progress, SelfConsistencyResult
from reflection.plain import plain

WORKFLOW = "SelfConsistencyWorkflow"
QUEUES = (TASK_QUEUE, asking.TASK_QUEUE)
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
        sys.stdout.write(json.dumps({"id": chosen}) + "\n" if as_json else f"{chosen}\n")
        return Exit.DONE
    Console(stderr=True).print(f"run {chosen}", style="dim", markup=False, highlight=False)
    return await follow(handle, request, as_json, bar)


async def follow(
    handle: WorkflowHandle[object, SelfConsistencyResult],
    request: SelfConsistencyRequest | None,
    as_json: bool,
    bar: float | None,
) -> Exit:
    """Show each wave as it is counted, then the result; Ctrl-C detaches."""
    console = Console(stderr=True)
    ending = asyncio.create_task(handle.result())
    try:
        if request is not None:
            await _show_waves(console, handle, request, ending)
        result = await ending
    except WorkflowFailureError as error:
        return ended_badly(error, handle.id, as_json)
    except asyncio.CancelledError:
        sys.stderr.write(f"\nDetached; the run goes on: starter.py watch {handle.id}\n")
        raise
    run_id = handle.result_run_id or (await handle.describe()).run_id
    return show_result(handle, result, as_json, bar, run_id)


def new_id(command: str, text: str) -> str:
    """Make a workflow id that reads well in a list: the command, a few words, eight characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:6]
    slug = "-".join(words)[:24].strip("-")
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
    with console.status("asking") if console.is_terminal else nullcontext() as status:
        while not ending.done():
            await asyncio.wait({ending}, timeout=LOOK_SECONDS)
            standing_now = None if ending.done() else await _look(handle)
            if standing_now is None and not ending.done():
                silent = silent or _say_silent()
            elif standing_now is not None:
                progress, decisions = standing_now
                if status:
                    status.update(f"wave {progress.wave}: {progress.in_flight} calls under way")
                complete = _complete(decisions, progress.waves)
                shown, silent = _print_waves(console, request, complete, shown), False
    if ending.exception() is None:
        _print_waves(console, request, list(ending.result().decisions), shown)


def _say_silent() -> bool:
    sys.stderr.write("no worker answers just now; the run waits for one\n")
    return True


def _complete(decisions: list[Decision], waves: Sequence[int]) -> list[Decision]:
    """Leave out the newest wave while its answers are still being counted."""
    counted = Counter(each.wave for each in decisions if each.index is not None)
    if not decisions or decisions[-1].stop:
        return decisions
    full = {wave for wave, length in enumerate(waves, 1) if counted[wave] >= length}
    return [each for each in decisions if each.wave in full]


async def _look(
    handle: WorkflowHandle[object, SelfConsistencyResult],
) -> tuple[Progress, list[Decision]] | None:
    """Ask a run where it stands; None where no worker answers."""
    patience = timedelta(seconds=10)
    try:
        progress: Progress = await handle.query(
            "progress", result_type=Progress, rpc_timeout=patience
        )
        decisions: list[Decision] = await handle.query(
            "decisions", result_type=list[Decision], rpc_timeout=patience
        )
    except (RPCError, WorkflowQueryFailedError):
        return None
    return progress, decisions


def _print_waves(
    console: Console, request: SelfConsistencyRequest, decisions: list[Decision], shown: int
) -> int:
    """Print the waves after the first `shown`, and a stop; return how many are shown now."""
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
    found = await _look(handle)
    if found is None:
        fail("the run goes on, and no worker answers for it just now.", Exit.UNREACHABLE)
    return found
