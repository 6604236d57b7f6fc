"""Starting a run and following it: its steps on standard error, the result on standard output."""

import asyncio
import json
import re
import sys
import uuid
from contextlib import nullcontext
from typing import Any

from rich.console import Console
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import WorkflowAlreadyStartedError

from commands.console import fail
from commands.kinds import AnyAnswering, AnyKind, Live, kind_for
from commands.rendering.cells import cut
from commands.runs.ending import ended_badly, show_result
from commands.runs.reaching import Handle, look
from commands.session import Exit, say_unserved, unserved
from connection import TASK_QUEUE
from reflection.run import Request
from reflection.text import terminal_safe

LOOK_SECONDS = 0.4
SUMMARY_BYTES = 200


async def start(
    client: Client,
    request: Request,
    workflow_id: str | None,
    detach: bool,
    as_json: bool,
    bar: float | None,
    known: AnyAnswering | None = None,
) -> Exit:
    """Start a run and follow it; detached, print its id at once.

    `known` is what is known of its type, where a command has settings of its own there.
    """
    kind = known or kind_for(request)
    await _look_for_workers(client, kind, request, waits=detach)
    subject = kind.subject(request)
    chosen = workflow_id or new_id(kind.command, subject)
    try:
        handle: Handle = await client.start_workflow(
            kind.workflow,
            request,
            id=chosen,
            task_queue=TASK_QUEUE,
            result_type=kind.result,
            static_summary=_summary(subject),
        )
    except WorkflowAlreadyStartedError:
        fail(f"a run with the id {chosen} is under way. Watch it, or choose another.", Exit.USAGE)
    if detach:
        sys.stdout.write(json.dumps({"id": chosen}) + "\n" if as_json else f"{chosen}\n")
        return Exit.DONE
    Console(stderr=True).print(f"run {chosen}", style="dim", markup=False, highlight=False)
    return await follow(handle, kind, request, as_json, bar)


async def follow(
    handle: Handle, kind: AnyKind, request: Any, as_json: bool, bar: float | None
) -> Exit:
    """Show each step of a run as it is made, then the result; Ctrl-C detaches."""
    console = Console(stderr=True)
    ending = asyncio.create_task(handle.result())
    live = kind.live(console, request, handle.id)
    try:
        if live is not None:
            await _show_live(console, handle, kind, live, ending)
        result = await ending
    except WorkflowFailureError as error:
        return await ended_badly(error, handle, kind, as_json)
    except asyncio.CancelledError:
        sys.stderr.write(f"\nDetached; the run goes on: starter.py watch {handle.id}\n")
        unwritten = kind.unwritten(handle.id)
        sys.stderr.write(f"{unwritten}\n" if unwritten else "")
        raise
    run_id = handle.result_run_id or (await handle.describe()).run_id
    return show_result(handle, kind, result, as_json, bar, run_id)


def new_id(command: str, text: str) -> str:
    """Make a workflow id that reads well in a list: the command, a few words, eight characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:6]
    slug = "-".join(words)[:24].strip("-")
    return "-".join(part for part in (command, slug, uuid.uuid4().hex[:8]) if part)


def _summary(subject: str) -> str:
    line = terminal_safe(subject, 120)
    return line.encode()[:SUMMARY_BYTES].decode(errors="ignore")


async def _look_for_workers(
    client: Client, kind: AnyAnswering, request: Request, *, waits: bool
) -> None:
    missing = await unserved(client, kind.queues(request))
    if missing:
        say_unserved(missing, "run", waits=waits)
    for each in await unserved(client, kind.perhaps(request)):
        sys.stderr.write(f"Note: no worker polls {each}; a run that needs it waits for one.\n")


async def _show_live(
    console: Console, handle: Handle, kind: AnyKind, live: Live, ending: "asyncio.Task[Any]"
) -> None:
    silent = False
    with console.status(kind.doing) if console.is_terminal else nullcontext() as status:
        while not ending.done():
            await asyncio.wait({ending}, timeout=LOOK_SECONDS)
            seen = None if ending.done() else await look(handle, kind)
            if seen is not None:
                if status:
                    status.update(cut(await kind.far(handle, seen[0]) or live.busy(seen[0])))
                live.show(*seen)
                silent = False
            elif not ending.done():
                silent = silent or _say_silent()
    if ending.exception() is None:
        live.end(ending.result())


def _say_silent() -> bool:
    sys.stderr.write("no worker answers just now; the run waits for one\n")
    return True
