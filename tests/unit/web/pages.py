"""The pages without a server, a browser or a door, for tests of what they show and take."""

import re
from html import unescape
from typing import Any

from starlette.middleware import Middleware
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from commands.web.application import application
from commands.web.rendering import Page


class LetIn:
    """A door that lets everybody in, by this name."""

    def __init__(self, app: ASGIApp, author: str | None) -> None:
        self._app, self._author = app, author

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["author"] = self._author
        await self._app(scope, receive, send)


def pages(client: Any, author: str | None = None, **known: Any) -> TestClient:
    """Return a browser of the pages that show this client's runs."""
    made = application(Page(client, **known), Middleware(LetIn, author))
    return TestClient(made, base_url="http://127.0.0.1:8401", follow_redirects=False)


def said(page: str) -> str:
    """Return the words of a page, without its elements."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
