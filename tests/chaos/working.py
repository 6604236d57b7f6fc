"""A worker process of a test's own, which it may kill."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.scripted_endpoint import ScriptedEndpoint


@asynccontextmanager
async def working(root: Path, endpoint: ScriptedEndpoint, traces: Path) -> AsyncIterator[Any]:
    """A worker process of its own, and a way to kill it and start the next one."""
    environment = {
        **os.environ,
        "MULL_MODEL": "openai/scripted",
        "OPENAI_API_BASE": endpoint.url,
        "OPENAI_API_KEY": "scripted",
    }
    command = [sys.executable, str(root / "worker.py"), "--traces", str(traces)]
    log = traces.with_suffix(".log").open("ab")
    workers: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        workers.append(process)
        return process

    try:
        yield start
    finally:
        for each in workers:
            each.terminate()
            each.wait(60)
        log.close()
