"""`show`, `watch`, `finish`, `cancel` and `add`: one run, by its id."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import fail
from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle

    from reflection.convergence.request import SelfConsistencyRequest
    from reflection.convergence.result import SelfConsistencyResult

Id = Annotated[str, typer.Argument(metavar="ID", help="The workflow's id.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Author = Annotated[str | None, typer.Option(help="Who says so; stands in the decisions.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (show, watch, finish, cancel, add):
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


def finish(run: Id, author: Author = None) -> None:
    """End a run with the answers that are in, and cancel the calls in flight.

    Example: starter.py finish ask-is-91-prime-7f3a91c2 --author ann
    """
    with_client(lambda client: _finish(client, run, author))


def cancel(run: Id) -> None:
    """Cancel a run and its calls in flight: it ends as cancelled, without a result.

    Example: starter.py cancel ask-is-91-prime-7f3a91c2
    """
    with_client(lambda client: _cancel(client, run))


def add(
    run: Id,
    answer: Annotated[str, typer.Argument(help="The answer: a vote like any other.")],
    author: Author = None,
) -> None:
    """Put an answer of your own into a run, as the next vote.

    Example: starter.py add ask-is-91-prime-7f3a91c2 "no" --author ann
    """
    with_client(lambda client: _add(client, run, answer, author))


async def _show(client: "Client", run: str, as_json: bool) -> Exit:
    from rich.console import Console
    from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError

    from commands import following
    from commands.rendering import print_progress

    handle = handle_of(client, run)
    description = await handle.describe()
    if description.status is not WorkflowExecutionStatus.RUNNING:
        try:
            return following.show_result(handle, await handle.result(), as_json, None)
        except WorkflowFailureError as error:
            return following.ended_badly(error)
    progress, decisions = await following.standing_of(handle)
    if as_json:
        sys.stdout.write(progress.model_dump_json() + "\n")
    else:
        print_progress(Console(), progress, decisions)
    return Exit.DONE


async def _watch(client: "Client", run: str, as_json: bool) -> Exit:
    from commands import following

    handle = handle_of(client, run)
    return await following.follow(handle, await request_of(client, handle), as_json, None)


async def _finish(client: "Client", run: str, author: str | None) -> Exit:
    from reflection.convergence.result import Finish

    return await _update(client, run, "finish_now", Finish(author=author), "finishing")


async def _cancel(client: "Client", run: str) -> Exit:
    handle = handle_of(client, run)
    await _refuse_if_closed(handle)
    await handle.cancel()
    sys.stderr.write("cancelling\n")
    return Exit.DONE


async def _add(client: "Client", run: str, answer: str, author: str | None) -> Exit:
    from pydantic import ValidationError

    from reflection.convergence.result import PersonsAnswer
    from reflection.request import explain

    try:
        given = PersonsAnswer(answer=answer, author=author)
    except ValidationError as error:
        fail(f"{explain(error)}.", Exit.USAGE)
    return await _update(client, run, "add_answer", given, "added")


async def _update(client: "Client", run: str, name: str, argument: object, done: str) -> Exit:
    from temporalio.client import WorkflowUpdateFailedError

    handle = handle_of(client, run)
    await _refuse_if_closed(handle)
    try:
        await handle.execute_update(name, argument)
    except WorkflowUpdateFailedError as error:
        fail(f"refused: {getattr(error.cause, 'message', error.cause)}.", Exit.USAGE)
    sys.stderr.write(f"{done}\n")
    return Exit.DONE


async def _refuse_if_closed(handle: "WorkflowHandle[object, SelfConsistencyResult]") -> None:
    from temporalio.client import WorkflowExecutionStatus

    description = await handle.describe()
    if description.status is not WorkflowExecutionStatus.RUNNING:
        ended = (description.status.name if description.status else "closed").lower()
        fail(f"the run has ended already ({ended}).", Exit.USAGE)


async def request_of(
    client: "Client", handle: "WorkflowHandle[object, SelfConsistencyResult]"
) -> "SelfConsistencyRequest":
    """Read from its history what a run was asked for."""
    from reflection.convergence.request import SelfConsistencyRequest

    async for event in handle.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        [request] = await client.data_converter.decode(list(payloads), [SelfConsistencyRequest])
        return SelfConsistencyRequest.model_validate(request)
    return fail("the run has no history.", Exit.FAILED)


def handle_of(client: "Client", run: str) -> "WorkflowHandle[object, SelfConsistencyResult]":
    """Reach a run by its id; whether it exists shows at the first question to it."""
    from reflection.convergence.result import SelfConsistencyResult

    return client.get_workflow_handle(run, result_type=SelfConsistencyResult)
