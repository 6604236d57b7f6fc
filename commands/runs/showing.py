"""`show` and `watch`: one run, by its id."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle

    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import SelfConsistencyResult

Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (show, watch):
        app.command()(command)


def show(run: Id, as_json: Json = False) -> None:
    """Show a run: its result, or where it stands.

    Example: starter.py show ask-is-91-prime-7f3a91c2
    """
    with_client(lambda client: _show(client, run, as_json))


def watch(run: Id, as_json: Json = False) -> None:
    """Follow a run live until it ends; Ctrl-C detaches and never cancels.

    Example: starter.py watch ask-is-91-prime-7f3a91c2
    """
    with_client(lambda client: _watch(client, run, as_json))


async def _show(client: "Client", run: str, as_json: bool) -> Exit:
    from rich.console import Console
    from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError

    from commands.rendering import decisions_table, print_progress
    from commands.runs import ending
    from commands.starting import following

    handle = handle_of(client, run)
    description = await handle.describe()
    if description.status is not WorkflowExecutionStatus.RUNNING:
        try:
            result = await handle.result()
        except WorkflowFailureError as error:
            return ending.ended_badly(error, run, as_json)
        ended = ending.show_result(handle, result, as_json, None, description.run_id)
        if not as_json:
            Console().print(decisions_table(result.decisions))
        return ended
    progress, decisions = await following.standing_of(handle)
    if as_json:
        sys.stdout.write(progress.model_dump_json() + "\n")
    else:
        print_progress(Console(), progress, decisions)
    return Exit.DONE


async def _watch(client: "Client", run: str, as_json: bool) -> Exit:
    from commands.starting import following

    handle = handle_of(client, run)
    return await following.follow(handle, await request_of(client, handle), as_json, None)


async def request_of(
    client: "Client", handle: "WorkflowHandle[object, SelfConsistencyResult]"
) -> "SelfConsistencyRequest | None":
    """Read from its history what a run was asked for; None where that was no request."""
    from temporalio.exceptions import ApplicationError

    from reflection.convergence.request import SelfConsistencyRequest

    async for event in handle.fetch_history_events(page_size=1):
        if not event.workflow_execution_started_event_attributes.input.payloads:
            return None
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        with suppress(ApplicationError):
            found = await client.data_converter.decode(list(payloads), [SelfConsistencyRequest])
            return found[0] if found else None
        return None
    return None


def handle_of(client: "Client", run: str) -> "WorkflowHandle[object, SelfConsistencyResult]":
    """Reach a run by its id; whether it exists shows at the first question to it."""
    from reflection.convergence.result import SelfConsistencyResult

    return client.get_workflow_handle(run, result_type=SelfConsistencyResult)
