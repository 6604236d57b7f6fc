"""`show` and `watch`: one run, by its id."""

import sys
from typing import TYPE_CHECKING

import typer

from commands.options import Id, Json
from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client


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
    from temporalio.client import WorkflowFailureError

    from commands.kinds import Answering
    from commands.runs import ending, reaching

    handle, kind, description = found = await reaching.reach(client, run)
    if not found.goes_on:
        try:
            result = await handle.result()
        except WorkflowFailureError as error:
            return await ending.ended_badly(error, handle, kind, as_json, whole=True)
        ended = ending.show_result(handle, kind, result, as_json, None, description.run_id)
        if not as_json and isinstance(kind, Answering):
            kind.print_decisions(result)
        return ended
    progress, decisions = await reaching.standing_of(handle, kind)
    if as_json:
        sys.stdout.write(progress.model_dump_json() + "\n")
    else:
        kind.print_standing(progress, decisions)
        ending.say_further(handle, kind)
    return Exit.DONE


async def _watch(client: "Client", run: str, as_json: bool) -> Exit:
    from commands.runs import reaching
    from commands.starting import following

    found = await reaching.reach(client, run)
    request = await reaching.request_of(client, found)
    return await following.follow(found.handle, found.kind, request, as_json, None)
