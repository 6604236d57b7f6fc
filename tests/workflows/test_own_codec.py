"""Codecs of a user's own worker, which encode what it sends to Mull's: what is read by whom."""

import os
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import ChildWorkflowError

from activities.language_model.port import PermanentModelError
from commands.embedded import Place
from mull.connection import connect
from mull.errors import ConfigurationError
from mull.keys import KEY_ID
from mull.plugin import EncryptionPlugin
from tests.conftest import Handle, encoded_in, ended, failure, served, until
from tests.scripted import ScriptedModel
from tests.workflows.test_own_workflow import RULED, owning
from tests.workflows.turn.running import keyed

KEY = AESGCM(b"theirs".ljust(32))


class Sample(PayloadCodec):
    """As in Temporal's samples: the usual encoding, and an error for a key that is not its own."""

    encoding = b"binary/encrypted"

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._encrypted(payload) for payload in payloads]

    def _encrypted(self, payload: Payload) -> Payload:
        nonce = os.urandom(12)
        data = nonce + KEY.encrypt(nonce, payload.SerializeToString(), None)
        return Payload(metadata={"encoding": self.encoding, KEY_ID: b"theirs"}, data=data)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._decrypted(payload) for payload in payloads]

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata["encoding"] != self.encoding:
            return payload
        if payload.metadata[KEY_ID] != b"theirs":
            raise ValueError(f"unrecognized key ID {payload.metadata[KEY_ID]!r}")
        return Payload.FromString(KEY.decrypt(payload.data[:12], payload.data[12:], None))


class Named(Sample):
    """The same by an encoding of its own."""

    encoding = b"binary/theirs"


THEIRS = DataConverter(payload_codec=Sample())
NAMED = DataConverter(payload_codec=Named())


async def keys_of(run: Handle) -> dict[bytes, set[str]]:
    """Return the ids of the keys that encrypted a history, or `clear`, each with its events."""
    found = dict[bytes, set[str]]()
    for event, payload in encoded_in((await run.fetch_history()).events):
        found.setdefault(payload.metadata.get(KEY_ID, b"clear"), set()).add(event)
    return found


async def test_a_codec_that_mull_lacks_fails_the_run_in_words(client: Client, place: Place) -> None:
    """At once: nothing is asked."""
    model = ScriptedModel()
    async with served(client, model), owning(place, NAMED) as own:
        error = await failure(await own.call("ask", "Is it?", **RULED), ChildWorkflowError)

    assert error.cause.type == "InvalidRequest"
    assert "encoded as binary/theirs, which the worker can't read" in error.cause.message
    assert "set MULL_CODEC for the worker to the codec that wrote it" in error.cause.message
    assert model.calls == []


async def test_a_codec_that_both_have_works(
    client: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a run that began before Mull's worker had it: it waits for the key that it names."""
    async with owning(place, THEIRS) as own:
        async with served(client, ScriptedModel()):
            run = await own.call("ask", "Is it?", **RULED)
            child = client.get_workflow_handle((await own.child(run)).id)
            await until(
                child.describe,
                lambda seen: seen.raw_description.pending_workflow_task.attempt >= 2,
            )
        monkeypatch.setenv("MULL_CODEC", "tests.workflows.test_own_codec:Sample")
        async with served(await connect(), ScriptedModel(sample=["yes"])):
            record = await ended(run)

    assert record["final_answer"] == "yes"
    assert set(await keys_of(child)) == {b"theirs"}


@pytest.fixture
async def encrypting(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Mull's client with a key, which the plugin takes from the environment too."""
    del client
    keyed(monkeypatch)
    return await connect()


async def test_the_plugin_encrypts_by_mull_s_keys(encrypting: Client, place: Place) -> None:
    """All that the workflow sends and keeps, and both sides read it."""
    async with (
        served(encrypting, ScriptedModel(sample=["yes"])),
        owning(place, DataConverter.default, EncryptionPlugin()) as own,
    ):
        run = await own.call("ask", "Is it?", **RULED)
        record = await ended(run)
        child = await own.child(run)

    assert record["final_answer"] == "yes"
    assert [set(await keys_of(each)) for each in (run, child)] == [{b"main-1"}] * 2


@pytest.mark.parametrize("converter", [THEIRS, NAMED], ids=["same encoding", "own encoding"])
async def test_the_plugin_leaves_the_rest_to_a_codec_of_one_s_own(
    encrypting: Client, place: Place, converter: DataConverter
) -> None:
    """The request and the result are Mull's, all else in the workflow is by its own codec."""
    async with (
        served(encrypting, ScriptedModel(sample=["yes"])),
        owning(place, converter, EncryptionPlugin()) as own,
    ):
        run = await own.call("ask", "Is it?", **RULED)
        record = await ended(run)
        child = await own.child(run)

    assert record["final_answer"] == "yes"
    keys = await keys_of(run)
    assert keys[b"main-1"] == {
        "start_child_workflow_execution_initiated",
        "child_workflow_execution_completed",
    }
    assert "workflow_execution_started" in keys[b"theirs"]
    assert b"clear" not in keys
    assert (await keys_of(child))[b"main-1"] > {"workflow_execution_started"}


async def test_a_failure_is_read_by_whoever_has_the_plugin(
    encrypting: Client, place: Place
) -> None:
    lost = PermanentModelError("no such key", "AuthenticationError", 401)
    async with (
        served(encrypting, ScriptedModel(sample=[lost])),
        owning(place, THEIRS, EncryptionPlugin()) as own,
    ):
        error = await failure(await own.call("ask", "Is it?", **RULED), ChildWorkflowError)

    assert (error.cause.type, error.cause.message) == ("AuthenticationError", "no such key")


async def test_without_the_plugin_a_failure_says_what_is_missing(
    encrypting: Client, place: Place
) -> None:
    """Mull's workers with keys refuse a start in the clear, in words that are encrypted too."""
    async with served(encrypting, ScriptedModel()), owning(place) as own:
        error = await failure(await own.call("ask", "Is it?", **RULED))

    assert error.type == "Refused"
    assert "give this worker Mull's keys and mull.plugin.EncryptionPlugin" in error.message


async def test_a_result_that_can_t_be_read_waits_for_its_key(
    encrypting: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid for is not lost: a worker with the plugin goes on with it."""
    monkeypatch.setenv("MULL_CLEAR", "read")
    model = ScriptedModel(sample=["yes"])
    async with served(encrypting, model):
        async with owning(place) as own:
            run = await own.call("ask", "Is it?", **RULED)
            failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
            said = [
                event.workflow_task_failed_event_attributes.failure.message
                async for event in until_event(run, failed)
            ]
            own.runs.clear()
        async with owning(place, DataConverter.default, EncryptionPlugin()) as own:
            own.runs.append(run)
            record = await ended(own.client.get_workflow_handle(run.id))

    assert "encrypted with the key 'main-1', which is not among the keys here" in said[-1]
    assert record["final_answer"] == "yes"
    assert len(model.calls) == 1


async def until_event(run: Handle, kind: Any) -> Any:
    """Yield the first event of this kind, once there is one."""
    async for event in run.fetch_history_events(wait_new_event=True):
        if event.event_type == kind:
            yield event
            return


@pytest.mark.parametrize("variable", [None, "MULL_ENCRYPTION_KEYS"])
def test_the_plugin_needs_keys(monkeypatch: pytest.MonkeyPatch, variable: str | None) -> None:
    """Without them what was to be encrypted would go out in the clear."""
    if variable:
        monkeypatch.setenv(variable, "")
    with pytest.raises(ConfigurationError, match="MULL_ENCRYPTION_KEYS"):
        EncryptionPlugin()
