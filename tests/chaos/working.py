"""A worker process of a test's own, which it may kill."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests import forks
from tests.patience import PATIENCE, SILENCE
from tests.scripted_endpoint import ScriptedEndpoint


@asynccontextmanager
async def working(endpoint: ScriptedEndpoint, traces: Path, *options: str) -> AsyncIterator[Any]:
    """A worker process of its own, with options, and a way to kill it and start the next one."""
    environment = {
        **os.environ,
        "MULL_HEARTBEAT_SECONDS": SILENCE,
        "MULL_MODEL": "openai/scripted",
        "OPENAI_API_BASE": endpoint.url,
        "OPENAI_API_KEY": "scripted",
    }
    command, log = ["worker.py", "--traces", str(traces), *options], traces.with_suffix(".log")
    workers: list[ForkServerProcess] = []

    def start() -> ForkServerProcess:
        workers.append(forks.start(command, environment, log, log))
        return workers[-1]

    try:
        yield start
    finally:
        for each in workers:
            each.terminate()
            each.join(PATIENCE)
