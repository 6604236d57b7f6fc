"""A worker that is told to stop: at every moment of its start, and a second time."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from activities.sandbox.watcher import children, has_ended
from commands.embedded import Place
from mull.connection import connect
from tests.conftest import begin
from tests.patience import PATIENCE, Stopwatch, patiently
from tests.scripted import ScriptedModel
from tests.scripted_endpoint import Scripted, ScriptedEndpoint
from worker import GRACE, build

BOUND_SECONDS = 2
TOY = {"MULL_MODEL": "embedded/smollm2-135m"}
SIGNALS = [signal.SIGTERM, signal.SIGINT]
Worker = subprocess.Popen[str]


@pytest.fixture
async def client(place: Place, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of the namespace in which no other worker serves."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    return await connect()


def start(root: Path, address: str, queues: str, **more: str) -> Worker:
    """Start a worker, whose log is its standard error."""
    return subprocess.Popen(
        [sys.executable, str(root / "worker.py"), "--queues", queues],
        env={**os.environ, "TEMPORAL_ADDRESS": address, **more},
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def seconds_to_end(worker: Worker, number: signal.Signals) -> float:
    watch = Stopwatch()
    worker.send_signal(number)
    worker.wait(PATIENCE)
    return watch.seconds


def has_mapped(name: str) -> Callable[[Worker], bool]:
    """Tell whether a library is loaded, which shows how far its imports have come."""
    return lambda worker: name in Path(f"/proc/{worker.pid}/maps").read_text("utf-8", "replace")


def has_started_another(worker: Worker) -> bool:
    return any(children(worker.pid))


def runs(pid: int) -> bool:
    try:
        return not has_ended(Path(f"/proc/{pid}"))
    except OSError:
        return False


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("queues", "more", "moment"),
    [
        ("mull,llm", {}, has_mapped("/_sqlite3.")),
        ("mull,llm", {}, has_mapped("/aiohttp/")),
        ("mull,llm", TOY, has_started_another),
        ("code", {}, has_started_another),
    ],
    ids=["first imports", "later imports", "embedded model", "self-test of the sandbox"],
)
def test_stopped_while_it_starts(
    place: Place,
    root: Path,
    number: signal.Signals,
    queues: str,
    more: dict[str, str],
    moment: Callable[[Worker], bool],
) -> None:
    """Whatever a worker is busy with before it serves, it ends in time, with all it started."""
    with start(root, place.address, queues, **more) as worker:
        while not moment(worker):
            assert worker.poll() is None
            time.sleep(0.005)
        started = [*children(worker.pid)]

        seconds = seconds_to_end(worker, number)

    assert worker.returncode == 0
    assert seconds < BOUND_SECONDS
    assert any(not any(map(runs, started)) for _ in patiently(0.02))


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_while_it_connects(root: Path, number: signal.Signals) -> None:
    """A server that takes connections and never answers does not keep a worker either."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with start(root, address, "mull") as worker, silent.accept()[0]:
            seconds = seconds_to_end(worker, number)

    assert worker.returncode == 0
    assert seconds < BOUND_SECONDS


async def test_each_queue_has_its_time(client: Client, spans: InMemorySpanExporter) -> None:
    """Calls of models, which are paid for, have longer than others to end."""
    assert spans is not None
    known = [each.config() for each in build(client, ["mull", "llm"], ScriptedModel([]))]

    graces = {each["task_queue"]: each["graceful_shutdown_timeout"] for each in known}
    assert graces == {"mull": timedelta(seconds=20), "mull-llm": timedelta(seconds=495)}


async def test_no_worker_reads_every_module(client: Client, spans: InMemorySpanExporter) -> None:
    """For a build id of its own the SDK hashes each, a quarter of a second beside LiteLLM."""
    assert spans is not None
    known = [each.config() for each in build(client, ["mull", "llm"], ScriptedModel([]))]

    assert {each["build_id"] for each in known} == {"unversioned"}


async def test_few_workflow_tasks_side_by_side(client: Client, spans: InMemorySpanExporter) -> None:
    """They share one interpreter lock: of the SDK's 100 at once each would take long."""
    assert spans is not None
    [runs] = build(client, ["mull"])

    assert runs.config().get("max_concurrent_workflow_tasks") == 16


def test_stopped_while_it_is_idle(place: Place, root: Path) -> None:
    """Nothing is waited for where no call is in flight, however long a call would have."""
    with start(root, place.address, "mull,llm", MULL_MODEL="openai/none") as worker:
        assert worker.stderr is not None
        while " serving " not in worker.stderr.readline():
            assert worker.poll() is None

        seconds = seconds_to_end(worker, signal.SIGTERM)

    assert worker.returncode == 0
    assert seconds < min(GRACE.values()) / 2


@pytest.mark.parametrize("number", SIGNALS)
async def test_second_signal(
    place: Place, client: Client, root: Path, number: signal.Signals
) -> None:
    """The first lets calls in flight end; a second one ends them."""
    with ScriptedEndpoint(by_seed=lambda _: Scripted(delay=60)) as endpoint:
        more = {"OPENAI_API_BASE": endpoint.url, "OPENAI_API_KEY": "scripted"}
        more["MULL_MODEL"] = "openai/scripted"
        with start(root, place.address, "mull,llm", **more) as worker:
            assert worker.stderr is not None
            handle = await begin(client, {"question": "How much?", "seed": 0})
            async with asyncio.timeout(PATIENCE):
                while not endpoint.requests:
                    assert worker.poll() is None
                    await asyncio.sleep(0.02)

            worker.send_signal(number)
            while "stopping" not in worker.stderr.readline():
                assert worker.poll() is None
            seconds = seconds_to_end(worker, number)
            await handle.terminate()

    assert worker.returncode == 0
    assert seconds < BOUND_SECONDS
