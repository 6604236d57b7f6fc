"""One run: its page, what changes on it while it goes on, and how a person ends it."""

import asyncio
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from temporalio.client import WorkflowExecutionStatus

from commands.found import error_sheet, facts_of, subject_of
from commands.html.rendering import shown, templates
from commands.web.citations import cited
from commands.web.diff import changes
from commands.web.live import View, Watchers, drawn
from commands.web.rendering import Page, author_of, page_of, render
from commands.web.waiting import items_of
from mull import Run, RunCancelledError, RunFailedError
from mull.connection import translated
from mull.loops import BY_WORKFLOW
from mull.sheet import Sheet, Text, Verdict
from mull.text import terminal_safe

# How long a page waits for the first view of a run: it comes later if no worker answers.
FIRST_SECONDS = 1.0
# A run that began just now is listed a little later.
LISTED_SECONDS, LIST_SECONDS = 2.0, 0.2
WRITTEN = "answer, while it is written"
LOOKING = "Looking for what the run has so far"
STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
CONTINUED = WorkflowExecutionStatus.CONTINUED_AS_NEW


async def find(page: Page, run_id: str) -> Run[Any]:
    """Find a run by its run id. Raises HTTPException if there is none, and MullError."""
    temporal = page.client.temporal
    with translated():
        for _ in range(round(LISTED_SECONDS / LIST_SECONDS)):
            async for seen in temporal.list_workflows(f"RunId = '{run_id}'", limit=1):
                handle = temporal.get_workflow_handle(seen.id, run_id=run_id)
                described = await handle.describe()
                loop = BY_WORKFLOW.get(seen.workflow_type)
                if loop is None:
                    raise HTTPException(404, "This workflow was not started by Mull")
                # A run that goes on may do so in a new history.
                going = described.status is WorkflowExecutionStatus.RUNNING
                return Run[Any].of(temporal, loop, seen.id, described, None if going else run_id)
            await asyncio.sleep(LIST_SECONDS)
    raise HTTPException(404, "There is no such run")


async def run(request: Request) -> Response:
    """Show a run; all pages of one that goes on share its watcher."""
    run_id, page = str(request.path_params["run_id"]), page_of(request)
    found = await find(page, run_id)
    if found.description.status is CONTINUED:
        newest = await page.client.temporal.get_workflow_handle(found.id).describe()
        return RedirectResponse(f"/runs/{newest.run_id}", 303)
    draw = partial(draw_run, page, found)
    if found.goes_on:
        async with watchers_of(request).watching(run_id, found, draw) as watcher:
            try:
                async with asyncio.timeout(FIRST_SECONDS):
                    now = await watcher.newest()
            except TimeoutError:
                view = View(note=LOOKING)
                now = drawn(draw(await found.request(), view), view)
    else:
        asked, view = await asyncio.gather(found.request(), _ended(found))
        now = drawn(await asyncio.to_thread(draw, asked, view), view)
    # The list of runs shows the same words.
    subject = found.id if page.encrypted else await found.description.static_summary()
    return render(
        request,
        "run.html.j2",
        run_id=run_id,
        subject=terminal_safe(subject or found.id, 80),
        now=now._replace(html=Markup(now.html)),  # noqa: S704 - a template made it
    )


async def _ended(found: Run[Any]) -> View:
    """Look at a run that has ended. Raises MullError."""
    try:
        return View(await found.result(), ended=True)
    except (RunFailedError, RunCancelledError) as error:
        return View(await found.glance(), error=error, ended=True)


def draw_run(page: Page, found: Run[Any], request: Any, view: View) -> str:
    """Make HTML of a run's request, None if it can't be read, and a view."""
    sheet, facts = sheet_of(found, request, view), facts_of(found, request)
    steers = not view.ended and not page.read_only
    return (
        templates()
        .get_template("run_part.html.j2")
        .render(
            **shown(sheet, facts),
            command=found.command,
            note=view.note,
            changes=changes(sheet),
            cited=cited(sheet),
            further=found.loop.further.format(id=found.id),
            steers=steers,
            asks=items_of(found, facts.run_id, view.record) if steers and view.record else (),
        )
    )


def sheet_of(found: Run[Any], request: Any, view: View) -> Sheet:
    """Build the sheet of a view: with an error first, and with a text while it is written."""
    loop, record = found.loop, view.record
    if view.error is not None:
        return error_sheet(view.error, found, record, request)
    if record is None:
        going = Verdict(words=loop.doing, tone="running")
        return Sheet(subject=subject_of(found, request), verdict=going)
    sheet = loop.sheet(record, request)
    if view.text and not view.ended:
        answer = Text(title=WRITTEN, content=view.text, kind="markdown", folded=False)
        return sheet.model_copy(update={"answer": answer})
    return sheet


async def events(request: Request) -> Response:
    """Send what changes of a run, as server-sent events, until it ends."""
    run_id, page = str(request.path_params["run_id"]), page_of(request)
    found = await find(page, run_id)
    known = request.headers.get("last-event-id") or request.query_params.get("known", "")

    async def send() -> Any:
        draw = partial(draw_run, page, found)
        async with watchers_of(request).watching(run_id, found, draw) as watcher:
            async for event in watcher.events(known):
                yield event

    return StreamingResponse(send(), media_type="text/event-stream", headers=STREAM)


async def finish(request: Request) -> Response:
    """End a run with what it has."""
    found = await find(page_of(request), str(request.path_params["run_id"]))
    await found.finish(author=author_of(request))
    return RedirectResponse(f"/runs/{request.path_params['run_id']}", 303)


async def cancel(request: Request) -> Response:
    """Cancel a run."""
    found = await find(page_of(request), str(request.path_params["run_id"]))
    await found.cancel()
    return RedirectResponse(f"/runs/{request.path_params['run_id']}", 303)


def watchers_of(request: Request) -> Watchers:
    """Return the watchers of this application's runs."""
    watchers: Watchers = request.app.state.watchers
    return watchers


ROUTES = (
    Route("/runs/{run_id:uuid}", run),
    Route("/runs/{run_id:uuid}/events", events),
    Route("/runs/{run_id:uuid}/finish", finish, methods=["POST"]),
    Route("/runs/{run_id:uuid}/cancel", cancel, methods=["POST"]),
)
