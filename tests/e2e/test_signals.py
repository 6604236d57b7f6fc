"""Workers that are told to stop, at every moment, and that have runs which they can't read."""

import asyncio
import base64
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowHandle

from activities.sandbox.watcher import children, has_ended
from commands.embedded import Place
from mull.connection import connect
from mull.sampling.request import SelfConsistencyRequest
from tests.conftest import begin, until
from tests.e2e.conftest import started
from tests.e2e.conftest import worker as working
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
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    return await connect()


def start(address: str, queues: str, **more: str) -> Worker:
    """Start a worker, whose log is its standard error."""
    environment = {**os.environ, "TEMPORAL_ADDRESS": address, **more}
    streams: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return started("worker.py", "--queues", queues, environment=environment, **streams)


def seconds_to_end(worker: Worker | ForkServerProcess, number: signal.Signals) -> float:
    assert worker.pid is not None
    watch = Stopwatch()
    os.kill(worker.pid, number)
    (worker.wait if isinstance(worker, subprocess.Popen) else worker.join)(PATIENCE)
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
    number: signal.Signals,
    queues: str,
    more: dict[str, str],
    moment: Callable[[Worker], bool],
) -> None:
    with start(place.address, queues, **more) as worker:
        while not moment(worker):
            assert worker.poll() is None
            time.sleep(0.005)
        started = [*children(worker.pid)]

        seconds = seconds_to_end(worker, number)

    assert worker.returncode == 0
    assert seconds < BOUND_SECONDS
    assert any(not any(map(runs, started)) for _ in patiently(0.02))


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_while_it_connects(number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with start(address, "mull") as worker, silent.accept()[0]:
            seconds = seconds_to_end(worker, number)

    assert worker.returncode == 0
    assert seconds < BOUND_SECONDS


@pytest.mark.usefixtures("spans")
async def test_how_workers_are_built(client: Client) -> None:
    """Calls of models, which are paid for, have longer than others to end.

    For a build id of its own the SDK would hash every module, a quarter of a second beside LiteLLM.
    Workflow tasks share one interpreter lock: of the SDK's 100 at once each would take long.
    """
    runs, calls = (each.config() for each in build(client, ["mull", "llm"], ScriptedModel()))

    assert runs["graceful_shutdown_timeout"] == timedelta(seconds=20)
    assert calls["graceful_shutdown_timeout"] == timedelta(seconds=495)
    assert runs["build_id"] == calls["build_id"] == "unversioned"
    assert runs.get("max_concurrent_workflow_tasks") == 16


@pytest.mark.usefixtures("client")
async def test_stopped_while_it_is_idle(tmp_path: Path) -> None:
    """Nothing is waited for where no call is in flight, however long a call would have."""
    log, known = tmp_path / "log", {**os.environ, "MULL_MODEL": "openai/none"}
    with working(known, log, "--queues", "mull,llm") as worker:
        await until_said(log, " serving ")

        seconds = seconds_to_end(worker, signal.SIGTERM)

    assert worker.exitcode == 0
    assert seconds < min(GRACE.values()) / 2


@pytest.mark.parametrize("number", SIGNALS)
async def test_second_signal(client: Client, tmp_path: Path, number: signal.Signals) -> None:
    log, known = tmp_path / "log", {**os.environ, "MULL_MODEL": "openai/scripted"}
    with ScriptedEndpoint(lambda _: Scripted(delay=60)) as endpoint:
        known |= {"OPENAI_API_BASE": endpoint.url, "OPENAI_API_KEY": "scripted"}
        with working(known, log, "--queues", "mull,llm") as worker:
            handle = await begin(client, {"question": "How much?", "seed": 0})
            await until(lambda: endpoint.requests)
            assert worker.exitcode is None

            os.kill(worker.pid or 0, number)
            await until_said(log, "stopping")
            seconds = seconds_to_end(worker, number)
            await handle.terminate()

    assert worker.exitcode == 0
    assert seconds < BOUND_SECONDS


STUBBORN = '''
import time, worker
from temporalio import workflow

@workflow.defn
class Stubborn:
    """Hold its thread, whatever interrupts it."""

    @workflow.run
    async def run(self) -> None:
        while True:
            try:
                while True:
                    time.sleep(0.05)
            except BaseException:
                pass

worker.HELPERS.append(Stubborn)
worker.GRACE = dict.fromkeys(worker.GRACE, 1)
worker.LAST_SECONDS = 1.0
worker.run()
'''
UNREADABLE = 50


@pytest.fixture
def environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in (("ADDRESS", place.address), ("NAMESPACE", "floods")):
        monkeypatch.setenv(f"TEMPORAL_{name}", value)
    return dict(os.environ)


async def until_said(log: Path, words: str, count: int = 1) -> None:
    await until(lambda: log.exists() and log.read_text().count(words) >= count)


async def test_a_run_that_cannot_be_evicted_does_not_keep_a_worker(
    environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        worker = started(
            *["-c", STUBBORN], "--queues", "mull", environment=environment, stderr=output
        )
    client = await connect()
    try:
        await until_said(log, "serving mull")
        stuck = await client.start_workflow("Stubborn", id=uuid.uuid4().hex, task_queue="mull")
        await until_said(log, "Failed handling activation")
        await stuck.terminate()
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.wait, 60)
    finally:
        worker.kill()
        worker.wait()

    assert worker.returncode == 0
    assert "something can't be evicted or closed" in log.read_text()


async def attempts(run: WorkflowHandle[object, object]) -> int:
    return (await run.describe()).raw_description.pending_workflow_task.attempt


async def test_runs_that_wait_for_a_key_are_a_line_each(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, key = tmp_path / "log", base64.b64encode(b"k" * 32).decode()
    monkeypatch.setenv("MULL_ENCRYPTION_KEYS", f"main-1:{key}")
    client, request = await connect(), SelfConsistencyRequest(question="Is 91 prime?")
    runs: list[WorkflowHandle[object, object]] = [
        await client.start_workflow(
            "SelfConsistencyWorkflow", request, id=f"unreadable-{number}", task_queue="mull"
        )
        for number in range(UNREADABLE)
    ]
    with working(environment, log, "--queues", "mull"):
        await until_said(log, "encrypted with the key", UNREADABLE)
        while min([await attempts(run) for run in runs]) < 3:
            await asyncio.sleep(0.1)
        for run in runs:
            await run.terminate()

    lines = log.read_text().splitlines()
    told = [line for line in lines if "encrypted with the key 'main-1'" in line]
    assert (len(told), "Traceback" in log.read_text()) == (UNREADABLE, False)
    assert len({line.rpartition("run ID ")[2] for line in told}) == UNREADABLE
    assert len(lines) < UNREADABLE + 5
