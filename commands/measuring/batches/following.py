"""Following a batch: how far it is on standard error, and its result."""

import asyncio
import json
import sys
from datetime import timedelta
from typing import Any, NoReturn, TypeAlias

from rich.console import Console
from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowQueryFailedError
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.service import RPCError

from commands.rendering.batch import BatchLive
from commands.session import Exit, fail
from reflection.batch.result import BatchProgress, BatchResult
from reflection.plain import plain

LOOK_SECONDS = 1.0
LOOK = timedelta(seconds=10)

Handle: TypeAlias = WorkflowHandle[Any, BatchResult]


async def followed(handle: Handle, option: str, as_json: bool) -> BatchResult:
    """Show how far a batch is, and return its result; Ctrl-C detaches.

    `option` is what --id takes to find it again. Ends with typer.Exit where there is no result.
    """
    ending = asyncio.create_task(handle.result())
    try:
        await _show(handle, ending)
        return await ending
    except WorkflowFailureError as error:
        _ended_badly(error.cause, option, as_json)
    except asyncio.CancelledError:
        again = f"the same command with --id {option} shows what comes of it"
        sys.stderr.write(f"\nDetached; the batch goes on: {again}\n")
        raise


async def _show(handle: Handle, ending: "asyncio.Task[BatchResult]") -> None:
    """Say how far it is: in a terminal on one line, else at each tenth."""
    console = Console(stderr=True)
    live = BatchLive(console)
    while not ending.done():
        await asyncio.wait({ending}, timeout=LOOK_SECONDS)
        seen = None if ending.done() else await _look(handle)
        if seen is None:
            continue
        if console.is_terminal:
            sys.stderr.write(f"\r{live.busy(seen)}\x1b[K")
            sys.stderr.flush()
        else:
            live.show(seen)
    if console.is_terminal:
        sys.stderr.write("\r\x1b[K")


async def _look(handle: Handle) -> BatchProgress | None:
    try:
        seen: BatchProgress = await handle.query(
            "progress", result_type=BatchProgress, rpc_timeout=LOOK
        )
    except (RPCError, WorkflowQueryFailedError):
        return None
    return seen


def _ended_badly(cause: BaseException, option: str, as_json: bool) -> NoReturn:
    """Say why there is no result, to a machine as a document, and end with the exit code of it."""
    status, said = _how(cause)
    if as_json:
        sys.stdout.write(json.dumps({"id": option, "status": status, "error": said}) + "\n")
    again = f"The same command with --id {option} goes on from the runs that have ended."
    fail(f"{said}. {again}", Exit.CANCELLED if status == "cancelled" else Exit.FAILED)


def _how(cause: BaseException) -> tuple[str, str]:
    if isinstance(cause, CancelledError):
        return "cancelled", "the batch was cancelled"
    if isinstance(cause, TerminatedError):
        return "terminated", "the batch was terminated"
    return "failed", f"the batch failed: {plain(str(cause), 500)}"
