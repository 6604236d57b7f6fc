"""What a test may disturb: a server, a network, a model and workers of its own."""

import asyncio
import os
import re
import subprocess
import time
import urllib.request
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Self

from temporalio.client import Client

from commands.embedded import Place, free_port, server_command
from mull.connection import connect
from mull.errors import NoServerError
from tests import forks
from tests.chaos.runs import made, replied
from tests.patience import PATIENCE, SILENCE
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint

LOST_SECONDS = 900
# As the server names what Temporal Cloud bills.
ACTION = re.compile(
    r'^action{action_type="(?:grpc_)?(\w+)",namespace="default".* (\d+)$', re.MULTILINE
)


class Network:
    """A way to a port of this machine that can be cut: nothing arrives, and nobody is told."""

    def __init__(self, to: int) -> None:
        self.port, self._to, self._open = 0, to, asyncio.Event()
        self._open.set()
        self._ends: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        """Carry bytes, on a port of its own."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no more connections, and break off those that are open."""
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        # Until each has been told, or it is found unclosed in another test.
        await asyncio.sleep(0.1)

    async def cut(self, seconds: float) -> None:
        """Hold back every byte, also those of new connections, for so long."""
        self._open.clear()
        await asyncio.sleep(seconds)
        self._open.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            source, sink = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._ends += [writer, sink]
        ways = self._pump(reader, sink), self._pump(source, writer)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        finally:
            sink.close()


class Stage:
    """A Temporal server on its file, a model by script, a network, and workers to disturb.

    `reply` is what the model says to a request. Leaving the context ends what was started.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reply: Callable[[Body], Scripted] = replied
        self.place = Place(free_port(), free_port(), folder / "temporal.db")
        self.network = Network(self.place.port)
        self.metrics = free_port()
        self.endpoint = ScriptedEndpoint(self._said)
        self.log = folder / "worker.log"
        self.workers: list[ForkServerProcess] = []
        self.client: Client

    def _said(self, request: Body) -> str | Scripted:
        return self.reply(request)

    async def __aenter__(self) -> Self:
        self.endpoint.__enter__()
        await self.network.start()
        await self.start_server()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.kill_workers()
        self.kill_server()
        await self.network.stop()
        self.endpoint.__exit__(*error)

    async def start_server(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(  # noqa: ASYNC220 - it is short
                [*server_command(self.place), f"--metrics-port={self.metrics}"],
                stdout=log,
                stderr=log,
                # Ctrl-C is for who started this.
                start_new_session=True,
            )
        os.environ["TEMPORAL_ADDRESS"] = self.place.address
        while self.server_runs():
            with suppress(NoServerError):
                self.client = await connect(quiet=True)
                return
            await asyncio.sleep(0.2)

    def actions(self) -> Counter[str]:
        """Count the Actions that the server would bill so far, by their kinds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics") as page:
            found = Counter[str]()
            for kind, count in ACTION.findall(page.read().decode()):
                found[kind] += int(count)
            return found

    def server_runs(self) -> bool:
        return self._server.poll() is None

    def kill_server(self) -> None:
        """End the server as the kernel does where there is no memory left."""
        self._server.kill()
        self._server.wait()

    def start_worker(self, program: str = "", *options: str, **environment: str) -> None:
        """Start a worker of every queue, or a program that is one."""
        file = self.folder / f"{zlib.crc32(program.encode())}.py"
        file.write_text(program)
        known = {
            **os.environ,
            "MULL_HEARTBEAT_SECONDS": os.environ.get("MULL_HEARTBEAT_SECONDS", SILENCE),
            "MULL_MODEL": "openai/scripted",
            "OPENAI_API_BASE": self.endpoint.url,
            "OPENAI_API_KEY": "scripted",
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self.network.port}",
            **environment,
        }
        command = [str(file) if program else "worker.py", *options]
        self.workers.append(forks.start(command, known, self.log, self.log))

    async def serve(self, program: str = "", *options: str, **environment: str) -> float:
        """Start a worker, and return the seconds until it serves."""
        self.log.touch()
        before, begin = self.log.read_text().count("serving "), time.monotonic()
        self.start_worker(program, *options, **environment)
        while self.log.read_text().count("serving ") == before:
            assert self.workers[-1].is_alive(), self.log.read_text()[-1000:]
            await asyncio.sleep(0.02)
        return time.monotonic() - begin

    def kill_workers(self) -> None:
        while self.workers:
            worker = self.workers.pop()
            worker.kill()
            worker.join(PATIENCE)

    async def runs(self, kinds: Iterable[str], names: str, at_once: int = 12) -> list[Any]:
        """Make runs, so many at a time, and return what must be the same of each."""
        slots = asyncio.Semaphore(at_once)

        async def one(number: int, kind: str) -> Any:
            async with slots:
                try:
                    run = made(self.client, kind, f"{names}-{kind}-{number}")
                    return await asyncio.wait_for(run, LOST_SECONDS)
                except TimeoutError:
                    return f"lost: it has not ended after {LOST_SECONDS} s"

        return await asyncio.gather(*(one(*each) for each in enumerate(kinds)))
