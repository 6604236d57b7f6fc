"""`review`, `finish`, `cancel` and `add`: a person's updates to an open run."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from commands.inputs import read_text
from commands.options import Id, Json
from commands.session import Exit, fail, unserved, with_client

if TYPE_CHECKING:
    from datetime import datetime

    from temporalio.client import Client

    from commands.loops import Loop, Run
    from reflection.run import Request

    Sent = TypeVar("Sent", bound=Request)

HELP = """Review a result that waits for a person: show it, or decide on it.

Without an option, show the draft, its evaluation, its feedback and how long the run waits.

Examples:

    mull review reflect-compare-kafka-7f3a91c2

    mull review reflect-compare-kafka-7f3a91c2 --accept --author ann

    mull review reflect-compare-kafka-7f3a91c2 --revise "name the license of each"

    mull review reflect-compare-kafka-7f3a91c2 --replace answer.md
"""
PATIENCE_SECONDS = 20
NO_REVIEW = "it can't be reviewed"
DONE = {
    "accept": "accepted",
    "revise": "one more revision follows",
    "replace": "replaced",
    "score": "scored",
}
GIVEN = {"accept": "", "revise": ' "WHAT TO CHANGE"', "replace": " FILE", "score": " 0.8"}

Author = Annotated[str | None, typer.Option(help="Your name, recorded in the decisions.")]


def review(
    run: Id,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the result as it is.")] = False,
    revise: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Ask for one more revision: what to change.")
    ] = None,
    replace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Replace the result by this text; - reads stdin."),
    ] = None,
    score: Annotated[
        float | None, typer.Option(help="Your own score, 0 to 1; it ends the run, whatever it is.")
    ] = None,
    draft: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The draft you reviewed; refuse if another is waiting."
        ),
    ] = None,
    author: Author = None,
    as_json: Json = False,
) -> None:
    """Show what waits for a review, or send a review."""
    given: dict[str, object] = {"accept": accept, "revise": revise, "score": score}
    if replace is not None:
        given["replace"] = read_text("--replace", replace)
    if any(value is not None and value is not False for value in given.values()):
        from reflection.run import Review

        given |= {"author": author, "draft": None if draft is None else draft - 1}
        valid(Review, **given)
        with_client(lambda client: _send(client, run, given, as_json))
    if author is not None or draft is not None:
        alone = "--draft" if author is None else "--author"
        fail(f"{alone} needs --accept, --revise, --replace or --score.", Exit.USAGE)
    with_client(lambda client: _show(client, run, as_json))


def finish(run: Id, author: Author = None, as_json: Json = False) -> None:
    """End a run with the answers, drafts or runs it has, and cancel the calls in flight.

    Example: mull finish ask-is-91-prime-7f3a91c2 --author ann
    """
    with_client(lambda client: _finish(client, run, author, as_json))


def cancel(run: Id, as_json: Json = False) -> None:
    """Cancel a run and its calls in flight; it ends as cancelled, without a result.

    Example: mull cancel ask-is-91-prime-7f3a91c2
    """
    with_client(lambda client: _cancel(client, run, as_json))


def add(
    run: Id,
    answer: Annotated[str, typer.Argument(help="The answer; it votes like any other.")],
    author: Author = None,
    as_json: Json = False,
) -> None:
    """Add an answer of your own to a run, as the next vote.

    Example: mull add ask-is-91-prime-7f3a91c2 "no" --author ann
    """
    with_client(lambda client: _add(client, run, answer, author, as_json))


async def _send(client: "Client", run: str, given: dict[str, object], as_json: bool) -> Exit:
    from commands.loops import SAMPLING, reach_open
    from reflection.run import Review

    found = await reach_open(client, run)
    _refuse_batch(found, NO_REVIEW)
    text = given.get("replace")
    if found.loop is SAMPLING and isinstance(text, str):
        # Leave out the newline at the end of a file.
        given["replace"] = text.strip()
    said = valid(Review, **given)
    await update(client, found, "review", said)
    note(found.loop, said.action)
    return done(run, DONE[said.action], as_json)


def note(loop: "Loop", action: str) -> None:
    """Print that a text that replaces a result is not checked."""
    if action == "replace" and loop.unchecked:
        sys.stderr.write(f"Note: {loop.unchecked}.\n")


async def _show(client: "Client", run: str, as_json: bool) -> Exit:
    from rich.console import Console

    from commands.loops import reach_open, standing_of
    from commands.terminal import print_review

    found = await reach_open(client, run)
    _refuse_batch(found, NO_REVIEW)
    seen, loop = await standing_of(found), found.loop
    sheet = loop.sheet(seen.progress, seen.decisions)
    if sheet.waiting is None:
        fail(f"the run is not waiting for a review. See `mull show {run}`.", Exit.USAGE)
    until = sheet.waiting.until
    if as_json:
        document = {
            "id": run,
            "workflow": loop.workflow,
            "review_until": until.isoformat() if until else None,
            "actions": list(loop.actions),
            **loop.reviewed(seen.progress),
        }
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        print_review(Console(), sheet)
        _print_choices(run, until, loop.actions)
    return Exit.DONE


def _print_choices(run: str, until: "datetime | None", actions: tuple[str, ...]) -> None:
    from datetime import UTC, datetime

    from reflection.text import lasting_words, until_words

    if until is None:
        sys.stderr.write("It waits without a time limit.\n")
    else:
        left = max(0, round((until - datetime.now(UTC)).total_seconds()))
        sys.stderr.write(f"It waits {until_words(until)}, {lasting_words(left)} more.\n")
    sys.stderr.write("To decide, run one of:\n")
    for action in actions:
        sys.stderr.write(f"    mull review {run} --{action}{GIVEN[action]}\n")


async def _finish(client: "Client", run: str, author: str | None, as_json: bool) -> Exit:
    from commands.loops import reach_open
    from reflection.run import Finish

    found = await reach_open(client, run)
    await update(client, found, "finish_now", valid(Finish, author=author))
    return done(run, "finishing", as_json)


async def _cancel(client: "Client", run: str, as_json: bool) -> Exit:
    from commands.loops import reach_open

    found = await reach_open(client, run)
    await found.handle.cancel()
    return done(run, "cancelling", as_json)


async def _add(client: "Client", run: str, answer: str, author: str | None, as_json: bool) -> Exit:
    from commands.loops import SAMPLING, reach_open
    from reflection.sampling.result import PersonsAnswer

    found = await reach_open(client, run)
    _refuse_batch(found, "only runs of `ask` take answers")
    if found.loop is not SAMPLING:
        fail("only runs of `ask` take answers. For this run, use `mull review`.", Exit.USAGE)
    given = valid(PersonsAnswer, answer=answer, author=author)
    index = await update(client, found, "add_answer", given)
    number = index + 1 if isinstance(index, int) else "?"
    return done(run, f"added as answer {number}, counted after the wave in flight", as_json)


def _refuse_batch(run: "Run", instead: str) -> None:
    if not run.loop.answers:
        fail(f"{run.handle.id} is a batch of runs; {instead}.", Exit.USAGE)


def valid(kind: "type[Sent]", **fields: object) -> "Sent":
    """Build the argument of an update, or exit with an error."""
    from pydantic import ValidationError

    from reflection.run import explain

    try:
        return kind(**fields)
    except ValidationError as error:
        fail(f"{explain(error)}.", Exit.USAGE)


async def update(client: "Client", run: "Run", name: str, argument: object) -> object:
    """Send an update and return its result, or exit if it is refused."""
    from temporalio.client import (
        WorkflowUpdateFailedError,
        WorkflowUpdateRPCTimeoutOrCancelledError,
    )

    if await unserved(client, ("mull",)):
        said = 'no worker is polling task queue "mull".'
        fail(f"{said} Start one with `mull-worker`, then try again.", Exit.UNREACHABLE)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await run.handle.execute_update(name, argument)
    except WorkflowUpdateFailedError as error:
        fail(f"refused: {getattr(error.cause, 'message', error.cause)}.", Exit.USAGE)
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
        said = f"no worker answered within {PATIENCE_SECONDS} s."
        later = "The update was accepted and applies as soon as a worker is back."
        fail(f"{said} {later}", Exit.UNREACHABLE)


def done(run: str, what: str, as_json: bool) -> Exit:
    """Report what was done: on standard error, or as a JSON document."""
    if as_json:
        sys.stdout.write(json.dumps({"id": run, "done": what}) + "\n")
    else:
        sys.stderr.write(f"{what}\n")
    return Exit.DONE
