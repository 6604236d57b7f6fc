"""`mcp`: Mull's runs as tools of an MCP client, over standard input and output."""

import asyncio
import importlib.util
import signal
import sys
from typing import Annotated, Any

import typer

from commands import command
from commands.command import Exit, end_process, fail, tell
from commands.help import COMMON
from commands.options import takes_fields
from mull.multipath.request import MultiPathRequest
from mull.text import EXTRA

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
    these options, and no mull.toml is read. No tool reviews a result or allows a call.

    For example, in a client's file of servers:

        {"mcpServers": {"mull": {"command": "mull",
            "args": ["mcp", "--budget-usd", "0.5", "--runs", "100"]}}}

    It ends with its client; runs go on. Exit codes: 0 ended, 2 wrong usage, 130 Ctrl-C.
    """
    if importlib.util.find_spec("mcp") is None:
        fail(f"this needs mcp: {EXTRA.format('mcp')}.")
    checked = command.checked(MultiPathRequest, {"prompt": "any", **fields})
    fixed = {name: getattr(checked, name) for name in FIXED if getattr(checked, name) is not None}
    if sys.stdin.isatty():
        tell("An MCP client starts this and speaks to it: see docs/mcp.md. Ctrl-C ends it.")
    # A thread that reads would hold up Python's own end.
    signal.signal(signal.SIGINT, lambda *_: end_process(Exit.DETACHED))
    # It takes a second to import.
    from commands.mcp_server import serve_here

    asyncio.run(serve_here(fixed, runs, wait))
