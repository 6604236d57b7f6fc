"""`dev`: an embedded Temporal with its Web UI and a worker, until interrupted."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.session import Exit, fail

if TYPE_CHECKING:
    from commands.embedded import Place


USUAL_PORT = 7233
DOCUMENTS = "MULL_DOCUMENTS"


def dev(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Temporal's port.")] = USUAL_PORT,
    ui_port: Annotated[int, typer.Option(min=1, max=65_535, help="The Web UI's port.")] = 8233,
    db: Annotated[
        Path, typer.Option(metavar="FILE", help="Temporal's database; created if missing.")
    ] = Path("mull-dev.db"),
    traces: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the worker's spans here, as JSON.")
    ] = None,
) -> None:
    """Run an embedded Temporal with its Web UI, and a worker, until Ctrl-C.

    MULL_MODEL (any LiteLLM name) answers; without it, an embedded toy model does. `agent --docs`
    may search the current folder, unless MULL_DOCUMENTS names others.

    Example: MULL_MODEL=openai/gpt-5-mini mull dev
    """
    from temporalio.service import RPCError

    from commands.embedded import Place, is_free
    from connection import ConfigurationError

    for option, number in (("--port", port), ("--ui-port", ui_port)):
        if not is_free(number):
            fail(f"port {number} is taken; choose another with {option}.", Exit.USAGE)
    place = Place(port, ui_port, db.resolve())
    if not place.db.parent.is_dir():
        fail(f"--db: there is no folder {place.db.parent}.", Exit.USAGE)
    os.environ.setdefault(DOCUMENTS, str(Path.cwd()))
    try:
        asyncio.run(_stay(place, traces))
    except asyncio.CancelledError:
        raise typer.Exit(Exit.DETACHED) from None
    except ConfigurationError as error:
        fail(f"{error}.", Exit.USAGE)
    except OSError as error:
        fail(f"{error.filename or 'a file'} can't be used: {error.strerror}.", Exit.USAGE)
    except RPCError as error:
        fail(f"the Temporal server refused: {error.message}.", Exit.FAILED)


def _on_signals(action: Callable[[], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, action)


async def _stay(place: "Place", traces: Path | None) -> None:
    """Run the server and a worker until a signal; restart the worker whenever it ends."""
    import telemetry
    from commands.embedded import temporal, working

    starting, stop = asyncio.current_task(), asyncio.Event()
    _on_signals(lambda: starting and starting.cancel())
    telemetry.set_up(None)
    log = place.db.with_suffix(".log")
    async with temporal(place, log) as (server, client):
        served = False
        while not stop.is_set():
            async with working(client, traces, log) as worker:
                if not served:
                    _on_signals(stop.set)
                    _say(place, log)
                    served = True
                ends = [
                    asyncio.create_task(end) for end in (stop.wait(), server.wait(), worker.wait())
                ]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in ends:
                    task.cancel()
                if stop.is_set():
                    sys.stderr.write("stopping; calls in flight have up to 20 s\n")
                elif server.returncode is not None:
                    fail(f"the Temporal server ended unexpectedly. See {log}.", Exit.FAILED)
                else:
                    ended = f"the worker ended with exit code {worker.returncode} and is restarted"
                    sys.stderr.write(f"{ended}; runs continue.\n")


def _say(place: "Place", log: Path) -> None:
    from commands.embedded import TOY_MODEL

    model = os.environ["MULL_MODEL"]
    toy = " (a toy: set MULL_MODEL for a real one)" if model == TOY_MODEL else ""
    elsewhere = "" if place.port == USUAL_PORT else f"TEMPORAL_ADDRESS={place.address} "
    mull = os.path.relpath(Path(sys.executable).with_name("mull"))
    sys.stderr.write(
        f"Temporal  {place.address}\n"
        f"Web UI    {place.web_ui}\n"
        f"Model     {model}{toy}\n"
        f"Documents {os.environ[DOCUMENTS] or 'none'} ({DOCUMENTS})\n"
        f"Database  {place.db}\n"
        f"Log       {log}\n"
        f'Try: {elsewhere}{mull} ask "Is 91 prime?"   Ctrl-C stops everything.\n'
    )
