"""MCP servers: their file, and one client for each, which starts its server when it is needed.

A server is not trusted. Mull ignores what it claims about its tools, leaves out schemas that are
too large, and passes on only the worker's variables that the file names.
"""

import asyncio
import json
import logging
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self, TypeVar

import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import Field, StringConstraints, ValidationError, model_validator
from pydantic_core import from_json, to_json

from activities.language_model.exchange import CODINGS, pieces
from activities.tools.port import ToolError
from mull.replies import MOST_MARKS
from mull.request import Frozen, Record
from mull.text import cut_with_note, tally_words, terminal_safe
from mull.turn.budget import TOOL_SECONDS
from mull.turn.tools import Tool

MOST_LISTED = 1_000
SCHEMA_BYTES = 30_000
DESCRIPTION_BYTES = 4_000
# For one reply over HTTP. A worker holds a few copies of it; each call's own time-out is shorter.
RECEIVED_BYTES, REPLY_SECONDS = 16_000_000, TOOL_SECONDS + 1
CONNECT_SECONDS = 10.0
LIST_SECONDS = 15.0
START_SECONDS = 30.0
STOP_SECONDS = 8.0
PING_SECONDS = 2.0
# The client's messages if the server does not know the session of a call, and so did not take it,
# and if its answer can't come any more. Servers use the error's code for other things too.
GONE = "Session terminated"
ENDED = ("Connection closed", "SSE stream")
# The messages for a reply that can't be used: the server may still have done what was asked.
NO_MCP = "its answer does not follow the protocol"
UNREAD = (NO_MCP, "Failed to parse", "Server returned", "Unexpected content", "server answered")

# Two underscores end the name of the server in the name of a tool.
ServerName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$", max_length=30)
]
T = TypeVar("T")
VARIABLE = re.compile(r"\$\{(\w+)\}")
# Do not log what a server writes beside the protocol.
for logger in ("mcp", "client"):
    logging.getLogger(logger).setLevel(logging.CRITICAL)


class Trust(Frozen):
    """The flags that the worker's file gives a server's tools, by patterns of names (`read_*`).

    `keys` name what a call touches, as those of a `Tool`. `timeout_seconds` is for one call.
    """

    read_only: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()
    keys: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    timeout_seconds: float = Field(TOOL_SECONDS, gt=0, le=TOOL_SECONDS)

    def flags(self, name: str) -> dict[str, Any]:
        """List the flags of the tool with this name."""

        def matches(*patterns: str) -> bool:
            return any(fnmatchcase(name, pattern) for pattern in patterns)

        return {
            "read_only": matches(*self.read_only),
            "idempotent": matches(*self.idempotent),
            "keys": next((keys for pattern, keys in self.keys.items() if matches(pattern)), ()),
            "timeout_seconds": self.timeout_seconds,
        }


class ServerSettings(Record):
    """A server in the usual shape, and what Mull trusts of it, under `mull`.

    Fields of other clients are ignored.
    """

    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    disabled: bool = False
    mull: Trust = Field(default_factory=Trust)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command or a url")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("the url does not begin with http:// or https://")
        return self


class ServersFile(Record):
    """The file of a worker's MCP servers."""

    servers: dict[ServerName, ServerSettings] = Field(alias="mcpServers")


def read_servers(file: bytes, environment: Mapping[str, str]) -> "list[McpServer]":
    """Read the file of servers, and replace each `${NAME}` by a variable. Raises ValueError."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise ValueError(f"the variable {found[1]} is not set")
        return json.dumps(environment[found[1]])[1:-1]

    known = ServersFile.model_validate_json(VARIABLE.sub(value, file.decode())).servers
    return [McpServer(name, settings) for name, settings in known.items() if not settings.disabled]


class BoundedClient(httpx2.AsyncClient):
    """A client that bounds each reply: its bytes, once unpacked, and its time."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and stream its reply; if none comes in time, return a 504."""
        if request.method == "GET":
            # It would stream messages that were not asked for, or the rest of a reply, for ever.
            return httpx2.Response(405, request=request)
        request.headers["Accept-Encoding"] = ", ".join(CODINGS)
        until = asyncio.get_running_loop().time() + REPLY_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                reply = await super().send(request, **options)
            reply.stream = BoundedStream(reply, until)
            reply.headers.pop("Content-Encoding", None)
            return reply
        return httpx2.Response(504, request=request)


class BoundedStream(httpx2.AsyncByteStream):
    """The body of a reply, unpacked. Raises StreamError if it is too large or takes too long."""

    def __init__(self, reply: httpx2.Response, until: float) -> None:
        assert isinstance(reply.stream, httpx2.AsyncByteStream)  # noqa: S101 - of an async client
        self._stream = reply.stream
        self._pieces = pieces(self._stream, reply.headers.copy(), RECEIVED_BYTES, until)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body's pieces, until it ends or is too large."""
        room, objects, most = RECEIVED_BYTES, MOST_MARKS, f"{RECEIVED_BYTES:,} bytes"
        with suppress(TimeoutError, ValueError, zlib.error):
            async for piece in self._pieces:
                room, objects = room - len(piece), objects - piece.count(b"{")
                # Parsing looks at each object, and blocks the event loop.
                if objects < 0:
                    raise httpx2.StreamError(f"it has more than {MOST_MARKS:,} objects")
                yield piece
            if room >= 0:
                return
        raise httpx2.StreamError(f"it is larger than {most}, takes too long or can't be unpacked")

    async def aclose(self) -> None:
        """Close the stream behind it."""
        await self._stream.aclose()


class McpServer:
    """One MCP server: started when it is first needed, and started again if it died."""

    def __init__(self, name: str, settings: ServerSettings) -> None:
        self.name = name
        self._settings = settings
        self._connections: list[Connection] = []  # Earlier ones may still be stopping.
        self._tools: dict[str, tuple[Tool, str]] = {}  # With the server's own name for each.

    async def tools(self) -> tuple[list[Tool], list[str]]:
        """List the tools that can be used, and warnings of the others. Raises ToolError."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                listed = await self._ask(_listed, again=True)
        except TimeoutError:
            raise ToolError(f"{self.name} did not list them within {LIST_SECONDS:g} s") from None
        self._tools, unused = {}, []
        for one in listed:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.name}__{one.name}")[:64]
            schema = _usable(one.input_schema)
            if schema is None or name in self._tools:
                unused.append(one.name)
            else:
                tool = Tool(
                    name=name,
                    description=cut_with_note(one.description or "", DESCRIPTION_BYTES),
                    parameters=schema,
                    group=self.name,
                    **self._settings.mull.flags(one.name),
                )
                self._tools[name] = tool, one.name
        names = terminal_safe(", ".join(unused), 200)
        why = f"left out, for their schemas or for names that another tool has: {names}"
        warning = f"{self.name}: {tally_words(len(unused), 'tool')} {why}"
        return [tool for tool, _ in self._tools.values()], [warning] if unused else []

    async def find(self, name: str) -> Tool | None:
        """Return a tool, listed anew unless it only reads. Raises ToolError."""
        if name not in self._tools or not self._tools[name][0].read_only:
            await self.tools()
        return self._tools[name][0] if name in self._tools else None

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> str:
        """Call a tool; if the server dies, repeat a call that only reads. Raises ToolError."""
        known, name = self._tools.get(tool.name, (None, ""))
        if known is None:
            raise ToolError(f"{self.name} does not have this tool any more", "unknown")
        if known.parameters != tool.parameters:
            raise ToolError("its parameters have just changed, so it was not called: call it again")
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.CallToolRequest(params=params)
        # Not `call_tool`, which checks the result by the server's schema in this process.
        result = await self._ask(
            lambda session: session.send_request(request, types.CallToolResult),
            again=tool.read_only,
        )
        text = "\n\n".join(map(_text, result.content))
        if not text and result.structured_content is not None:
            text = to_json(result.structured_content).decode()
        if result.is_error:
            raise ToolError(text or "the tool failed and gave no reason")
        return text

    async def _ask(self, ask: Callable[[ClientSession], Awaitable[T]], *, again: bool) -> T:
        """Ask the server, and start it first if it has ended. Raises ToolError.

        Ask again if the server did not take it, and with `again` also if it may have.
        """
        for last in (False, True):
            connection = await self._connected()
            try:
                return await ask(await connection.session())
            except asyncio.CancelledError:
                connection.doubt()
                raise
            except (MCPError, ValidationError) as error:
                said = _words(error)
            if said != GONE and not said.startswith(ENDED):
                unread = said.startswith(UNREAD) and not again
                raise ToolError(f"{self.name}: {said}", "timeout" if unread else "error")
            connection.stop()
            if last or not (again or said == GONE):
                break
        said = f"{self.name} ended before it answered: it may have done what was asked"
        raise ToolError(said, "timeout")

    async def _connected(self) -> "Connection":
        if doubts := [one.doubts for one in self._connections if one.doubts]:
            await asyncio.wait(doubts)
        for ended in filter(Connection.ended, self._connections):
            ended.stop()
        self._connections = [one for one in self._connections if not one.task.done()]
        if not self._connections or self._connections[-1].ended():
            self._connections.append(Connection(self.name, self._settings))
        return self._connections[-1]

    async def close(self) -> None:
        """Stop the server, and wait at most a few seconds for its end."""
        for connection in self._connections:
            connection.stop()
        if self._connections:
            await asyncio.wait([one.task for one in self._connections], timeout=STOP_SECONDS)


class Connection:
    """One start of a server, in a task of its own: only the task that opens it may close it."""

    def __init__(self, name: str, settings: ServerSettings) -> None:
        self._name, self._settings = name, settings
        self._stop = asyncio.Event()
        self._session: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._received: Any = None
        self.doubts: asyncio.Task[None] | None = None
        self.task = asyncio.create_task(self._serve())

    async def session(self) -> ClientSession:
        """Wait for the session. Raises ToolError if the server can't be started."""
        return await asyncio.shield(self._session)

    def ended(self) -> bool:
        """Tell whether the server has ended, or is about to."""
        closed = self._received is not None and not self._received.statistics().open_send_streams
        return closed or self._stop.is_set() or self.task.done()

    def doubt(self) -> None:
        """Stop the server unless it still answers, after a call that took too long."""
        if self._session.done():
            self.doubts = asyncio.create_task(self._ping())

    async def _ping(self) -> None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                # An error is an answer too.
                with suppress(MCPError):
                    await self._session.result().send_ping()
        except Exception:
            self.stop()

    def stop(self) -> None:
        """Tell the server's task to end it."""
        self._stop.set()
        if not self._session.done():
            self.task.cancel()

    async def _serve(self) -> None:
        said = f"no answer within {START_SECONDS:g} s"
        try:
            client = Client(self._streams(), cache=None)
            async with asyncio.timeout(START_SECONDS) as limit, client:
                limit.reschedule(None)
                self._session.set_result(client.session)
                await self._stop.wait()
        except TimeoutError:
            pass
        except Exception as error:
            said = _words(error)
        if not self._session.done():
            self._session.set_exception(ToolError(f"{self._name} can't be started: {said}"))
            # Retrieve it, so that asyncio does not log it if no call waits for it any more.
            self._session.exception()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[tuple[Any, Any]]:
        settings = self._settings
        if settings.command is not None:
            known = settings.model_dump(include={"command", "args", "env", "cwd"})
            program = StdioServerParameters(**known, encoding_error_handler="replace")
            async with stdio_client(program) as (self._received, sent):
                yield self._received, sent
            return
        limits = httpx2.Timeout(CONNECT_SECONDS, read=REPLY_SECONDS)
        async with (
            BoundedClient(headers=settings.headers, timeout=limits) as client,
            streamable_http_client(
                settings.url or "", http_client=client, max_sse_event_size=RECEIVED_BYTES
            ) as streams,
        ):
            yield streams


async def _listed(session: ClientSession) -> list[types.Tool]:
    tools, cursor = list[types.Tool](), None
    while True:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools, cursor = [*tools, *page.tools][:MOST_LISTED], page.next_cursor
        if cursor is None or len(tools) == MOST_LISTED:
            return tools


def _usable(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return a schema as history keeps it; None if it is too large or not of an object."""
    with suppress(ValueError, RecursionError):
        written = to_json(schema)
        if len(written) <= SCHEMA_BYTES and schema.get("type", "object") == "object":
            return {"type": "object", **from_json(written, allow_inf_nan=False)}
    return None


def _text(part: types.ContentBlock) -> str:
    match part:
        case types.TextContent(text=text):
            return text
        case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
            return f"{uri}\n{text}"
        case types.ResourceLink(uri=uri):
            return f"[a link: {uri}]"
    return f"[{part.type}, which can't be shown here]"


def _words(error: BaseException) -> str:
    """Describe an error, or the first of a group, without an address, which may hold a key."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return terminal_safe(error.message, 1_000)
    if isinstance(error, ValidationError):
        return NO_MCP
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
