"""What a worker process serves beside its queues: metrics, health, and a log in JSON."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import activity
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowFailureError

import worker
from activities.training.port import BufferResult, BufferTask
from commands.embedded import Place, free_port, temporal
from mull import telemetry
from mull.agents.training_result import BufferCounts
from mull.connection import connect, pollers
from service import Health, announce
from tests import forks
from tests.conftest import QUERY, begin, ended, until
from tests.e2e.model import AGENT, replied
from tests.patience import PATIENCE, Stopwatch
from tests.scripted import ScriptedModel, judgement
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint
from tests.unit.test_calibrated import made
from tests.workflows.agents.scripted_training import ScriptedTraining, trains

MODEL = "openai/gpt-4o-mini"
LABELLED = re.compile(r'(\w+)="([^"]*)"')


def answered(request: Body) -> Scripted:
    """Answer what any workflow asks: "keyless" is refused, "slow" takes a minute."""
    prompt = request["messages"][-1]["content"]
    if "keyless" in prompt or prompt.startswith(tuple(AGENT)):
        return replied(request)
    if prompt.startswith("You judge a draft"):
        return Scripted(judgement(prompt, 0.9))
    told = json.dumps({"reasoning": "it is known", "answer": "129"})
    return Scripted(told, delay=60 if "slow" in prompt else 0)


class Served(NamedTuple):
    """A worker process, where it is listened to, and its log."""

    process: Any
    metrics: str
    health: str
    log: Path

    def samples(self) -> dict[str, list[dict[str, str]]]:
        found: dict[str, list[dict[str, str]]] = {}
        for line in get(f"{self.metrics}/metrics")[1].splitlines():
            if not line.startswith("#"):
                name, _, labels = line.partition("{")
                found.setdefault(name, []).append(dict(LABELLED.findall(labels)))
        return found


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as reply:  # noqa: S310 - on loopback
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


async def until_status(url: str, status: int) -> float:
    """Wait until a probe says so, and return for how many seconds."""
    watch = Stopwatch()
    await until(lambda: asyncio.to_thread(get, url), lambda got: got[0] == status)
    return watch.seconds


@asynccontextmanager
async def serving(place: Place, folder: Path, *options: str) -> AsyncIterator[Served]:
    health, metrics, log = free_port(), free_port(), folder / "log"
    with ScriptedEndpoint(answered) as endpoint:
        environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": place.address,
            "TEMPORAL_NAMESPACE": "service",
            "MULL_MODEL": MODEL,
            "OPENAI_API_BASE": endpoint.url,
            "OPENAI_API_KEY": "sk-secret",
        }
        listened = ["--health", f"localhost:{health}", "--metrics", f"127.0.0.1:{metrics}"]
        command = ["worker.py", *listened, "--log", "json", *options]
        process = forks.start(command, environment, log, log)
        served = Served(process, f"http://127.0.0.1:{metrics}", f"http://localhost:{health}", log)
        try:
            await until_status(f"{served.health}/readyz", 200)
            yield served
        finally:
            process.terminate()
            process.join(PATIENCE)


@pytest.fixture
async def own(place: Place, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "service")
    return await connect()


class Rated(ScriptedTraining):
    """A training worker to which each pair tells better from worse."""

    @activity.defn
    async def assemble_buffer(self, task: BufferTask) -> BufferResult:
        counts = BufferCounts(pairs=1, good=1, preferences=1)
        return BufferResult(path=f"{task.run}/buffer", counts=counts, sha256="0" * 64)


async def run(client: Client, kind: str, request: dict[str, Any]) -> None:
    try:
        handle = await begin(client, request, kind)
        if kind == "SessionWorkflow":
            await handle.execute_update("send", {"message": "How much?"})
            await handle.execute_update("finish_now")
        await ended(handle)
    except WorkflowFailureError:
        pass


def assert_first_failures_count(
    begun: dict[str, list[dict[str, str]]], found: dict[str, list[dict[str, str]]]
) -> None:
    """Each series that alerts ask for is there from the start, and is the one that counts later."""
    for name, labels in (
        ("mull_runs", {"stop_reason": "failed", "workflow_type": "SelfConsistencyWorkflow"}),
        ("mull_sandbox_outcomes", {"outcome": "sandbox_error", "activity_type": "run_code"}),
        (
            "mull_activity_failures",
            {"error_type": "AuthenticationError", "activity_type": "sample_answer"},
        ),
        ("mull_version_unserved", {"build_id": "unversioned", "task_queue": "mull-code"}),
    ):
        first = [each for each in begun[name] if labels.items() <= each.items()]
        assert len(first) == 1, name
        assert [each for each in found[name] if labels.items() <= each.items()] == first


async def test_every_metric_and_a_log_of_objects(own: Client, place: Place, tmp_path: Path) -> None:
    """Runs of every type leave each metric with its labels, and lines that name run and span."""
    asked = {"question": "How much?", "preset": "thrifty"}
    fitted = made(model=None).model_dump(mode="json")
    learned = {"environment": "code", "rollouts": 1, "step_limit": 1}
    batch = {"name": "a", "workflow": "SelfConsistencyWorkflow", "takes": {"question": "q"}}
    runs: list[tuple[str, dict[str, Any]]] = [
        ("SelfConsistencyWorkflow", {**asked, "calibration": fitted}),
        ("SelfConsistencyWorkflow", {"question": "A keyless one?"}),
        ("ReflectOnResultWorkflow", {"query": QUERY}),
        ("MultiPathWorkflow", {"prompt": "Write add(a, b).", "mode": "code"}),
        ("ToolTurnWorkflow", {"message": "How much?", "tools": []}),
        ("SessionWorkflow", {"tools": []}),
        ("BatchWorkflow", {"items": [{"q": "How much?"}], "variants": [batch]}),
        (
            "ReflexionWorkflow",
            {"environment": "code", "task": "HumanEval/0", "episode_limit": 1, "step_limit": 1},
        ),
        (
            "RetroformerTrainingWorkflow",
            {**learned, "tasks": ["HumanEval/0"], "reflector": MODEL, "base_model": "tiny"},
        ),
        ("DoctorWorkflow", {"offline": True, "queues": ["mull"]}),
    ]
    spans = ("--traces", str(tmp_path / "spans"))
    async with trains(own, Rated()), serving(place, tmp_path, *spans) as served:
        begun = served.samples()
        await asyncio.gather(*(run(own, *each) for each in runs))
        found = served.samples()

    for metric in telemetry.METRICS:
        name = f"{metric.name}_sum" if metric.buckets else metric.name
        assert all(set(metric.labels) <= set(labels) for labels in found[name]), metric.name
    kinds = {kind for kind, _ in runs} | {"RetroformerRolloutWorkflow"}
    ended = [each for each in found["mull_runs"] if each not in begun["mull_runs"]]
    assert {labels["workflow_type"] for labels in ended} == kinds
    assert_first_failures_count(begun, found)
    ends = {labels["stop_reason"] for labels in found["mull_runs"]}
    assert {"failed", "completed", "finished_by_person"} <= ends
    assert {labels["model"] for labels in found["mull_tokens"]} == {MODEL}
    assert "1" in {labels["le"] for labels in found["mull_confidence_bucket"]}
    assert not {"workflow_id", "run_id"} & {
        key for each in found.values() for one in each for key in one
    }
    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    failed = next(line for line in lines if line.get("activity_type") == "sample_answer")
    assert {"workflow_id", "run_id", "workflow_type", "trace_id", "span_id"} <= set(failed)
    assert (failed["attempt"], failed["exception"].startswith("Traceback")) == (1, True)
    assert not failed["message"].endswith("})")


async def test_a_worker_that_is_told_to_stop_takes_no_more(
    own: Client, place: Place, tmp_path: Path
) -> None:
    """It is not ready from then on, and alive as long as its calls go on."""
    async with serving(place, tmp_path, "--queues", "mull,llm") as served:
        slow = await begin(own, {"question": "A slow one?", "max_responses": 1})
        started = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        await until(
            slow.describe,
            lambda run: started in [one.state for one in run.raw_description.pending_activities],
        )
        os.kill(served.process.pid, signal.SIGTERM)
        assert await until_status(f"{served.health}/readyz", 503) < 2
        assert get(f"{served.health}/healthz")[0] == 200
        assert get(f"{served.health}/")[0] == 404
        os.kill(served.process.pid, signal.SIGTERM)
        await slow.terminate()


async def test_readiness_follows_the_server(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spans: InMemorySpanExporter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No worker is ready, or says that it serves, before it polls, nor once its server is gone.

    A command that is started as soon as a worker says so finds it. A probe always answers.
    """
    caplog.set_level("INFO", "mull.worker")
    assert spans is not None
    monkeypatch.setenv("MULL_WEB_UI", "before")
    port = free_port()
    health, url = Health(("::1", port)), f"http://[::1]:{port}"
    assert (get(f"{url}/healthz")[0], get(f"{url}/readyz")[0]) == (200, 503)
    place = Place(free_port(), free_port(), tmp_path / "temporal.db")
    async with temporal(place, tmp_path / "log") as (server, client):
        serves = asyncio.Event()
        announced = asyncio.create_task(announce(client, ["mull"], serves))
        watch = asyncio.create_task(health.watch(client, serves))
        await asyncio.sleep(1)
        assert get(f"{url}/readyz")[0] == 503
        assert "serving" not in caplog.text
        async with worker.build(client, ["mull"], ScriptedModel(sample=[]))[0]:
            assert await until_status(f"{url}/readyz", 200) < 5
            assert f"serving mull at {place.address}" in caplog.text
            time.sleep(0.2)  # noqa: ASYNC251 - the event loop stands still
            assert get(f"{url}/readyz")[0] == 200
            server.kill()
            assert await until_status(f"{url}/readyz", 503) < 6
        announced.cancel()
        watch.cancel()
    assert os.environ["MULL_WEB_UI"] == "before"
    health.shutdown()
    health.server_close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metrics", "127.0.0.1:{taken}"], "Address already in use"),
        (["--health", "127.0.0.1:{taken}"], "Address already in use"),
        (["--metrics", "127.0.0.1:0"], "expected HOST:PORT"),
        (["--health", "8080"], "expected HOST:PORT"),
        (["--health", "nowhere.invalid:80"], "nowhere.invalid is not known"),
        (["--build-id", ""], "--build-id is empty"),
        (["--base", "gpt2"], "for a worker of the queue train"),
        (["--queues", "train"], "mull-train can't be served: the extra `train` is not installed"),
    ],
)
def test_what_can_t_be_served_is_said_at_the_start(options: list[str], said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [each.format(taken=taken.getsockname()[1]) for each in options]
        arguments = ["worker.py", "--queues", "mull", *given]
        ended = forks.run(*arguments, environment=dict(os.environ))

    assert ended.returncode == 2
    assert said in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_a_silence_that_makes_no_sense_is_refused_at_the_start() -> None:
    """A worker says so in one line, from nothing: no import reads the variable."""
    known = {**os.environ, "MULL_HEARTBEAT_SECONDS": "fast"}
    command = [sys.executable, "worker.py", "--queues", "mull"]
    ended = subprocess.run(command, env=known, capture_output=True, text=True, check=False)

    said = "Error: MULL_HEARTBEAT_SECONDS: expected seconds from 1 to 300.\n"
    assert (ended.returncode, ended.stderr) == (2, said)


async def test_runs_are_served_before_models_are_loaded(own: Client, place: Place) -> None:
    """A worker that starts anew polls `mull` while it imports the rest, and is not ready yet."""
    health = free_port()
    known = {**os.environ, "MULL_MODEL": MODEL, "TEMPORAL_ADDRESS": place.address}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "worker.py", "--queues", "mull,llm", "--health", f"127.0.0.1:{health}"),
        env={**known, "TEMPORAL_NAMESPACE": "service"},
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def polls(queue: str) -> bool:
        return any(by.startswith(f"{process.pid}@") for by, _ in await pollers(own, queue))

    try:
        await until(lambda: polls("mull"))
        early = await polls("mull-llm"), get(f"http://127.0.0.1:{health}/readyz")[0]
        await until_status(f"http://127.0.0.1:{health}/readyz", 200)
        late = await polls("mull-llm")
    finally:
        process.terminate()
        await process.wait()

    assert (early, late) == ((False, 503), True)
