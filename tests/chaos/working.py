"""A worker process of a test's own, which it may kill."""

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from temporalio.client import Client

from tests import forks
from tests.chaos.rebuilt import assert_whole
from tests.conftest import Handle
from tests.patience import PATIENCE, SILENCE
from tests.scripted_endpoint import Body, Replies, ScriptedEndpoint


class Working:
    """Workers with options, one after the other, and the model that they call.

    `requests` are those that the model got.
    """

    def __init__(self, endpoint: ScriptedEndpoint, traces: Path, options: tuple[str, ...]) -> None:
        self._environment = {
            **os.environ,
            "MULL_HEARTBEAT_SECONDS": SILENCE,
            "MULL_MODEL": "openai/scripted",
            "OPENAI_API_BASE": endpoint.url,
            "OPENAI_API_KEY": "scripted",
        }
        self._command = ["worker.py", "--traces", str(traces), *options]
        self._traces = traces
        self._workers: list[ForkServerProcess] = []
        self.requests: list[Body] = endpoint.requests
        self.start()

    @property
    def worker(self) -> ForkServerProcess:
        return self._workers[-1]

    def start(self) -> None:
        log = self._traces.with_suffix(".log")
        self._workers.append(forks.start(self._command, self._environment, log, log))

    def kill(self) -> None:
        self.worker.kill()
        self.worker.join(PATIENCE)

    def replace(self) -> None:
        self.kill()
        self.start()

    def end(self) -> None:
        for worker in self._workers:
            worker.terminate()
            worker.join(PATIENCE)


@asynccontextmanager
async def working(model: Replies, traces: Path, *options: str) -> AsyncIterator[Working]:
    """Serve with a worker process, with options, that calls this model."""
    with ScriptedEndpoint(model) as endpoint:
        place = Working(endpoint, traces, options)
        try:
            yield place
        finally:
            place.end()


async def assert_decided(client: Client, handle: Handle, traces: Path, result: Any) -> Counter[str]:
    """The run is rebuilt as it was written, with a span for each decision; count all by name."""
    [rebuilt] = await assert_whole(client, handle.id, traces)
    names = Counter(span.name for span in rebuilt.spans)
    assert names["mull.decision"] == len(result.decisions)
    return names
