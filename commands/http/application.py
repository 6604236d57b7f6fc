"""The application: whom it lets in, its addresses, and a chat completion from beginning to end."""

import asyncio
import re
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError
from uvicorn.protocols.http.h11_impl import H11Protocol

from commands.http.bearers import LOCAL, Account, Bearer, digest
from commands.http.chat import SERVED, Chat, RefusedError, read_chat
from commands.http.reply import OWN_ERROR, Reply, answer_error, explained
from mull import Client, MullError, NoWorkerError, RequestError, Run

BODY_BYTES = 1_000_000
HEAD_SECONDS, BODY_SECONDS = 10.0, 30.0
HEADER_CHARACTERS = 1_000
# Behind a proxy that keeps its connections for a minute.
KEEP_SECONDS = 75
# What is under way is not waited for: its run goes on.
GRACE_SECONDS = 2
RUNNING, COMPLETED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED
THIS_MACHINE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?")
EXPLAINED = (RefusedError, HTTPException, ClientDisconnect, Exception)


class Door:
    """Lets in who shows a key. Without keys it lets in this machine, and refuses web pages.

    It notes in the request's state on whose `account` it is, for all that is behind it, and bounds
    the bodies.
    """

    def __init__(self, app: ASGIApp, client: Client, bearers: Mapping[str, Bearer]) -> None:
        self._app, self._local = app, None if bearers else Account(client, LOCAL)
        self._accounts = {one.sha256: Account(client, name, one) for name, one in bearers.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            account = self._let_in(scope.get("method"), Headers(scope=scope))
        except RefusedError as error:
            await answer_error(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["account"] = account
        await self._app(scope, bounded(receive), send)

    def _let_in(self, method: str | None, headers: Headers) -> Account:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            # No web page can send JSON unasked.
            raise RefusedError(415, "Send application/json, as its Content-Type says.")
        if self._local is None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            # How long it takes tells of hashes alone, which nobody can choose.
            account = self._accounts.get(digest(token.strip()))
            if account is None or scheme.lower() != "bearer":
                said = "Send one of this server's keys, as Authorization: Bearer KEY."
                raise RefusedError(401, said, code="invalid_api_key")
            return account
        if not THIS_MACHINE.fullmatch(headers.get("host", "").lower()):
            # A name that a web page's owner has point here.
            raise RefusedError(403, "Without keys this server answers to 127.0.0.1 alone.")
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            raise RefusedError(403, "Without keys this server answers no web page.")
        return self._local


def bounded(receive: Receive, most: int = BODY_BYTES) -> Receive:
    """Count what comes of a body, whatever its headers say, and wait BODY_SECONDS for all of it.

    Raises RefusedError as it is read, if it is larger than `most` bytes or late.
    """
    came, more, until = 0, True, 0.0

    async def next_part() -> Message:
        nonlocal came, more, until
        if not more:
            return await receive()
        until = until or asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            said = f"The body did not come within {BODY_SECONDS:g} s."
            raise RefusedError(408, said) from None
        more = message.get("more_body", False)
        came += len(message.get("body", b""))
        if came > most:
            raise RefusedError(413, f"The body is larger than {most:,} bytes.")
        return message

    return next_part


def application(
    client: Client,
    bearers: Mapping[str, Bearer],
    routes: Sequence[BaseRoute] = (),
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """Build what answers OpenAI's requests by runs, and other `routes` behind the same door.

    `bearers` are its keys by name; without any nobody is limited.
    """
    complete = Route("/v1/chat/completions", _complete, methods=["POST"])
    return Starlette(
        lifespan=lifespan,
        routes=[complete, Route("/v1/models", _models), *routes],
        middleware=[Middleware(Door, client, bearers)],
        exception_handlers=dict.fromkeys(EXPLAINED, _explain),
    )


async def _models(request: Request) -> Response:
    """List the models that a key may ask, as far as its patterns are names."""
    account: Account = request.state.account
    known = account.bearer.models if account.bearer else ()
    names = [name for name in SERVED if account.may_ask([name])]
    names += [name for name in known if ":" in name and not set(name) & set("*?[")]
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "mull"} for name in names]
    return JSONResponse({"object": "list", "data": rows})


async def _complete(request: Request) -> Response:
    chat, account = read_chat(await request.body()), request.state.account
    if refused := sorted(one for one in chat.models if not account.may_ask([one])):
        said = f"This key may not ask {', '.join(refused)}."
        raise RefusedError(404, said, param="model", code="model_not_found")
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= HEADER_CHARACTERS:
        raise RefusedError(400, f"Idempotency-Key: give 1 to {HEADER_CHARACTERS:,} characters.")
    try:
        run = await _begin(account, chat, key)
    except (MullError, RPCError, TimeoutError) as error:
        # It may have begun all the same: only with its header can it be found again.
        again = key is not None or isinstance(error, NoWorkerError)
        raise explained(error, again=again) from error
    return Reply(chat, run, again=key is not None)


async def _begin(account: Account, chat: Chat, key: str | None) -> Run[Any]:
    """Start the run, or find the one that this key's bearer has started by the same header."""
    run = f"chat-{account.name}-{(uuid.uuid4().hex if key is None else digest(key))[:16]}"
    if key is not None and (had := await _had(account.client, run, chat)):
        return had
    try:
        return await account.begin(chat.request, run)
    except RequestError:
        # Another server began it meanwhile, or nobody did.
        if (had := await _had(account.client, run, chat)) is None:
            raise
        return had


async def _had(client: Client, identity: str, chat: Chat) -> Run[Any] | None:
    """Find the run with this id; None if there is none, or it ended without a result."""
    try:
        found = await client.get(identity)
    except RequestError:
        return None
    if found.description.status not in {RUNNING, COMPLETED}:
        return None
    # Its budget may be that of its place, another one each time.
    if not await found.was_asked(chat.request, besides=["budget_usd"]):
        said = "This Idempotency-Key was sent with another request. Choose another one."
        raise RefusedError(409, said, code="idempotency_key_reused", param="Idempotency-Key")
    return found


async def _explain(_: Request, error: Exception) -> Response:
    """Answer an error; the words of one of this server's own go to its log alone."""
    headers: Mapping[str, str] = {}
    if isinstance(error, ClientDisconnect):
        error = RefusedError(400, "The body broke off.")
    if isinstance(error, HTTPException):
        has = " This server has /v1/chat/completions and /v1/models." * (error.status_code == 404)
        headers = error.headers or {}
        error = RefusedError(error.status_code, f"{error.detail}.{has}")
    if not isinstance(error, RefusedError):
        error = RefusedError(500, OWN_ERROR)
    response = answer_error(error)
    response.headers.update(headers)
    return response


class Connection(H11Protocol):
    """Closes a connection on which the head of a request does not come in HEAD_SECONDS.

    By itself uvicorn waits for it without end.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Read what came, which may be the rest of a head or the beginning of the next one."""
        super().data_received(data)
        if self.cycle and not self.cycle.response_complete:
            self._late.cancel()
        elif self._late.cancelled():
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._late.cancel()

    def _wait_for_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)


class _Listener(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, at_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._at_end = at_end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; by itself uvicorn would end this process by the signal afterwards."""
        del sig, frame
        self.should_exit = True
        self._at_end()


async def answer_at(
    place: socket.socket, served: ASGIApp, at_end: Callable[[], None] = lambda: None
) -> None:
    """Answer what comes to this socket until a signal ends it; `at_end` ends what goes on."""
    config = uvicorn.Config(
        served,
        http=Connection,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        # The peer of the connection asks, and no header says otherwise.
        proxy_headers=False,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await _Listener(config, at_end).serve([place])
