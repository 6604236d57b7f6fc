"""`serve`: OpenAI's interface over Mull's runs."""

import os
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.command import Exit, fail, tell, with_client

if TYPE_CHECKING:
    from temporalio.client import Client

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def serve(
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The bearer keys, in TOML; without it only this machine."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen at.")] = 8_400,
) -> None:
    """Serve OpenAI's interface, so that its clients ask by runs.

    Any client of OpenAI's interface asks for the model mull/ask, mull/reflect, mull/turn or
    mull/agent, or one of these with a model behind it, as in mull/ask:openai/gpt-5-mini. Runs
    are durable: they go on though this server, or the client, goes away. With the extra mcp
    there are the tools of `mull mcp` at /mcp, too, by the same keys.

    For example:

        mull serve
        mull serve --keys keys.toml --host 0.0.0.0

    keys.toml has a table for each key, by its name:

        [alice]
        key = "..."              # or sha256 = "...", its hash
        models = ["mull/ask"]    # patterns; all by default
        runs_at_once = 4
        usd_a_day = 5.0

    It speaks HTTP: put a proxy with TLS before it where others than this machine can reach it. It
    stops at Ctrl-C. Exit codes: 0 stopped, 2 wrong usage, 3 no server.
    """
    from commands.http.bearers import read_bearers

    if keys is None and host not in LOOPBACK:
        fail(f"--host {host}: without --keys it listens at 127.0.0.1 alone.")
    try:
        bearers = {} if keys is None else read_bearers(keys)
    except ValueError as error:
        fail(f"--keys: {error}.")

    async def listen(client: "Client") -> Exit:
        import mull
        from commands.http.application import answer_at, application

        connected, tools = mull.Client(client), ""
        if find_spec("mcp") is None:
            served = application(connected, bearers)
        else:
            from commands.http.tools import PATH, with_tools
            from commands.mcp import WAIT_SECONDS

            served, tools = with_tools(connected, bearers, WAIT_SECONDS), f", MCP's tools at {PATH}"
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            place = socket.create_server((host, port), family=family)
        except OSError as error:
            # Python adds the address to the system's words.
            said = str(error.strerror).partition(" (while")[0]
            fail(f"--host {host} --port {port}: {said}.")
        shown = f"[{host}]" if family is socket.AF_INET6 else host
        who = f"for the keys of {keys}" if bearers else "for this machine alone, without keys"
        # Windows has no such modes.
        if keys is not None and os.name == "posix" and keys.stat().st_mode & 0o044:
            tell(f"Note: others on this machine can read {keys}: chmod 600 {keys}")
        tell(f"OpenAI's interface at http://{shown}:{port}/v1{tools}, {who}; Ctrl-C stops it")
        await answer_at(place, served)
        return Exit.DONE

    with_client(listen)
