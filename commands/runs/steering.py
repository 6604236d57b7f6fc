"""`finish`, `cancel` and `add`: steering one run while it goes on."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import fail
from commands.runs.showing import Id, Json, handle_of
from commands.session import Exit, unserved, with_client

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle

    from reflection.convergence.result import SelfConsistencyResult
    from reflection.request import Request

PATIENCE_SECONDS = 20

Author = Annotated[str | None, typer.Option(help="Who says so; stands in the decisions.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (finish, cancel, add):
        app.command()(command)


def finish(run: Id, author: Author = None, as_json: Json = False) -> None:
    """End a run with the answers that are in, and cancel the calls in flight.

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
    from reflection.convergence.result import Finish

    await _update(client, run, "finish_now", _valid(Finish, author=author))
    return _done(run, "finishing", as_json)


async def _cancel(client: "Client", run: str, as_json: bool) -> Exit:
    handle = handle_of(client, run)
    await _refuse_if_closed(handle)
    await handle.cancel()
    return _done(run, "cancelling", as_json)


async def _add(client: "Client", run: str, answer: str, author: str | None, as_json: bool) -> Exit:
    from reflection.convergence.result import PersonsAnswer

    given = _valid(PersonsAnswer, answer=answer, author=author)
    index = await _update(client, run, "add_answer", given)
    number = index + 1 if isinstance(index, int) else "?"
    return _done(run, f"added as answer {number}, counted after the wave in flight", as_json)


def _valid(kind: "type[Request]", **fields: object) -> "Request":
    from pydantic import ValidationError

    from reflection.request import explain

    try:
        return kind(**fields)
    except ValidationError as error:
        fail(f"{explain(error)}.", Exit.USAGE)


async def _update(client: "Client", run: str, name: str, argument: object) -> object:
    from temporalio.client import (
        WorkflowUpdateFailedError,
        WorkflowUpdateRPCTimeoutOrCancelledError,
    )

    handle = handle_of(client, run)
    await _refuse_if_closed(handle)
    if await unserved(client, ("mull",)):
        fail("no worker polls mull, so that nobody can take it now.", Exit.UNREACHABLE)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await handle.execute_update(name, argument)
    except WorkflowUpdateFailedError as error:
        fail(f"refused: {getattr(error.cause, 'message', error.cause)}.", Exit.USAGE)
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
        said = f"no worker answered in {PATIENCE_SECONDS} s; it takes effect once one does"
        fail(f"{said}.", Exit.UNREACHABLE)


def _done(run: str, what: str, as_json: bool) -> Exit:
    if as_json:
        sys.stdout.write(json.dumps({"id": run, "done": what}) + "\n")
    else:
        sys.stderr.write(f"{what}\n")
    return Exit.DONE


async def _refuse_if_closed(handle: "WorkflowHandle[object, SelfConsistencyResult]") -> None:
    from temporalio.client import WorkflowExecutionStatus

    description = await handle.describe()
    if description.status is not WorkflowExecutionStatus.RUNNING:
        ended = (description.status.name if description.status else "closed").lower()
        fail(f"the run has ended already ({ended}).", Exit.USAGE)
