"""The review queue: what waits for a person, the longest first, and what they decide."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from temporalio.service import RPCError

from commands.run_list import WAITING
from commands.updates import DONE
from commands.web.rendering import author_of, is_fragment, page_of, render
from commands.web.run import find
from commands.web.runs import listed
from commands.web.waiting import WaitingItem, items_of
from mull import Client, MullError, RequestError, Run
from mull.errors import checked
from mull.keys import UnreadableError
from mull.loops import BY_WORKFLOW
from mull.sheet import moment_words, reason_words, signed
from mull.text import sentence
from mull.turn.approval import Question

# The most runs that one page looks at, how many at once, and how long each may take.
MOST_ITEMS, AT_ONCE, PATIENCE = 50, 10, timedelta(seconds=5)
AUTHOR, AUTHOR_CHARACTERS = "mull-author", 200
ASKED_IN = ("call", "run_id", "digest")


async def waiting_items(client: Client) -> tuple[list[WaitingItem], int]:
    """Look at what waits, the longest first; and count the runs that nobody answers for."""
    found = await listed(client.temporal, WAITING, MOST_ITEMS)
    places = asyncio.Semaphore(AT_ONCE)

    async def looked(row: Any) -> list[WaitingItem] | None:
        loop = BY_WORKFLOW[row["workflow"]]
        run = Run[Any].of(client.temporal, loop, row["id"], run_id=row["run_id"])
        try:
            async with places:
                seen = await run.glance(PATIENCE)
        except (UnreadableError, MullError, RPCError):
            return None
        return None if seen is None else list(items_of(run, row["run_id"], seen))

    looks = await asyncio.gather(*map(looked, found.rows))
    items = [item for items in looks for item in items or ()]
    items.sort(key=lambda item: item.since or datetime.now(UTC))
    return items, looks.count(None)


async def queue(request: Request) -> Response:
    """Show what waits for a person."""
    looked, (items, silent) = datetime.now(UTC), await waiting_items(page_of(request).client)
    about: dict[str, Any] = {"looked": looked, "called": named(request)}
    about |= {"items": items, "silent": silent}
    return await asyncio.to_thread(render, request, "review.html.j2", **about)


async def decide(request: Request) -> Response:
    """Take a person's decision on a run's result, or on a tool call, and say what came of it.

    A person who is too late is told who decided, and is shown the draft that waits now.
    """
    run_id, form = str(request.path_params["run_id"]), await request.form()
    found = await find(page_of(request), run_id)
    # A newer run may have the same workflow id.
    run = Run[Any].of(found.temporal, found.loop, found.id, found.description, run_id)
    given = {name: part for name, part in form.items() if isinstance(part, str) and part}
    action, about = given.get("action", ""), given.get("about")
    if action not in run.loop.actions:
        raise HTTPException(400, f"A run of {run.command} takes {' or '.join(run.loop.actions)}")
    # Browsers end typed lines with CRLF.
    words = given.get("words", "").replace("\r\n", "\n")
    try:
        said = await _decided(run, action, words, given, named(request))
    except RequestError as error:
        seen = await run.look()
        items = [one for one in items_of(run, run_id, seen) if one.key == given.get("key")]
        said = sentence(str(error))
        if items and is_fragment(request):
            known = {"one": items[0], "typed": {action: words}, "stay": "stay" in given}
            return render(request, "item.html.j2", 409, error=said, **known)
        if not items:
            said += f" {before_words(seen, given.get('call'))}"
        name = "decided_part.html.j2" if is_fragment(request) else "decided.html.j2"
        return render(request, name, 409, said=said, late=True, run_id=run_id, about=about)
    if is_fragment(request):
        return render(
            request, "decided_part.html.j2", said=said, late=False, run_id=run_id, about=about
        )
    return RedirectResponse(f"/runs/{run_id}" if "stay" in given else "/review", 303)


async def _decided(
    run: Run[Any], action: str, words: str, given: Mapping[str, str], author: str | None
) -> str:
    """Send a decision to a run, and say what it means. Raises RequestError."""
    if action in {"allow", "deny"}:
        question = checked(Question, {name: given.get(name, "") for name in ASKED_IN})
        await run.permit(question, allow=action == "allow", why=words, author=author)
        return f"Call {question.call} is {'allowed' if action == 'allow' else 'denied'}."
    value: Any = True if action == "accept" else words
    known: dict[str, Any] = {action: value, "draft": given.get("draft")}
    await run.review(**known, author=author)
    note = f" Note: {run.loop.unchecked}." if action == "replace" and run.loop.unchecked else ""
    return sentence(DONE[action]) + note


def before_words(seen: Any, call: str | None) -> str:
    """Say who decided before, and what."""
    for number, made in enumerate(getattr(seen, "calls", ()), 1):
        if str(number) == call and (held := made.approval):
            return f"Call {call}: {held.action}, {signed(held.why, held.author)}."
    made = next((one for one in reversed(seen.decisions) if one.author), None)
    when = moment_words(made.at) if made else None
    return f"{reason_words(made)}{f', at {when}' if when else ''}." if made else ""


def named(request: Request) -> str | None:
    """Return who decides: whom the proxy names, or else what they typed here as their name."""
    kept = unquote(request.cookies.get(AUTHOR, ""))[:AUTHOR_CHARACTERS].strip()
    return author_of(request) or kept or None


async def name(request: Request) -> Response:
    """Keep the name that somebody types, until their browser is closed."""
    given = (await request.form()).get("name", "")
    answer = RedirectResponse("/review", 303)
    kept = quote(str(given).strip()[:AUTHOR_CHARACTERS], safe="")
    answer.set_cookie(AUTHOR, kept, httponly=True, samesite="strict")
    return answer


ROUTES = (
    Route("/review", queue, methods=["GET"]),
    Route("/name", name, methods=["POST"]),
    Route("/runs/{run_id:uuid}/decide", decide, methods=["POST"]),
)
