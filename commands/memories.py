"""`memory`: what runs of `reflexion` with a memory of one name have learned and share."""

from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.memory import memory_id
from commands import command
from commands.command import Exit, connected, fail, need_workers, print_json, tell
from mull.agents.memory import SharedMemory
from mull.connection import TASK_QUEUE
from mull.news import LOOK
from mull.text import neutral, tally_words


@connected
async def memory(
    client: Client,
    action: Annotated[Literal["show", "clear"], typer.Argument(metavar="show|clear")],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name that was given with --memory.")
    ],
    scope: Annotated[
        str | None,
        typer.Option(metavar="SCOPE", help="Only this scope, by the name that `show` prints."),
    ] = None,
    as_json: command.Json = False,
) -> Exit:
    """Show or clear a memory that runs of reflexion share.

    A memory holds at most 3 reflections for each scope.

    For example:

        mull memory show parsing
        mull memory clear parsing --scope code
    """
    await need_workers(client, (TASK_QUEUE,), "memory")
    handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(memory_id(name))
    try:
        held = await handle.query("memory", result_type=SharedMemory, rpc_timeout=LOOK)
        if scope is not None and scope not in held.scopes:
            known = ", ".join(held.scopes) or "none"
            fail(f"the memory {name} has no scope {scope}; its scopes: {known}.")
        if action == "clear":
            await handle.execute_update("clear", scope)
    except (WorkflowQueryFailedError, WorkflowUpdateFailedError):
        fail(f"the run {memory_id(name)} is not a memory. Choose another name.")
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND or "amespace" in error.message:
            raise
        made = "A run with --memory makes it once it has reflected"
        fail(f"there is no memory {name}. {made}.")
    _print_memory(name, action, held, scope, as_json=as_json)
    return Exit.DONE


def _print_memory(
    name: str, action: str, held: SharedMemory, scope: str | None, *, as_json: bool
) -> None:
    """Print what a memory holds, or how much of it was forgotten."""
    kept = {key: one for key, one in held.scopes.items() if scope in {None, key}}
    counted = tally_words(sum(len(one.reflections) for one in kept.values()), "reflection")
    if as_json:
        shown = {key: one.model_dump(mode="json")["reflections"] for key, one in kept.items()}
        print_json({"name": name, "done": action, "scopes": shown})
    elif action == "clear":
        tell(f"forgot {counted}")
    else:
        console = Console()
        for key, one in kept.items():
            table = Table(title=Text(neutral(key), "bold"), title_justify="left", box=None)
            table.add_column(justify="right", style="dim")
            table.add_column(overflow="fold")
            for place, held_one in enumerate(one.reflections, start=1):
                origin = f"{held_one.task}, episode {held_one.episode} of {held_one.workflow_id}"
                said = Text(neutral(held_one.text)).append(f"\n{neutral(origin)}", "dim")
                table.add_row(str(place), said)
            console.print(table)
        tell(f"{counted} in {tally_words(len(kept), 'scope')}")
