"""The Nexus service: Mull's runs for a workflow in another namespace of the same server."""

import asyncio
import re
import subprocess
import sys
import uuid
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import nexusrpc
import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.converter import DataConverter
from temporalio.exceptions import CancelledError, NexusOperationError, TimeoutType
from temporalio.nexus import WorkflowHandle

from activities.language_model.port import PermanentModelError
from commands.embedded import Place
from mull import nexus
from mull.connection import connect
from mull.loops import LOOPS
from mull.plugin import EncryptionPlugin
from tests.conftest import Handle, ended, failure, served, until_asked
from tests.scripted import ScriptedModel
from tests.workflows.own_flows import Foreign
from tests.workflows.test_own_codec import THEIRS, keys_of
from tests.workflows.test_own_workflow import RULED, Own, owning
from tests.workflows.turn.running import keyed

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^    temporal (operator nexus endpoint create .*)$", re.MULTILINE)


def make_endpoint(place: Place) -> str:
    """Make an endpoint of Mull's namespace by the command of the documentation; return its name."""
    [command] = COMMAND.findall((ROOT / "docs/deploy.md").read_text("utf-8"))
    name, given = f"mull-{uuid.uuid4().hex}", command.split()
    given[given.index("--name") + 1] = name
    given[given.index("--target-namespace") + 1] = "default"
    temporal = Path(sys.executable).with_name("temporal")
    subprocess.run([temporal, *given, "--address", place.address], check=True, capture_output=True)
    return name


@pytest.fixture(scope="module")
def endpoint(place: Place) -> str:
    return make_endpoint(place)


def serving(client: Client, model: ScriptedModel) -> AbstractAsyncContextManager[None]:
    return served(client, model, nexus=True)


def home(place: Place, *more: Any) -> AbstractAsyncContextManager[Own]:
    return owning(place, *more, namespace="home")


async def test_a_workflow_of_another_namespace_asks(
    client: Client, place: Place, endpoint: str
) -> None:
    """It gets the record; the run is in Mull's namespace, under an id that the service made."""
    async with serving(client, ScriptedModel(sample=["yes"])), home(place) as own:
        run = await own.call("ask", "Is 91 prime?", endpoint=endpoint, **RULED)
        record = await ended(run)
        made = await run_of(client, run)

    assert (record["type"], record["final_answer"]) == ("SelfConsistencyResult", "yes")
    assert made.id == record["id"]
    assert made.id.startswith("ask-")
    assert await (await made.describe()).static_summary() == "Is 91 prime?"


async def run_of(client: Client, caller: Handle) -> Handle:
    """Return the handle of the run that a caller's first operation has started."""
    async for event in caller.fetch_history_events(wait_new_event=True):
        if event.HasField("nexus_operation_started_event_attributes"):
            token = event.nexus_operation_started_event_attributes.operation_token
            name = WorkflowHandle[Any].from_token(token).workflow_id
            return client.get_workflow_handle(name)
    raise AssertionError("no operation was started")


async def test_no_package_of_mull_s_is_needed(client: Client, place: Place, endpoint: str) -> None:
    """As from any language: a JSON object goes in, and one comes back."""
    async with serving(client, ScriptedModel(sample=["yes"])), home(place) as own:
        given = {"question": "Is 91 prime?", **RULED}
        record = await ended(await own.begin(Foreign, endpoint, "ask", given))

    assert (record["final_answer"], record["stop_reason"]) == ("yes", "max_responses")


def reasons(error: BaseException | None) -> list[str]:
    """List the messages of an error and its causes."""
    return [] if error is None else [str(error), *reasons(error.__cause__)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"question": 7, "color": "red"},
            "question: should be a valid string; color: no such field",
        ),
        ("Is it?", "malformed SelfConsistencyRequest"),
        ([], "malformed SelfConsistencyRequest"),
        (None, 'give one JSON object, such as {"question": "..."}'),
    ],
)
async def test_a_wrong_request_is_refused(
    client: Client, place: Place, endpoint: str, given: Any, said: str
) -> None:
    """At once, with the fields that are wrong, and nothing is started."""
    async with serving(client, ScriptedModel()), home(place) as own:
        error = await failure(await own.begin(Foreign, endpoint, "ask", given), NexusOperationError)

    assert error.cause.type is nexusrpc.HandlerErrorType.BAD_REQUEST
    assert said in reasons(error)[-1]


async def test_a_run_s_failure_is_the_operation_s(
    client: Client, place: Place, endpoint: str
) -> None:
    lost = PermanentModelError("no such key", "AuthenticationError", 401)
    async with serving(client, ScriptedModel(sample=[lost])), home(place) as own:
        run = await own.call("ask", "Is it?", endpoint=endpoint, **RULED)
        error = await failure(run, NexusOperationError)

    assert (error.cause.type, error.cause.message) == ("AuthenticationError", "no such key")


async def test_who_is_cancelled_cancels_the_operation(
    client: Client, place: Place, endpoint: str
) -> None:
    model = ScriptedModel(sample=["yes"], held=asyncio.Event())
    async with serving(client, model), home(place) as own:
        run = await own.call("ask", "Is it?", endpoint=endpoint, **RULED)
        await until_asked(model, 1)
        await run.cancel()
        await failure(run, CancelledError)
        described = await (await run_of(client, run)).describe()

    assert described.status is WorkflowExecutionStatus.CANCELED


async def test_an_operation_waits_for_a_worker_that_serves_it(
    client: Client, place: Place, endpoint: str
) -> None:
    """One without the option takes none, and the operation ends by its time-out."""
    async with served(client, ScriptedModel()), home(place) as own:
        run = await own.call("ask", "Is it?", endpoint=endpoint, seconds=2)
        error = await failure(run, NexusOperationError)

    assert error.cause.type is TimeoutType.SCHEDULE_TO_CLOSE


def test_every_loop_is_an_operation_by_its_name() -> None:
    """The handler takes the requests, and starts the workflows, that `mull.workflow` does."""
    service = nexusrpc.get_service_definition(nexus.Service)
    assert service is not None
    known = {loop.command: (loop.request, loop.result) for loop in LOOPS}
    operations = service.operation_definitions

    assert service.name == "mull"
    assert set(operations) == {"ask", "reflect", "agent", "turn", "reflexion"}
    for name, operation in operations.items():
        assert (operation.input_type, operation.output_type) == known[name]


@pytest.fixture
async def encrypting(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Mull's client with a key, which the plugin takes from the environment too."""
    del client
    keyed(monkeypatch)
    return await connect()


@pytest.mark.parametrize("converter", [DataConverter.default, THEIRS], ids=["no codec", "own"])
async def test_the_plugin_encrypts_for_an_operation(
    encrypting: Client, place: Place, endpoint: str, converter: DataConverter
) -> None:
    """The request is bound to the operation, and the result to the run: both sides read them."""
    plugin = EncryptionPlugin()
    async with (
        serving(encrypting, ScriptedModel(sample=["yes"])),
        home(place, converter, plugin) as own,
    ):
        run = await own.call("ask", "Is it?", endpoint=endpoint, **RULED)
        record = await ended(run)

    assert record["final_answer"] == "yes"
    assert (await keys_of(run))[b"main-1"] >= {
        "nexus_operation_scheduled",
        "nexus_operation_completed",
    }
    assert b"clear" not in await keys_of(run)


async def test_an_operation_in_the_clear_is_refused(
    encrypting: Client, place: Place, endpoint: str
) -> None:
    async with serving(encrypting, ScriptedModel()), home(place) as own:
        error = await failure(await own.call("ask", "Is it?", endpoint=endpoint))

    assert "give this worker Mull's keys and mull.plugin.EncryptionPlugin" in error.message
