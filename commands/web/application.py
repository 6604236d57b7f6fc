"""The application: the addresses of all pages, and what an error looks like."""

import logging
import traceback

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from temporalio.service import RPCError

from commands.html.rendering import STATIC
from commands.http.chat import RefusedError
from commands.web import compare, forms, review, run, runs
from commands.web.live import Watchers
from commands.web.rendering import Page, is_fragment, render
from mull import MullError, NoServerError, NoWorkerError, RequestError
from mull.connection import refused
from mull.text import sentence

ROOMS = (runs, run, review, forms, compare)
STATUS: dict[type[MullError], int] = {RequestError: 400, NoServerError: 503, NoWorkerError: 503}
logger = logging.getLogger("mull.page")


def application(page: Page, door: Middleware) -> Starlette:
    """Build what answers people's browsers, all of it behind this door."""
    static = Mount("/static", StaticFiles(directory=STATIC))
    made = Starlette(
        routes=[*(route for room in ROOMS for route in room.ROUTES), static],
        # Starlette's own handler would log an error's message, which may have words of a run.
        middleware=[door, Middleware(ExceptionMiddleware, handlers={Exception: explain})],
        exception_handlers={HTTPException: explain},
    )
    made.state.page, made.state.watchers = page, Watchers()
    return made


async def explain(request: Request, error: Exception) -> Response:
    """Answer an error with its message and what to do; a fault of the page's own is only logged."""
    status, fact, advice = 500, "The page itself failed. Its log says where.", ""
    if isinstance(error, RPCError):
        error = refused(error)
    if isinstance(error, MullError):
        # It is not logged: a run's id has words of its question.
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
        fact, advice = sentence(error.fact), error.advice
    elif isinstance(error, HTTPException):
        status, fact = error.status_code, f"{error.detail}."
    elif isinstance(error, RefusedError):
        status, fact = error.status, str(error)
    elif not isinstance(error, ClientDisconnect):
        # Its message may have words of a run.
        place = traceback.extract_tb(error.__traceback__)[-1]
        logger.error("%s at %s, line %s", type(error).__name__, place.filename, place.lineno)
    name = "error_part.html.j2" if is_fragment(request) else "error.html.j2"
    return render(request, name, status, fact=fact, advice=advice)
