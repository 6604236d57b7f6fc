"""A real Temporal server for the tests that need one, and a worker with the strictest settings."""

import asyncio
import gc
import inspect
import logging
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import temporalio.workflow
from hypothesis import settings
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import worker
from activities.language_model.port import LanguageModel
from adapters import QUEUES
from commands.embedded import Place, free_port, server_command
from mull import telemetry
from mull.connection import TASK_QUEUE, connect, unserved
from mull.critique.result import ReflectOnResultResult
from mull.errors import NoServerError
from mull.sampling.result import SelfConsistencyResult
from tests.hangs import pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401 - they are hooks
from tests.patience import PATIENCE, patiently
from tests.replaying import Replaying
from tests.scripted import ScriptedModel

Handle = WorkflowHandle[Any, Any]

QUERY = "Explain how a tide table is made, and for whom"

# One example may take longer than 200 ms, the default, on a busy machine.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# Temporal's sandbox, which finds what is not deterministic, loads the workflows anew for each task:
# the recorded histories are replayed in it, and all other runs have the worker's own runner.
# Everything but the workflows' own files is passed through: those are what it must watch.
SANDBOX = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules(
        "mull", "activities", "pydantic", "opentelemetry", "hypothesis"
    )
)
STRICT: dict[str, Any] = {
    "plugins": [Replaying()],
    "plugin_shutdown_timeout": timedelta(seconds=PATIENCE),
    "workflow_failure_exception_types": [temporalio.workflow.NondeterminismError],
}

# Without a cache, what is sent while such a worker is down comes to a run in one task. With two
# tasks at once, that of another run would throw out one that waits for a local activity.
ONE_BY_ONE = {**STRICT, "max_cached_workflows": 0, "max_concurrent_workflow_tasks": 1}

# Besides the default one: nobody serves the first, and the others have workers of their own.
NAMESPACES = (
    "idle",
    "page",
    "commands",
    "agent",
    "measuring",
    "service",
    "versions",
    "paced",
    "agents",
    "rollout",
    "floods",
    "home",
    "mcp",
)

# A run that leaves a worker's memory ends its spans in another context, which does no harm.
logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)

# A shell that runs pytest in the background has it ignore SIGINT, and so would every program that
# a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Leave what there is to no later search for garbage, as a worker does after its start.

    Late in a run such a search takes seconds, and a workflow that it interrupts is taken for
    deadlocked.
    """
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no test read the settings of who runs it, or of the test before it."""
    for name in [name for name in os.environ if name.startswith("MULL_") and name != "MULL_GOLDEN"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MULL_SETTINGS", os.devnull)


@pytest.fixture(autouse=True)
def _replayed() -> Iterator[None]:
    """Fail a test whose runs are not replayed as they ran."""
    yield
    said = [repr(error) for error in Replaying.errors]
    Replaying.errors.clear()
    assert said == []


class Kept(SpanProcessor):
    """Keeps each span as it ends, and sets no context variable, as `SimpleSpanProcessor` does.

    The garbage collector ends the spans of runs that a worker left, and Python before 3.12 crashes
    where a variable is set while it collects (https://github.com/python/cpython/issues/148891).
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def on_end(self, span: ReadableSpan) -> None:
        self._exporter.export((span,))


@pytest.fixture(scope="session")
def spans() -> InMemorySpanExporter:
    """Every span of this process, kept in memory."""
    exporter = InMemorySpanExporter()
    provider = telemetry.set_up(None, [Kept(exporter)])
    assert provider
    return exporter


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A development server of the tests' own, stopped by its own handle."""
    folder = tmp_path_factory.mktemp("temporal")
    chosen = Place(free_port(), free_port(), folder / "temporal.db")
    with (folder / "log").open("wb") as log:
        command = [*server_command(chosen), *(f"--namespace={name}" for name in NAMESPACES)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(chosen, server, folder / "log")
        yield chosen
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _wait_for(place: Place, server: "subprocess.Popen[bytes]", log: Path) -> None:
    os.environ["TEMPORAL_ADDRESS"] = place.address
    try:
        for _ in patiently():
            try:
                asyncio.run(connect())
            except NoServerError:
                if server.poll() is not None:
                    break
            else:
                return
        pytest.fail(f"the development server did not start: {log.read_text()[-2000:]}")
    finally:
        del os.environ["TEMPORAL_ADDRESS"]


@pytest.fixture
async def client(
    place: Place, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> Client:
    """A client of the development server, found by the standard environment."""
    spans.clear()
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    return await connect()


def payloads_of(message: Any) -> Iterator[Payload]:
    """Find every payload in an event as the server stores it, but for headers."""
    if isinstance(message, Payload):
        yield message
    elif hasattr(message, "ListFields"):
        for field, value in message.ListFields():
            if field.name != "header":
                yield from payloads_of(value)
    elif isinstance(message, Mapping):
        for value in message.values():
            yield from payloads_of(value)
    elif isinstance(message, Iterable) and not isinstance(message, str | bytes):
        for value in message:
            yield from payloads_of(value)


def encoded_in(events: Iterable[Any]) -> Iterator[tuple[str, Payload]]:
    """Find every payload that a codec encodes, each with the kind of its event.

    Search attributes are for the server to read, and the SDK's core notes local activities itself.
    """
    for event in events:
        kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
        for payload in payloads_of(event):
            if "type" not in payload.metadata and not payload.data.startswith(b'{"seq":'):
                yield kind, payload


def served(
    client: Client,
    model: LanguageModel | None,
    queues: Collection[str] = QUEUES,
    *more: Worker,
    **options: Any,
) -> AbstractAsyncContextManager[None]:
    """Serve these queues with this model and options of `worker.build`, and with more workers."""
    built = worker.build(client, queues, model, **{**STRICT, **options})
    return worker.running([*built, *more])


@asynccontextmanager
async def polling(client: Client, model: LanguageModel) -> AsyncIterator[None]:
    """Serve with this model, and begin once the server knows that."""
    async with served(client, model):
        await until(lambda: unserved(client, ["mull", "mull-llm"]), lambda missing: not missing)
        yield


async def begin(
    client: Client, request: Any, workflow: str = "SelfConsistencyWorkflow", name: str = ""
) -> Handle:
    name = name or f"test-{uuid.uuid4().hex}"
    return await client.start_workflow(workflow, request, id=name, task_queue=TASK_QUEUE)


async def begin_reflecting(client: Client, **fields: Any) -> Handle:
    """Start a run of reflection on a query that is worth it, with no guardrails unless given."""
    request = {"query": QUERY, "guardrails": [], **fields}
    return await begin(client, request, "ReflectOnResultWorkflow")


async def ask(client: Client, model: LanguageModel, /, **fields: Any) -> SelfConsistencyResult:
    async with served(client, model):
        handle = await begin(client, {"question": "How much?", **fields})
        return SelfConsistencyResult.model_validate(await ended(handle))


async def reflect(client: Client, model: LanguageModel, /, **fields: Any) -> ReflectOnResultResult:
    async with served(client, model):
        handle = await begin_reflecting(client, **fields)
        return ReflectOnResultResult.model_validate(await ended(handle))


async def ended(handle: Handle) -> Any:
    return await asyncio.wait_for(handle.result(), PATIENCE)


async def failure(handle: Handle, kind: type[BaseException] = ApplicationError) -> Any:
    with pytest.raises(WorkflowFailureError) as caught:
        await ended(handle)
    assert isinstance(caught.value.cause, kind)
    return caught.value.cause


async def refusal(handle: Handle, update: str, *given: Any, **more: Any) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update(update, *given, **more)
    return str(getattr(caught.value.cause, "message", caught.value.cause))


async def until(look: Callable[[], Any], holds: Callable[[Any], object] = bool) -> Any:
    """Look, or wait for what looks, until what is seen holds, and return that."""
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = look()
            seen = await seen if inspect.isawaitable(seen) else seen
            if holds(seen):
                return seen
            await asyncio.sleep(0.05)


async def until_asked(model: ScriptedModel, calls: int) -> None:
    await until(lambda: len(model.calls) >= calls)


async def until_step(handle: Handle, step: str) -> Any:
    return await until(lambda: handle.query("progress"), lambda seen: seen["step"] == step)


async def until_sent(handle: Handle) -> None:
    """Wait until the server has an update that was just sent, and that no worker takes yet.

    Nothing tells when it has. It is long since where it has answered so much that came later.
    """
    for _ in range(30):
        await asyncio.sleep(0.01)
        await handle.describe()


async def activities_of(handle: Handle) -> list[str]:
    """List the activities of a run in the order in which they began, but for local ones."""
    history = await handle.fetch_history()
    begun = [event.activity_task_scheduled_event_attributes for event in history.events]
    return [one.activity_type.name for one in begun if one.activity_id]


@pytest.fixture
def root() -> Path:
    return Path(__file__).parent.parent
