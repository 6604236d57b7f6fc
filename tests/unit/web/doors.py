"""A page behind its door, without a server: what a browser sends, and what comes back."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware

from commands.web.application import application
from commands.web.door import Door, Proxy
from commands.web.rendering import Page

PORT, KEY = 8401, "k" * 43
HERE = f"http://127.0.0.1:{PORT}"
PROXY = Proxy("10.0.0.5", "X-Forwarded-User", "https://mull.example.org")
NAMED = {"X-Forwarded-User": "Ann", "Host": "mull.example.org"}


class Links(list[str]):
    """The links that a door announced, the newest one last."""

    @property
    def newest(self) -> str:
        return self[-1].removeprefix(HERE)


def served(
    links: Links, proxy: Proxy | None = None, *, read_only: bool = False, temporal: Any = None
) -> Starlette:
    """Build a page on a client of Temporal that knows nothing."""
    client: Any = SimpleNamespace(temporal=temporal)
    door = Middleware(Door, PORT, KEY, proxy, read_only=read_only, announce=links.append)
    return application(Page(client, read_only), door)


def browser(app: Starlette, address: str = "127.0.0.1", origin: str = HERE) -> httpx.AsyncClient:
    """Return a browser at this address of the network."""
    transport = httpx.ASGITransport(app, client=(address, 50_000))
    return httpx.AsyncClient(transport=transport, base_url=origin)


async def entered(links: Links, app: Starlette) -> httpx.AsyncClient:
    """Return a browser that has come in by the newest link."""
    new = browser(app)
    # The first request builds the application, and so announces the first link.
    await new.get("/")
    assert (await new.get(links.newest)).status_code == 303
    return new


def sent(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a form that this page itself sends, and these."""
    return {"Sec-Fetch-Site": "same-origin", "Origin": HERE, **headers}
