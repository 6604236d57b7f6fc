"""MCP's tools over HTTP, behind the same door: the keys, and their models, places and dollars."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route
from temporalio.service import RPCError

from commands.http.application import BODY_BYTES, Server
from commands.http.bearers import Bearer, Places
from commands.http.chat import RefusedError
from commands.mcp_server import Caller, Context, mcp_server
from mull import (
    Client,
    MullError,
    NoServerError,
    RequestError,
    Run,
    RunCancelledError,
    RunFailedError,
)
from mull.loops import loop_of
from mull.quota import Place
from mull.request import Request

PATH = "/mcp"


def with_tools(client: Client, bearers: Mapping[str, Bearer], wait: float) -> Starlette:
    """Build the application that serves OpenAI's interface, and MCP's tools at /mcp.

    Each request stands alone, so that any of several servers can answer it.
    """
    server = Server(client, bearers)
    tools = mcp_server(Bearers(client, bearers, server.places).caller, wait)
    manager = StreamableHTTPSessionManager(tools, stateless=True, max_request_body_size=BODY_BYTES)
    route = Route(PATH, StreamableHTTPASGIApp(manager))
    return server.application([route], lambda _: manager.run())


class Bearers:
    """Begins the runs of bearers of keys; without keys there is one caller, who has no limits."""

    def __init__(
        self, client: Client, bearers: Mapping[str, Bearer], places: Mapping[str, Places]
    ) -> None:
        self._client, self._bearers, self._places = client, bearers, places
        self._freeing = set[asyncio.Task[None]]()

    def caller(self, ctx: Context) -> Caller:
        """Return who sent this request, as the door has noted."""
        name: str = ctx.request.state.bearer  # type: ignore[union-attr]
        # No name of a key has a colon, so that no id of one's begins like that of another's.
        return Caller(f"mcp:{name}:", {}, partial(self._begin, name), self._client.get)

    async def _begin(self, name: str, request: Request, identity: str) -> Run[Any]:
        loop, bearer, places = loop_of(request), self._bearers.get(name), self._places.get(name)
        if bearer is not None and not bearer.may_ask([f"mull/{loop.command}"]):
            raise RequestError(f"this key may not ask mull/{loop.command}")
        await self._client.need_workers(loop.queues(request))
        if places is None:
            return await self._client.begin(request, identity)
        try:
            run, place = await places.begin(request, identity)
        except RefusedError as error:
            raise RequestError(f"{error}".rstrip(".")) from None
        except (RPCError, TimeoutError) as error:
            raise NoServerError("the Temporal server did not answer in time") from error
        if place is not None:
            freeing = asyncio.create_task(_free(places, place, run))
            self._freeing.add(freeing)
            freeing.add_done_callback(self._freeing.discard)
        return run


async def _free(places: Places, place: Place, run: Run[Any]) -> None:
    """Free a place once its run has ended; otherwise its workflow finds that out."""
    with suppress(MullError):
        try:
            record = await run.result()
        except (RunFailedError, RunCancelledError):
            record = await run.look()
        await places.free(place, record.usage.cost_usd)
