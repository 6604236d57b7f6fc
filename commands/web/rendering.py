"""Render the pages: from a template, with what every page shows."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from commands.html.rendering import templates
from mull import Client


@dataclass(frozen=True)
class Page:
    """What every page is about: whose runs it shows, and what may be done with them.

    `encrypted`: payloads are, and are shown decrypted.
    """

    client: Client
    read_only: bool = False
    encrypted: bool = False


def page_of(request: Request) -> Page:
    """Return what the page of this request is about."""
    page: Page = request.app.state.page
    return page


def author_of(request: Request) -> str | None:
    """Return who asks, as the proxy names them; None on one's own machine."""
    author: str | None = request.state.author
    return author


def render(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Answer with a template, which has `page`, `author` and `request` beside these values."""
    about = {"request": request, "page": page_of(request), "author": author_of(request)}
    made = templates().get_template(name).render(**about, **values)
    return HTMLResponse(made, status)


def is_fragment(request: Request) -> bool:
    """Tell whether a part of a page asks, and not the browser for a whole one."""
    return "hx-request" in request.headers
