"""Mull called from a workflow of a user's own: their worker has the SDK's converter and sandbox."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, Plugin, WorkflowExecutionStatus, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TimeoutType,
)
from temporalio.worker import Replayer, Worker
from temporalio.workflow import NondeterminismError

import mull.workflow
from activities.language_model.port import PermanentModelError
from commands.embedded import Place
from mull.connection import connect
from mull.critique.criteria import Criterion
from mull.critique.request import ReflectOnResultRequest
from mull.sampling.request import SelfConsistencyRequest
from tests.conftest import (
    QUERY,
    Handle,
    ended,
    failure,
    served,
    until,
    until_asked,
)
from tests.scripted import ScriptedModel, reflection
from tests.workflows.agents import running as learners
from tests.workflows.multipath import running as agents
from tests.workflows.own_flows import Calling, Careful, Foreign, Hasty
from tests.workflows.own_import import Plain
from tests.workflows.turn import running as turns
from tests.workflows.turn.running import keyed

OWN = [Calling, Careful, Foreign, Hasty, Plain]
QUEUE = "own"
RULED = {"min_responses": 1, "max_responses": 1}


class Own:
    """A user's client and worker; what ran on it is replayed in the sandbox as it ends."""

    def __init__(self, client: Client) -> None:
        self.client, self.runs = client, list[Handle]()

    async def begin(self, workflow: type, *given: Any) -> Handle:
        name, kind = f"own-{uuid.uuid4().hex}", workflow.__name__
        run = await self.client.start_workflow(kind, args=given, id=name, task_queue=QUEUE)
        self.runs.append(run)
        return run

    async def call(self, loop: str, subject: str, **given: Any) -> Handle:
        return await self.begin(Calling, loop, subject, given)

    async def child(self, run: Handle) -> Handle:
        return await child_of(self.client, run)


async def child_of(client: Client, caller: Handle) -> Handle:
    """Return the handle of a caller's first child, once it has started."""
    async for event in caller.fetch_history_events(wait_new_event=True):
        if event.HasField("child_workflow_execution_started_event_attributes"):
            started = event.child_workflow_execution_started_event_attributes
            return client.get_workflow_handle(started.workflow_execution.workflow_id)
    raise AssertionError("no child was started")


@asynccontextmanager
async def owning(
    place: Place,
    converter: DataConverter = DataConverter.default,
    *plugins: Plugin,
    namespace: str = "default",
) -> AsyncIterator[Own]:
    known: dict[str, Any] = {"data_converter": converter, "plugins": plugins}
    client = await Client.connect(place.address, namespace=namespace, **known)
    own = Own(client)
    async with Worker(
        client,
        task_queue=QUEUE,
        workflows=OWN,
        workflow_failure_exception_types=[NondeterminismError],
    ):
        yield own
    # What is encrypted is bound to its namespace.
    known = {"namespace": client.namespace, "data_converter": client.data_converter}
    replayer = Replayer(workflows=OWN, **known)
    for run in own.runs:
        await replayer.replay_workflow(await run.fetch_history())


@pytest.mark.parametrize("converter", [DataConverter.default, pydantic_data_converter])
async def test_a_workflow_asks(client: Client, place: Place, converter: DataConverter) -> None:
    """It gets the record, and the request goes out as plain JSON with what was given alone."""
    async with served(client, ScriptedModel(sample=["yes"])), owning(place, converter) as own:
        run = await own.call("ask", "Is 91 prime?", **RULED)
        record = await ended(run)
        child = await own.child(run)

    assert record["type"] == "SelfConsistencyResult"
    assert (record["final_answer"], record["question"]) == ("yes", "Is 91 prime?")
    assert child.id == record["id"]
    assert child.id.startswith(f"{run.id}-ask-")
    first = (await child.fetch_history()).events[0].workflow_execution_started_event_attributes
    [sent] = first.input.payloads
    assert sent.metadata["encoding"] == b"json/plain"
    assert json.loads(sent.data) == {"question": "Is 91 prime?", **RULED}
    assert first.workflow_task_timeout.seconds == 5
    described = await client.get_workflow_handle(child.id).describe()
    assert await described.static_summary() == "Is 91 prime?"


Serve = Callable[[Client], AbstractAsyncContextManager[None]]
LOOPS: dict[str, tuple[str, dict[str, Any], tuple[str, str], Serve]] = {
    "reflect": (
        QUERY,
        {"guardrails": [], "max_revisions": 1},
        ("draft", "Tides are water."),
        lambda client: served(client, ScriptedModel(write=["Tides are water."], judge=[0.9])),
    ),
    "agent": (
        agents.PROMPT,
        {"mode": "research"},
        ("output", agents.FINE),
        lambda client: agents.served(
            client,
            ScriptedModel(generate_report=[agents.FINE], reflect_on_report=[reflection()]),
        ),
    ),
    "turn": (
        "How much is it?",
        {"tools": []},
        ("answer", "It is 4."),
        lambda client: turns.served(client, ScriptedModel(step=["It is 4."])),
    ),
    "reflexion": (
        "7",
        {"environment": "counting", "max_attempts": 1},
        ("answer", "7"),
        lambda client: learners.served(client, ScriptedModel(plan=["add[7]", "[answer] 7"])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
async def test_every_loop_can_be_called(client: Client, place: Place, loop: str) -> None:
    subject, given, (field, expected), serve = LOOPS[loop]
    async with serve(client), owning(place) as own:
        record = await ended(await own.call(loop, subject, **given))

    assert expected in record[field]


async def test_requests_failures_and_two_calls_at_once(client: Client, place: Place) -> None:
    """A request may be made in the workflow, and a failure is caught like that of any child."""
    lost = PermanentModelError("no such key", "AuthenticationError", 401)
    model = ScriptedModel(sample=lambda call: lost if call.model == "lost" else "yes")
    async with served(client, model), owning(place) as own:
        said = await ended(await own.begin(Careful, "Is 91 prime?"))

    assert said == ["yes", "yes", "AuthenticationError"]
    assert len(model.calls) == 7


async def test_the_package_alone_is_imported(client: Client, place: Place) -> None:
    """What the sandbox gets of it is what the rest of the process has, and stays as it is."""
    shared = type(mull.turn)
    async with served(client, ScriptedModel(sample=["yes"])), owning(place) as own:
        answer, name = await ended(await own.begin(Plain, "Is 91 prime?"))

    assert answer == "yes"
    assert "-ask-" in name
    assert type(mull.turn) is shared


@pytest.mark.parametrize(
    ("subject", "given", "said"),
    [
        (" ", {}, "question: should have at least 1 character"),
        ("Is it?", {"color": "red", "max_responses": 0}, "color: no such field"),
        ("Is it?", {"id": "x", "endpoint": "y"}, "id: not with an endpoint"),
    ],
)
async def test_a_wrong_request_fails_the_workflow_and_starts_nothing(
    place: Place, subject: str, given: dict[str, Any], said: str
) -> None:
    async with owning(place) as own:
        run = await own.call("ask", subject, **given)
        error = await failure(run)

    assert (error.type, error.non_retryable) == ("InvalidRequest", True)
    assert said in error.message
    begun = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    assert begun not in {event.event_type for event in (await run.fetch_history()).events}


async def test_a_doubtful_result_fails_a_call_that_checks(client: Client, place: Place) -> None:
    model = ScriptedModel(sample=["yes", "no"])
    given = {"max_responses": 2, "id": f"doubted-{uuid.uuid4().hex}"}
    async with served(client, model), owning(place) as own:
        error = await failure(await own.call("ask", "Is it?", check=True, **given))

    assert error.type == "Doubtful"
    assert (
        error.message
        == f"the run {given['id']} is not to be built on: several answers share the lead"
    )


async def test_a_run_that_has_a_result_is_not_made_again(client: Client, place: Place) -> None:
    """Its id is taken, which fails the workflow."""
    model, name = ScriptedModel(sample=["yes"]), f"once-{uuid.uuid4().hex}"
    async with served(client, model), owning(place) as own:
        await ended(await own.call("ask", "Is it?", id=name, **RULED))
        error = await failure(await own.call("ask", "Is it?", id=name, **RULED), FailureError)

    assert name in (await client.get_workflow_handle(name).describe()).id
    assert "already started" in error.message
    assert len(model.calls) == 1


async def test_who_is_cancelled_cancels_the_run(client: Client, place: Place) -> None:
    """And its calls in flight; the workflow ends once they have."""
    model = ScriptedModel(sample=["yes"], held=asyncio.Event())
    async with served(client, model), owning(place) as own:
        run = await own.call("ask", "Is it?", **RULED)
        await until_asked(model, 1)
        child = await own.child(run)
        await run.cancel()
        await failure(run, CancelledError)
        await until(lambda: model.cancelled)
        described = await child.describe()

    assert described.status is WorkflowExecutionStatus.CANCELED


async def test_who_is_terminated_cancels_the_run(client: Client, place: Place) -> None:
    model = ScriptedModel(sample=["yes"], held=asyncio.Event())
    async with served(client, model), owning(place) as own:
        run = await own.call("ask", "Is it?", **RULED)
        await until_asked(model, 1)
        await run.terminate()
        child = await own.child(run)
        await until(child.describe, lambda seen: seen.status is WorkflowExecutionStatus.CANCELED)
        own.runs.clear()

    assert model.cancelled


async def test_who_gives_up_waiting_cancels_the_run(client: Client, place: Place) -> None:
    model = ScriptedModel(sample=["yes"], held=asyncio.Event())
    async with served(client, model), owning(place) as own:
        run = await own.begin(Hasty, "Is it?")
        said = await ended(run)
        described = await (await own.child(run)).describe()

    assert said == ["too late", "too late again"]
    assert described.status is WorkflowExecutionStatus.CANCELED


async def test_a_run_may_take_so_long(client: Client, place: Place) -> None:
    model = ScriptedModel(sample=["yes"], held=asyncio.Event())
    async with served(client, model), owning(place) as own:
        error = await failure(await own.call("ask", "Is it?", seconds=1), ChildWorkflowError)

    assert error.cause.type is TimeoutType.START_TO_CLOSE


async def test_outside_of_a_workflow_it_says_what_to_call() -> None:
    with pytest.raises(RuntimeError, match=r"elsewhere call mull\.connect"):
        await mull.workflow.ask("Is it?")


def test_a_request_is_given_whole_or_in_parts() -> None:
    """Also one of a class that the sandbox loaded anew, with the fields that were set alone."""
    other = create_model("SelfConsistencyRequest", __base__=SelfConsistencyRequest)
    given = other(question="Is it?", max_responses=3)

    found = mull.workflow._request(SelfConsistencyRequest, given, {})
    assert type(found) is SelfConsistencyRequest
    assert found.model_fields_set == given.model_fields_set
    with pytest.raises(ApplicationError, match="seed: give fields, or a request that has them"):
        mull.workflow._request(SelfConsistencyRequest, given, {"seed": 1})


def test_parts_of_a_request_may_be_of_classes_that_were_loaded_anew() -> None:
    other = create_model("Criterion", name=(str, ...), meaning=(str, ...))
    criteria = (other(name="tone", meaning="It is courteous."),)

    found = mull.workflow._request(ReflectOnResultRequest, QUERY, {"criteria": criteria})
    assert found.criteria == (Criterion(name="tone", meaning="It is courteous."),)


async def test_a_long_id_of_the_caller_s_is_cut(client: Client, place: Place) -> None:
    """The run's own takes no more than the server's 1,000 bytes."""
    name = f"{uuid.uuid4().hex}-{'x' * 950}"
    async with served(client, ScriptedModel(sample=["yes"])), owning(place) as own:
        known: dict[str, Any] = {"id": name, "task_queue": QUEUE}
        given = ["ask", "Is it?", RULED]
        record = await own.client.execute_workflow(Calling.run, args=given, **known)

    assert record["id"].startswith(name[:190])
    assert len(record["id"]) < 250


RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_of_a_caller_replays(path: Path) -> None:
    """Also after an upgrade of Mull: a call is one child, or one operation, and nothing else."""
    history = WorkflowHistory.from_json(path.stem, path.read_text("utf-8"))

    await Replayer(workflows=OWN).replay_workflow(history)


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def examples(root: Path) -> list[str]:
    """The examples of the chapter on workflows of one's own."""
    chapter = (root / "docs/python.md").read_text("utf-8").partition("\n## From a workflow of")[2]
    return BLOCK.findall(chapter.partition("\n## ")[0])


@pytest.mark.usefixtures("client")
async def test_the_workflow_of_the_documentation(
    place: Place,
    examples: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a file of its own, which the sandbox loads as it stands, through the plugin's client."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, example in zip(("triage", "connecting"), examples, strict=True):
        (tmp_path / f"{name}.py").write_text(example)
    triage, connecting = import_module("triage"), import_module("connecting")
    keyed(monkeypatch)
    own = await connecting.connect(place.address)
    model = ScriptedModel(sample=lambda _: "no", write=["Dear customer"], judge=[0.9])
    async with (
        served(await connect(), model),
        Worker(own, task_queue="triage", workflows=[triage.Triage]),
    ):
        known: dict[str, Any] = {"id": f"triage-{uuid.uuid4().hex}", "task_queue": "triage"}
        said = await own.execute_workflow(triage.Triage.run, "It is broken.", **known)

    assert said == "Dear customer"
