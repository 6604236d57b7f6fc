"""The server of tuned reflectors and scores, a process of its own that the worker keeps running."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

import aiohttp
from temporalio.exceptions import ApplicationError

from activities.training.activity import variables
from activities.training.port import Scores, ScoreTask

PROGRAM = "activities.training.serve"
AGAIN_SECONDS = 1.0
GPUS = Path("/dev/nvidia[0-9]*")

logger = logging.getLogger("mull.worker")


class Served:
    """Models under a folder, and those named `bases`, served on a host and a port (0: any).

    This process owns the socket, so that requests wait while the server starts, or starts again.
    The server does not get providers' keys, and ends when this process does, however that ends.
    """

    def __init__(
        self, root: Path, host: str = "127.0.0.1", port: int = 0, bases: Sequence[str] = ()
    ) -> None:
        """Listen. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        found = self._socket.getsockname()[1]
        self.address = f"http://[{host}]:{found}" if ":" in host else f"http://{host}:{found}"
        self._root, self._bases = root, bases
        self._process: Process | None = None
        self._may_run = asyncio.Event()
        self._may_run.set()

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._keeping
        self._socket.close()

    @contextlib.asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Keep models off the GPU while the block runs; requests wait meanwhile."""
        if not any(GPUS.parent.glob(GPUS.name)):
            yield
            return
        self._may_run.clear()
        try:
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            yield
        finally:
            self._may_run.set()

    async def score(self, task: ScoreTask) -> Scores:
        """Score reflections. Raises ApplicationError, non-retryable if the model can't be used."""
        body, headers = task.model_dump_json(), {"Content-Type": "application/json"}
        patient = aiohttp.ClientTimeout(total=None)
        try:
            async with (
                aiohttp.ClientSession(timeout=patient) as session,
                session.post(f"{self.address}/score", data=body, headers=headers) as reply,
            ):
                if reply.status == 200:
                    return Scores.model_validate_json(await reply.read())
                told = (await reply.json())["error"]
        except aiohttp.ClientError as error:
            said = f"The model server ended or can't be reached: {type(error).__name__}"
            raise ApplicationError(said, type="serving_lost") from None
        permanent = reply.status < 500
        raise ApplicationError(told["message"], type=told["code"], non_retryable=permanent)

    async def _keep(self) -> None:
        while await self._may_run.wait():
            try:
                code = await self._run()
            except OSError as error:
                logger.warning("the model server could not start: %s", error.strerror)
            else:
                if not self._may_run.is_set():
                    continue
                logger.warning("the model server ended with exit code %d, and is restarted", code)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _run(self) -> int:
        listening = self._socket.fileno()
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM, str(listening), *self._bases),
            # The server ends with its input, and prints to the worker's log.
            stdin=PIPE,
            stdout=2,
            env=variables(os.environ, self._root),
            pass_fds=[listening],
            # Ctrl-C is for the worker.
            start_new_session=True,
        )
        if not self._may_run.is_set():
            process.kill()
        try:
            return await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
