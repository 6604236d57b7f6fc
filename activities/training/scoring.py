"""What serves tuned reflectors and scores reflections: a process of its own, kept by the worker."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import aiohttp
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.training.activity import KEPT, KEPT_PREFIXES
from activities.training.port import VARIABLE, Scores, ScoreTask
from connection import heartbeating

PROGRAM = "activities.training.serving"
AGAIN_SECONDS = 1.0

logger = logging.getLogger("mull.worker")


class Served:
    """Models under a folder, and those named `bases`, served on a host and a port (0: any).

    The socket is this process's own, so that requests wait while the other one starts, or starts
    again. That one has no key of a provider, and ends when this process does, however that ends.
    """

    _process: Process | None = None

    def __init__(
        self, root: Path, host: str = "127.0.0.1", port: int = 0, bases: Sequence[str] = ()
    ) -> None:
        """Listen. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        found = self._socket.getsockname()[1]
        self.address = f"http://[{host}]:{found}" if ":" in host else f"http://{host}:{found}"
        self._root, self._bases = root, bases

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._keeping
        self._socket.close()

    async def score(self, task: ScoreTask) -> Scores:
        """Score reflections. Raises ApplicationError, and aiohttp.ClientError if it is cut off."""
        body, headers = task.model_dump_json(), {"Content-Type": "application/json"}
        patient = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=patient) as session,
            session.post(f"{self.address}/score", data=body, headers=headers) as reply,
        ):
            if reply.status == 200:
                return Scores.model_validate_json(await reply.read())
            error = (await reply.json())["error"]
        permanent = reply.status < 500
        raise ApplicationError(error["message"], type=error["code"], non_retryable=permanent)

    async def _keep(self) -> None:
        while True:
            try:
                code = await self._run()
            except OSError as error:
                logger.warning("what serves models could not begin: %s", error.strerror)
            else:
                logger.warning("what serves models ended with exit code %d, and begins again", code)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _run(self) -> int:
        listening = self._socket.fileno()
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM, str(listening), *self._bases),
            # Its end is the process's; what is printed goes to the worker's log.
            stdin=PIPE,
            stdout=2,
            env=variables(os.environ, self._root),
            pass_fds=[listening],
            # Ctrl-C is the worker's.
            start_new_session=True,
        )
        try:
            return await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def variables(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Choose the variables of a process that has models: no key of a provider is among them."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    here = os.pathsep.join(path or "." for path in sys.path)
    return kept | {"PYTHONPATH": here, "OMP_NUM_THREADS": "1", VARIABLE: str(root)}


class ScoringActivities:
    """The activity that scores reflections with a reward model."""

    def __init__(self, served: Served) -> None:
        self._served = served

    @activity.defn
    async def score_reflections(self, task: ScoreTask) -> Scores:
        """Score reflections. What can't be used as a reward model is an error for good."""
        async with heartbeating():
            try:
                return await self._served.score(task)
            except (aiohttp.ClientError, ConnectionError) as error:
                said = f"What serves models ended or can't be reached: {type(error).__name__}"
                raise ApplicationError(said, type="serving_lost") from None
