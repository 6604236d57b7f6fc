"""Payloads that are no such thing: broken, encoded in another way, or of another type."""

import asyncio
import json
import zlib
from contextlib import suppress
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.worker import Worker

import worker
from activities.language_model.port import TASK_QUEUE as MODELS
from tests.chaos.runs import REQUESTS, lasting
from tests.conftest import Handle, begin, failure, served, until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel

# For a start that fails the SDK leaves a coroutine behind that it never awaits.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Cannot find activity to cancel:UserWarning"),
]


def payload(data: bytes, encoding: bytes | None = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding} if encoding else {}, data=data))


POISON = {
    "garbage": payload(b"\xff\xfe\x00{\x80"),
    "cut": payload(b'{"question": "How mu'),
    "nested": payload(b"[" * 100_000),
    "a list": payload(b'["question"]'),
    "a text": payload(b'"How much?"'),
    "nothing": payload(b"null"),
    "a number": payload(b"1e999"),
    "wrong types": payload(b'{"question": 7, "query": [], "prompt": {}, "items": 1, "send": 0}'),
    "surrogates": payload(b'{"question": "\\ud800"}'),
    "of another codec": payload(b"\x01\x02", b"binary/other"),
    "bytes": payload(b"\x01\x02", b"binary/plain"),
    "no encoding": payload(b"{}", None),
    "protobuf": payload(b"{}", b"json/protobuf"),
    "broken zlib": payload(b"\x01\x02", b"binary/zlib"),
    "a bomb": payload(zlib.compress(b" " * 20_000_000, 1), b"binary/zlib"),
    "Latin-1": payload(b'{"question": "caf\xe9", "query": "caf\xe9"}'),
}


async def end_of(client: Client, workflow: str, poison: RawValue) -> object:
    handle = await begin(client, poison, workflow)
    return (await failure(handle)).type


@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_poisoned_start(client: Client, kind: str) -> None:
    async with served(client, ScriptedModel()):
        ends = await asyncio.gather(
            *(end_of(client, REQUESTS[kind][0], poison) for poison in POISON.values())
        )

    assert dict(zip(POISON, ends, strict=True)) == dict.fromkeys(POISON, "InvalidRequest")


@pytest.mark.parametrize("kind", REQUESTS)
async def test_poisoned_messages(client: Client, kind: str) -> None:
    workflow, request = REQUESTS[kind]
    # Nobody serves the models, so that the run waits.
    async with worker.running(worker.build(client, ["mull"])):
        spared = await begin(client, request, workflow)
        handle = await begin(client, request, workflow)
        await asyncio.gather(*(begun(each) for each in (spared, handle)))
        taken = [name for name, each in POISON.items() if await takes(handle, each)]
        await asyncio.gather(*(each.execute_update("finish_now", {}) for each in (spared, handle)))
        ends = [await ended(each) for each in (handle, spared)]

    assert taken == []
    assert ends[0] == ends[1]


async def begun(handle: Handle) -> None:
    def called(run: Any) -> object:
        raw = run.raw_description
        waits = raw.workflow_execution_info.type.name == "SessionWorkflow"
        return waits or raw.pending_activities or raw.pending_children

    await until(handle.describe, called)


async def takes(handle: Handle, poison: RawValue) -> list[str]:
    """Send this to every handler of a run, and name the updates that took it."""
    for signal in ("nonsense", "__temporal_workflow_stream_publish"):
        await handle.signal(signal, poison)
    with suppress(WorkflowQueryFailedError):
        await handle.query("decisions", poison)
    took = []
    for update in ("review", "add_answer", "send", "permit", "finish_now"):
        if poison is POISON["nothing"] and update == "finish_now":
            continue  # it may be sent without anything
        with suppress(WorkflowUpdateFailedError):
            await asyncio.wait_for(handle.execute_update(update, poison), PATIENCE)
            took.append(update)
    return took


async def ended(handle: Handle) -> object:
    try:
        found = await asyncio.wait_for(handle.result(), PATIENCE)
    except WorkflowFailureError as error:
        found = str(error.cause)
    return json.loads(json.dumps(lasting(found)).replace(handle.id, "ID"))


async def test_a_poisoned_result(client: Client) -> None:
    replies = iter(POISON.values())

    @activity.defn(name="sample_answer")
    async def poisoned(_: RawValue) -> RawValue:
        return next(replies)

    request = {**REQUESTS["ask"][1], "max_responses": 1, "min_responses": 1}
    serving = worker.build(client, ["mull"])
    serving.append(Worker(client, task_queue=MODELS, activities=[poisoned]))
    async with worker.running(serving):
        handles = [await begin(client, request) for _ in POISON]
        said = await asyncio.gather(*map(why_it_stalls, handles))
    assert all(said)


async def why_it_stalls(handle: Handle) -> str:
    """Wait until a workflow task of a run has failed, and return what its history says of it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async for event in handle.fetch_history_events():
                assert event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, event
                if event.HasField("workflow_task_failed_event_attributes"):
                    await handle.terminate()
                    return event.workflow_task_failed_event_attributes.failure.message
            await asyncio.sleep(0.2)
