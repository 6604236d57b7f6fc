"""`mcp`: Mull's runs as tools of an MCP client, over standard input and output."""

import asyncio
import importlib.util
import signal
import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer

from commands import command
from commands.command import Exit, end_process, fail, tell
from commands.help import COMMON
from commands.options import takes_fields
from mull import connection
from mull.client import Client
from mull.errors import RequestError
from mull.handle import Run
from mull.loops import loop_of
from mull.multipath.request import MultiPathRequest
from mull.request import Request

# A look at a run takes up to 10 s more, and many clients give up on a call after 60 s.
WAIT_SECONDS = 40.0
FIXED = ("model", "budget_usd", "budget_tokens", "budget_seconds", "docs")
BOUNDS = "What no tool can change"


@takes_fields(MultiPathRequest, *FIXED, under=BOUNDS)
def mcp(
    runs: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most runs that it starts; no limit by default.", rich_help_panel=BOUNDS
        ),
        COMMON,
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            min=1, max=3_600, help="Seconds that a call waits for a result; then it says the id."
        ),
        COMMON,
    ] = WAIT_SECONDS,
    **fields: Any,
) -> None:
    """Offer ask, reflect, agent and show as tools, to a client of MCP.

    The client starts it, and speaks to it over standard input and output. A tool takes texts
    and lower bounds alone: the model, the folder and the most that a run may spend are those of
    these options. No tool reviews a result or allows a call.

    For example, in a client's file of servers:

        {"mcpServers": {"mull": {"command": "mull",
            "args": ["mcp", "--budget-usd", "0.5", "--runs", "100"]}}}

    It ends with its client; runs go on. Exit codes: 0 ended, 2 wrong usage, 130 Ctrl-C.
    """
    if importlib.util.find_spec("mcp") is None:
        fail("this needs mcp: pip install 'mull[mcp]'.")
    checked = command.checked(MultiPathRequest, {"prompt": "any", **fields})
    fixed = {name: getattr(checked, name) for name in FIXED if getattr(checked, name) is not None}
    if sys.stdin.isatty():
        tell("An MCP client starts this and speaks to it: see docs/mcp.md. Ctrl-C ends it.")
    # A thread that reads would hold up Python's own end.
    signal.signal(signal.SIGINT, lambda *_: end_process(Exit.DETACHED))
    asyncio.run(_serve(Local(runs), fixed, wait))


class Local:
    """Whoever can start programs here: all runs are begun with one connection, made when needed."""

    def __init__(self, most: int | None = None) -> None:
        self._most, self._begun = most, 0
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def begin(self, request: Request, identity: str) -> Run[Any]:
        """Start a run. Raises RequestError if there are too many, and other errors of Mull's."""
        client = await self._connected()
        await client.need_workers(loop_of(request).queues(request))
        if self._most is not None and self._begun >= self._most:
            said = f"{self._begun} runs were started, and this server may start no more"
            raise RequestError(said, "Tell the user, who can restart it.")
        self._begun += 1
        return await client.begin(request, identity)

    async def find(self, identity: str) -> Run[Any]:
        """Find a run. Raises RequestError if there is none."""
        return await (await self._connected()).get(identity)

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = Client(await connection.connect(quiet=True))
            return self._client


async def _serve(local: Local, fixed: dict[str, Any], wait: float) -> None:
    # They take a second to import.
    from mcp.server.stdio import stdio_server

    from commands.mcp_server import Caller, mcp_server
    from mull import telemetry

    telemetry.set_up(None)
    caller = Caller("mcp-", fixed, local.begin, local.find)
    server = mcp_server(lambda _: caller, wait)
    async with stdio_server() as (read, write):
        # The SDK keeps the descriptor to itself. What is printed would wait in Python's buffer, and
        # come out once it is given back.
        with redirect_stdout(sys.stderr):
            await server.run(read, write, server.create_initialization_options())
