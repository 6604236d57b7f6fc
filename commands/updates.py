"""`review`, `finish`, `cancel` and `add`: a person's updates to an open run."""

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from temporalio.client import Client

from commands.command import (
    Exit,
    Id,
    Json,
    checked,
    connected,
    fail,
    flag,
    print_json,
    read_given,
    tell,
    with_client,
)
from commands.found import reach_open
from commands.terminal import print_review
from mull.handle import Run
from mull.loops import BATCH, SAMPLING, SESSION, TRAINING, TURN
from mull.request import Finish, Review
from mull.sampling.result import PersonsAnswer
from mull.text import lasting_words, revealed, until_words
from mull.turn.approval import Permission

# A call as `review` shows it: its number, and the beginning of the digest of what is asked.
CALL = re.compile(r"([1-9]\d{0,5})(?:-([0-9a-f]{8}))?")
DONE = {
    "accept": "accepted",
    "revise": "one more revision follows",
    "replace": "replaced",
    "score": "scored",
}
RESULT = (
    "The calls in flight are cancelled, and the run ends with what it has. To see its result:\n"
    "    mull show {id}"
)
TRAINS = (
    "If it collects, the rollouts in flight are cancelled, and it trains on those collected now.\n"
    "Later, the stage under way is cancelled, and the run ends with what it has. To follow it:\n"
    "    mull watch {id}"
)
STEERED = {
    "pause": "No more runs are started. To go on:\n    mull batch --resume {id}",
    "resume": "It goes on. To follow it:\n    mull batch --id {id}",
}
GIVEN = {
    "accept": "",
    "revise": ' "WHAT TO CHANGE"',
    "replace": " FILE",
    "score": " 0.8",
    "allow": " {call}",
    "deny": ' {call} "WHY"',
}

Author = Annotated[str | None, typer.Option(help="Your name, recorded as you give it.")]


def review(
    run: Id,
    accept: Annotated[bool, flag("--accept", help="Accept the result as it is.")] = False,
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
    allow: Annotated[
        str | None,
        typer.Option(metavar="CALL", help="Allow a tool call of a turn: its number, or its code."),
    ] = None,
    deny: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar='CALL "WHY"', help="Deny a tool call of a turn, and say why."),
    ] = None,
    author: Author = None,
    as_json: Json = False,
) -> None:
    """Show or decide on a result or call that waits for a person.

    Without an option, show the draft, its evaluation, its feedback and how long the run waits.

    For example:

        mull review reflect-compare-kafka-7f3a91c2
        mull review reflect-compare-kafka-7f3a91c2 --accept --author ann
        mull review reflect-compare-kafka-7f3a91c2 --revise "name each license"
        mull review reflect-compare-kafka-7f3a91c2 --replace answer.md
        mull review turn-file-this-bug-7f3a91c2 --allow 1-3f9ac2d1
        mull review turn-file-this-bug-7f3a91c2 --deny 1 "ask the owner first"
    """
    given: dict[str, object] = {"accept": accept or None, "revise": revise, "score": score}
    if allow is not None or deny is not None:
        others = (*given.values(), replace, draft)
        if any(value is not None for value in others) or (allow and deny):
            fail("give one of --allow, --deny and a review of a result.")
        call, why = (allow or "", "") if deny is None else deny
        if (named := CALL.fullmatch(call)) is None:
            fail(f"--allow and --deny take a call as `mull review {run}` shows it.")
        given = {"call": int(named[1]), "allow": deny is None, "why": why, "author": author}
        word = checked(Permission, given)
        with_client(lambda client: _permit(client, run, word, named[2], as_json))
    if replace is not None:
        given["replace"] = read_given("--replace", replace)
    if any(value is not None for value in given.values()):
        given |= {"author": author, "draft": None if draft is None else draft - 1}
        said = checked(Review, given)
        with_client(lambda client: _review(client, run, said, as_json))
    if author is not None or draft is not None:
        alone = "--draft" if author is None else "--author"
        fail(f"{alone} needs --accept, --revise, --replace or --score.")
    with_client(lambda client: _show(client, run, as_json))


@connected
async def finish(client: Client, run: Id, author: Author = None, as_json: Json = False) -> Exit:
    """End a run with what it has, and cancel the calls in flight.

    A training that collects rollouts goes on, and trains on those that have ended.

    Example: mull finish ask-is-91-prime-7f3a91c2 --author ann
    """
    said = checked(Finish, {"author": author})
    found = await reach_open(client, run)
    await found.finish(author=said.author)
    after = {SESSION: "It ends after the turn under way.", TRAINING: TRAINS}.get(found.loop, RESULT)
    return _done(run, "finishing", as_json, after.format(id=run))


@connected
async def cancel(client: Client, run: Id, as_json: Json = False) -> Exit:
    """Cancel a run and its calls in flight; it ends without a result.

    Example: mull cancel ask-is-91-prime-7f3a91c2
    """
    await (await reach_open(client, run)).cancel()
    said = f"The run ends without a result. What it had so far:\n    mull show {run}"
    return _done(run, "cancelling", as_json, said)


@connected
async def add(
    client: Client,
    run: Id,
    answer: Annotated[str, typer.Argument(help="The answer; it votes like any other.")],
    author: Author = None,
    as_json: Json = False,
) -> Exit:
    """Add an answer of your own to a run of `ask`, as the next vote.

    Example: mull add ask-is-91-prime-7f3a91c2 "no" --author ann
    """
    found = await reach_open(client, run)
    if found.loop is not SAMPLING:
        reviewed = found.loop.answers and found.loop.actions
        instead = " For this run, use `mull review`." if reviewed else ""
        fail(f"only runs of `ask` take answers.{instead}")
    said = checked(PersonsAnswer, {"answer": answer, "author": author})
    number = await found.add(said.answer, author=said.author) + 1
    return _done(run, f"added as answer {number}, counted after the wave in flight", as_json)


async def steer(client: Client, run: str, name: str, as_json: bool) -> Exit:
    """Pause or resume a batch."""
    found = await reach_open(client, run)
    if found.loop is not BATCH:
        fail(f"{run} is not a batch; only a batch can be paused or resumed.")
    await found.update(name)
    return _done(run, name, as_json, STEERED[name].format(id=run))


async def _review(client: Client, run: str, said: Review, as_json: bool) -> Exit:
    found = await _reviewable(client, run)
    await found.review(**said.model_dump())
    if said.action == "replace" and found.loop.unchecked:
        tell(f"Note: {found.loop.unchecked}.")
    return _done(run, DONE[said.action], as_json)


async def _permit(
    client: Client, run: str, said: Permission, shown: str | None, as_json: bool
) -> Exit:
    """Allow or deny a call, once it is certain which call the number means."""
    found = await reach_open(client, run)
    if found.loop is not TURN:
        turns = f" Its turns have calls, such as {run}-turn-1." if found.loop is SESSION else ""
        fail(f"only calls of `turn` can be allowed or denied.{turns}")
    seen = await found.look()
    # If the call does not wait for an answer, the run says so.
    for one in (one for one in seen.questions if one.call == said.call):
        again = f"look at it again:\n    mull review {run}"
        if shown is not None and not one.digest.startswith(shown):
            fail(f"call {one.call} is not the one that was shown; {again}")
        others = f"WorkflowId = {json.dumps(run, ensure_ascii=False)} AND RunId != '{one.run_id}'"
        alone = not (await client.count_workflows(others)).count
        if said.allow and shown is None and (one.doubts or not alone):
            why = one.doubts[0] if one.doubts else "another run had this id"
            fail(f"{why}. The number alone does not say which call; {again}")
        said = said.model_copy(update={"run_id": one.run_id, "digest": one.digest})
    await found.update("permit", said)
    done = f"call {said.call} is {'allowed' if said.allow else 'denied'}"
    words = [revealed(one.words) for one in seen.calls[said.call - 1 : said.call]]
    return _done(run, done, as_json, ": ".join([done, *words]))


async def _show(client: Client, run: str, as_json: bool) -> Exit:
    found = await _reviewable(client, run)
    seen, loop = await found.look(), found.loop
    sheet = loop.sheet(seen)
    if sheet.waiting is None:
        fail(f"the run is not waiting for a review. See `mull show {run}`.")
    until = sheet.waiting.until
    if as_json:
        document = {
            "id": run,
            "workflow": loop.workflow,
            "review_until": until.isoformat() if until else None,
            "actions": list(loop.actions),
            **loop.under_review(seen),
        }
        print_json(document)
    else:
        print_review(Console(), sheet)
        said = "without a time limit"
        if until is not None:
            left = max(0, round((until - datetime.now(UTC)).total_seconds()))
            said = f"{until_words(until)}, {lasting_words(left)} more"
        tell(f"It waits {said}.\nTo decide, run one of:")
        questions = getattr(seen, "questions", ())
        codes = {one.call: f"{one.call}-{one.digest[:8]}" for one in questions}
        for number in getattr(seen, "asking", ("",)):
            call = codes.get(number, number)
            for action in loop.actions:
                tell(f"    mull review {run} --{action}{GIVEN[action].format(call=call)}")
    return Exit.DONE


async def _reviewable(client: Client, run: str) -> Run[Any]:
    found = await reach_open(client, run)
    if not found.loop.answers:
        kind = "session" if found.loop is SESSION else "batch of runs"
        turns = f" Its turns can, such as {run}-turn-1." if found.loop is SESSION else ""
        fail(f"{run} is a {kind}; it can't be reviewed.{turns}")
    if not found.loop.actions:
        said = "it takes no review: its environment says whether the task is solved"
        fail(f"{run} is a run of `{found.loop.command}`; {said}.")
    return found


def _done(run: str, what: str, as_json: bool, further: str = "") -> Exit:
    """Report what was done, and what happens next: on standard error, or as a JSON document."""
    if as_json:
        print_json({"id": run, "done": what})
    else:
        tell(further or what)
    return Exit.DONE
