"""An embedded Temporal with its Web UI, and a worker: for trying Mull, not for production."""

import asyncio
import os
import shutil
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from temporalio.client import Client

from activities.language_model import port
from commands.session import Exit, fail, unserved
from connection import TASK_QUEUE, NoServerError, connect
from telemetry import SEARCH_ATTRIBUTES

Value = TypeVar("Value")

TOY_MODEL = "embedded/smollm2-135m"
PORT, UI_PORT = 7233, 8233
ROOT = Path(__file__).parents[1]
START_SECONDS = 60
STOP_SECONDS = 30


class Place(NamedTuple):
    """Where the embedded server listens: the ports on 127.0.0.1, and its database file."""

    port: int
    ui_port: int
    db: Path

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def web_ui(self) -> str:
        """The Web UI's address."""
        return f"http://127.0.0.1:{self.ui_port}"


def is_free(port: int) -> bool:
    """Return True if nothing listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Find a free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@asynccontextmanager
async def temporal(place: Place, log: Path) -> AsyncIterator[tuple[Process, Client]]:
    """Run the server, and yield it with a client once it is ready; its output goes to `log`."""
    os.environ.update(TEMPORAL_ADDRESS=place.address, MULL_WEB_UI=place.web_ui)
    os.environ.setdefault("MULL_MODEL", TOY_MODEL)
    async with _process(server_command(place), log, "the Temporal server") as server:
        yield server, await _until(lambda: connect(quiet=True), server, "the Temporal server", log)


@asynccontextmanager
async def working(client: Client, traces: Path | None, log: Path) -> AsyncIterator[Process]:
    """Run a worker, and yield it once it polls; its output goes to `log`."""

    async def polls() -> None:
        if await unserved(client, (TASK_QUEUE, port.TASK_QUEUE)):
            raise ConnectionError("not polling yet")

    traced = ["--traces", str(traces.resolve())] if traces else []
    command = [sys.executable, str(ROOT / "worker.py"), *traced]
    async with _process(command, log, "the worker") as worker:
        await _until(polls, worker, "the worker", log)
        yield worker


def server_command(place: Place) -> list[str]:
    """Build the development server's command line, with Mull's search attributes."""
    beside = str(Path(sys.executable).parent)
    temporal = shutil.which("temporal", path=beside) or shutil.which("temporal")
    if temporal is None:
        fail("There is no `temporal` command. Install Temporal's CLI.", Exit.USAGE)
    known = [f"--search-attribute={name}={kind}" for name, kind in SEARCH_ATTRIBUTES.items()]
    return [
        temporal,
        "server",
        "start-dev",
        "--ip=127.0.0.1",
        f"--port={place.port}",
        f"--ui-port={place.ui_port}",
        f"--db-filename={place.db}",
        "--sqlite-pragma=journal_mode=WAL",
        "--sqlite-pragma=synchronous=NORMAL",
        "--dynamic-config-value=history.transferProcessorMaxPollRPS=1000",
        "--log-level=error",
        *known,
    ]


@asynccontextmanager
async def _process(command: list[str], log: Path, name: str) -> AsyncIterator[Process]:
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                sys.stderr.write(f"{name} did not stop within {STOP_SECONDS} s and was killed\n")
                process.kill()
                await process.wait()


async def _until(
    attempt: Callable[[], Awaitable[Value]], process: Process, name: str, log: Path
) -> Value:
    """Retry until the attempt succeeds, the process ends, or a minute has passed."""
    for _ in range(START_SECONDS * 5):
        if process.returncode is not None:
            break
        try:
            return await attempt()
        except (ConnectionError, NoServerError):
            await asyncio.sleep(0.2)
    said = log.read_text(errors="replace").strip().splitlines()[-1:]
    return fail(f"{name} did not start. The end of {log}: {''.join(said)[:300]}", Exit.FAILED)
