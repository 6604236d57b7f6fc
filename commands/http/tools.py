"""MCP's tools over HTTP, behind the same door: the keys, and their models, places and dollars."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route
from temporalio.service import RPCError

from commands.http.application import BODY_BYTES, application
from commands.http.bearers import Account, Bearer
from commands.http.chat import RefusedError
from commands.mcp_server import Caller, Context, mcp_server
from mull import Client, NoServerError, RequestError, Run
from mull.loops import loop_of
from mull.request import Request

PATH = "/mcp"


def with_tools(client: Client, bearers: Mapping[str, Bearer], wait: float) -> Starlette:
    """Build the application that serves OpenAI's interface, and MCP's tools at /mcp.

    Each request stands alone, so that any of several servers can answer it.
    """

    def caller_of(ctx: Context) -> Caller:
        account: Account = ctx.request.state.account  # type: ignore[union-attr]
        return Caller(f"mcp-{account.name}", {}, partial(_begin, account), client.get)

    manager = StreamableHTTPSessionManager(
        mcp_server(caller_of, wait), stateless=True, max_request_body_size=BODY_BYTES
    )
    # GET would open a stream on which nothing ever comes.
    route = Route(PATH, StreamableHTTPASGIApp(manager), methods=["POST"])
    return application(client, bearers, [route], lambda _: manager.run())


async def _begin(account: Account, request: Request, identity: str) -> Run[Any]:
    model = f"mull/{loop_of(request).command}"
    if not account.may_ask([model]):
        raise RequestError(f"this key may not ask {model}")
    try:
        return await account.begin(request, identity)
    except RefusedError as error:
        raise RequestError(f"{error}".rstrip(".")) from None
    except (RPCError, TimeoutError) as error:
        raise NoServerError("the Temporal server did not answer in time") from error
