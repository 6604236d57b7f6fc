"""`review`: what a person says of a result that waits for one."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import fail
from commands.inputs import read_text
from commands.options import Id, Json
from commands.session import Exit, with_client

if TYPE_CHECKING:
    from temporalio.client import Client

    from commands.kinds import AnyAnswering, Waiting
    from commands.runs.reaching import Seen
    from reflection.run import Review

HELP = """Review a result that waits for a person: see it, or say what becomes of it.

Without an option it shows the draft, its evaluation, its feedback and how long the run waits.

Examples:

    starter.py review reflect-compare-kafka-7f3a91c2

    starter.py review reflect-compare-kafka-7f3a91c2 --accept --author ann

    starter.py review reflect-compare-kafka-7f3a91c2 --revise "name the license of each"

    starter.py review reflect-compare-kafka-7f3a91c2 --replace answer.md
"""

NO_REVIEW = "nobody is asked to review one"

DONE = {
    "accept": "accepted",
    "revise": "one more revision is made",
    "replace": "replaced",
    "score": "scored",
}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("review", help=HELP)(review)


def review(
    run: Id,
    accept: Annotated[bool, typer.Option("--accept", help="Take it as it is.")] = False,
    revise: Annotated[
        str | None, typer.Option(metavar="WORDS", help="What to change: one more revision.")
    ] = None,
    replace: Annotated[
        str | None, typer.Option(metavar="FILE", help="A text to take instead; - is stdin.")
    ] = None,
    score: Annotated[
        float | None, typer.Option(help="Your own score, 0 to 1; it ends the run, however low.")
    ] = None,
    draft: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The draft you looked at; no other is taken."),
    ] = None,
    author: Annotated[
        str | None, typer.Option(help="Who says so; stands in the decisions.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what waits, or send what a person says of it."""
    given: dict[str, object] = {"accept": accept, "revise": revise, "score": score}
    if replace is not None:
        given["replace"] = read_text("--replace", replace)
    if any(each is not None and each is not False for each in given.values()):
        given |= {"author": author, "draft": None if draft is None else draft - 1}
        _said(given)
        with_client(lambda client: _send(client, run, given, as_json))
    if author is not None or draft is not None:
        alone = "--draft" if author is None else "--author"
        fail(f"{alone} goes with --accept, --revise, --replace or --score.", Exit.USAGE)
    with_client(lambda client: _show(client, run, as_json))


def _said(given: dict[str, object]) -> "Review":
    from commands.runs.steering import valid
    from reflection.run import Review

    return valid(Review, **given)


async def _send(client: "Client", run: str, given: dict[str, object], as_json: bool) -> Exit:
    from commands.runs.reaching import answering, reach_open
    from commands.runs.steering import done, update

    found = await reach_open(client, run)
    kind = answering(found, NO_REVIEW)
    text = given.get("replace")
    more = {"replace": kind.replacement(text)} if isinstance(text, str) else {}
    said = _said({**given, **more})
    await update(client, found, "review", said)
    note(kind, said.action)
    return done(run, DONE[said.action], as_json)


def note(kind: "AnyAnswering", action: str) -> None:
    """Say what nobody does with a text that takes a result's place."""
    if action == "replace" and kind.unchecked:
        sys.stderr.write(f"Note: {kind.unchecked}.\n")


async def _show(client: "Client", run: str, as_json: bool) -> Exit:
    from commands.runs.reaching import answering, reach_open, standing_of

    found = await reach_open(client, run)
    kind = answering(found, NO_REVIEW)
    seen = await standing_of(found.handle, kind)
    waiting = kind.waiting(*seen)
    if waiting is None:
        fail("the run does not wait for a review; `starter.py show` says more.", Exit.USAGE)
    if as_json:
        sys.stdout.write(json.dumps(_document(run, kind, seen, waiting)) + "\n")
    else:
        kind.print_review(seen[0])
        _print_choices(run, waiting, tuple(kind.reviews))
    return Exit.DONE


def _document(
    run: str, kind: "AnyAnswering", seen: "Seen", waiting: "Waiting"
) -> dict[str, object]:
    until = waiting.until.isoformat() if waiting.until else None
    about = {"id": run, "workflow": kind.workflow, "review_until": until}
    return {**about, "actions": list(kind.reviews), **kind.review_document(seen[0])}


def _print_choices(run: str, waiting: "Waiting", actions: tuple[str, ...]) -> None:
    from datetime import UTC, datetime

    from reflection.text import lasting_words, until_words

    if waiting.until is None:
        sys.stderr.write("It waits until somebody decides.\n")
    else:
        left = max(0, round((waiting.until - datetime.now(UTC)).total_seconds()))
        more = lasting_words(left)
        sys.stderr.write(f"It waits {until_words(waiting.until)}, {more} more.\n")
    sys.stderr.write("Decide by one of:\n")
    words = {"accept": "", "revise": ' "WHAT TO CHANGE"', "replace": " FILE", "score": " 0.8"}
    for each in actions:
        sys.stderr.write(f"    starter.py review {run} --{each}{words[each]}\n")
