"""`finish`, `cancel` and `add`: steering one run while it goes on."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from commands.console import fail
from commands.options import Id, Json
from commands.session import Exit, unserved, with_client

if TYPE_CHECKING:
    from temporalio.client import Client

    from commands.runs.reaching import Run
    from reflection.run import Request

    Sent = TypeVar("Sent", bound=Request)

PATIENCE_SECONDS = 20

Author = Annotated[str | None, typer.Option(help="Who says so; stands in the decisions.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (finish, cancel, add):
        app.command()(command)


def finish(run: Id, author: Author = None, as_json: Json = False) -> None:
    """End a run with the answers, drafts or runs that are in, and cancel the calls in flight.

    Example: starter.py finish ask-is-91-prime-7f3a91c2 --author ann
    """
    with_client(lambda client: _finish(client, run, author, as_json))


def cancel(run: Id, as_json: Json = False) -> None:
    """Cancel a run and its calls in flight: it ends as cancelled, without a result.

    Example: starter.py cancel ask-is-91-prime-7f3a91c2
    """
    with_client(lambda client: _cancel(client, run, as_json))


def add(
    run: Id,
    answer: Annotated[str, typer.Argument(help="The answer: a vote like any other.")],
    author: Author = None,
    as_json: Json = False,
) -> None:
    """Put an answer of your own into a run, as the next vote.

    Example: starter.py add ask-is-91-prime-7f3a91c2 "no" --author ann
    """
    with_client(lambda client: _add(client, run, answer, author, as_json))


async def _finish(client: "Client", run: str, author: str | None, as_json: bool) -> Exit:
    from commands.runs.reaching import reach_open
    from reflection.run import Finish

    found = await reach_open(client, run)
    await update(client, found, "finish_now", valid(Finish, author=author))
    return done(run, "finishing", as_json)


async def _cancel(client: "Client", run: str, as_json: bool) -> Exit:
    from commands.runs.reaching import reach_open

    found = await reach_open(client, run)
    await found.handle.cancel()
    return done(run, "cancelling", as_json)


async def _add(client: "Client", run: str, answer: str, author: str | None, as_json: bool) -> Exit:
    from commands.kinds.self_consistency import SelfConsistency
    from commands.runs.reaching import answering, reach_open
    from reflection.sampling.result import PersonsAnswer

    found = await reach_open(client, run)
    answering(found, "only runs of `ask` take answers")
    if not isinstance(found.kind, SelfConsistency):
        fail("only runs of `ask` take answers; `starter.py review` is for this one.", Exit.USAGE)
    given = valid(PersonsAnswer, answer=answer, author=author)
    index = await update(client, found, "add_answer", given)
    number = index + 1 if isinstance(index, int) else "?"
    return done(run, f"added as answer {number}, counted after the wave in flight", as_json)


def valid(kind: "type[Sent]", **fields: object) -> "Sent":
    """Make what is sent; what is wrong with it is one line."""
    from pydantic import ValidationError

    from reflection.run import explain

    try:
        return kind(**fields)
    except ValidationError as error:
        fail(f"{explain(error)}.", Exit.USAGE)


async def update(client: "Client", run: "Run", name: str, argument: object) -> object:
    """Send an update, and return what it gave back; a refusal is one line."""
    from temporalio.client import (
        WorkflowUpdateFailedError,
        WorkflowUpdateRPCTimeoutOrCancelledError,
    )

    if await unserved(client, ("mull",)):
        fail("no worker polls mull, so that nobody can take it now.", Exit.UNREACHABLE)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await run.handle.execute_update(name, argument)
    except WorkflowUpdateFailedError as error:
        fail(f"refused: {getattr(error.cause, 'message', error.cause)}.", Exit.USAGE)
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
        said = f"no worker answered in {PATIENCE_SECONDS} s; it takes effect once one does"
        fail(f"{said}.", Exit.UNREACHABLE)


def done(run: str, what: str, as_json: bool) -> Exit:
    """Say what was done: on standard error, or as a document."""
    if as_json:
        sys.stdout.write(json.dumps({"id": run, "done": what}) + "\n")
    else:
        sys.stderr.write(f"{what}\n")
    return Exit.DONE
