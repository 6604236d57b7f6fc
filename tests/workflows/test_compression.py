"""What activities take and return is compressed where it is large, and nothing else ever is."""

import asyncio
import json
import random
import tracemalloc
import zlib
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    NexusSerializationContext,
    SerializationContext,
    WorkflowSerializationContext,
)
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from mull.connection import COMPRESSED_OVER, DATA_CONVERTER, EXPANDED_BYTES, ZLIB
from tests.conftest import STRICT, payloads_of
from tests.patience import PATIENCE

QUEUE = "compression"
PLAIN = b"json/plain"
WORDS = ["".join(random.Random(word).choices("etaoinshrdlu", k=6)) for word in range(2_000)]
# As large as what a model is shown may be, and a part of it that any payload may have.
MESSAGES = [" ".join(random.Random(seed).choices(WORDS, k=8_000)) for seed in range(14)]
TEXT = MESSAGES[0]


def of_activity(*, local: bool) -> ActivitySerializationContext:
    return ActivitySerializationContext("default", "1", "echo", QUEUE, "id", "Echoing", local)


@activity.defn
async def echo(messages: list[str]) -> list[str]:
    """Return the messages; a second attempt has them from the heartbeat of the first."""
    left = activity.info().heartbeat_details
    if activity.info().is_local or left:
        return left[0] if left else messages
    activity.heartbeat(messages)
    async with asyncio.timeout(PATIENCE):
        while not await _heartbeats():
            await asyncio.sleep(0.05)
    raise RuntimeError("once more")


async def _heartbeats() -> bool:
    """Tell whether the server has a heartbeat of this activity's run."""
    run = activity.client().get_workflow_handle(activity.info().workflow_id or "")
    pending = (await run.describe()).raw_description.pending_activities
    return any(one.HasField("heartbeat_details") for one in pending)


@workflow.defn
class Echoing:
    @workflow.init
    def __init__(self, text: str) -> None:
        self.text = text
        self.told = False

    @workflow.run
    async def run(self, text: str) -> str:
        times: dict[str, Any] = {
            "start_to_close_timeout": timedelta(seconds=PATIENCE),
            "retry_policy": RetryPolicy(maximum_attempts=2),
        }
        workflow.upsert_memo({"text": text})
        assert await workflow.execute_local_activity(echo, MESSAGES, **times) == MESSAGES
        assert await workflow.execute_activity(echo, MESSAGES, **times) == MESSAGES
        await workflow.wait_condition(lambda: self.told)
        return text

    @workflow.update
    async def tell(self, text: str) -> str:
        self.told = True
        return text

    @workflow.signal
    async def note(self, text: str) -> None:
        """Take a text."""

    @workflow.query
    def said(self) -> str:
        return self.text


async def test_large_calls_fit_into_events_and_other_clients_read_the_rest(client: Client) -> None:
    foreign = Client(client.service_client, data_converter=DataConverter.default)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(
        client,
        task_queue=QUEUE,
        workflows=[Echoing],
        activities=[echo],
        workflow_runner=runner,
        **STRICT,
    ):
        handle = await foreign.start_workflow(Echoing.run, TEXT, id="echoing", task_queue=QUEUE)
        await handle.signal(Echoing.note, TEXT)
        assert await handle.execute_update(Echoing.tell, TEXT) == TEXT
        assert (await handle.result(), await handle.query(Echoing.said)) == (TEXT, TEXT)
        assert await (await handle.describe()).memo_value("text") == TEXT
    history = await handle.fetch_history()
    replayer = Replayer(workflows=[Echoing], data_converter=DATA_CONVERTER, workflow_runner=runner)
    await replayer.replay_workflow(history)

    encodings = []
    for event in history.events:
        assert event.ByteSize() < 512 * 1024
        for payload in payloads_of(event):
            if payload.ByteSize() <= COMPRESSED_OVER:
                continue
            encodings.append((event.event_type, payload.metadata["encoding"]))
            if payload.metadata["encoding"] == ZLIB:
                assert await DATA_CONVERTER.decode([payload]) == [MESSAGES]
                payload.CopyFrom(Payload.FromString(zlib.decompress(payload.data)))
                assert json.loads(payload.data) == MESSAGES
    await replayer.replay_workflow(history)
    assert sorted(encodings) == sorted(
        [
            (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, PLAIN),
            (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, PLAIN),
            (EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED, PLAIN),
            (EventType.EVENT_TYPE_MARKER_RECORDED, ZLIB),
            (EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, ZLIB),
            (EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, ZLIB),
            (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, PLAIN),
            (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED, PLAIN),
            (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, PLAIN),
        ]
    )


INCOMPRESSIBLE = random.Random(1).randbytes(20_000)


@pytest.mark.parametrize(
    ("context", "value", "encoding"),
    [
        (of_activity(local=False), TEXT, ZLIB),
        (of_activity(local=True), TEXT, ZLIB),
        (of_activity(local=False), b"a" * 20_000, ZLIB),
        (of_activity(local=False), "a" * COMPRESSED_OVER, ZLIB),
        (of_activity(local=False), "a" * (COMPRESSED_OVER - 100), PLAIN),
        (of_activity(local=False), "a" * EXPANDED_BYTES, PLAIN),
        (of_activity(local=False), INCOMPRESSIBLE, b"binary/plain"),
        (WorkflowSerializationContext("default", "id"), TEXT, PLAIN),
        (NexusSerializationContext("endpoint", "service", "operation"), TEXT, PLAIN),
        (None, TEXT, PLAIN),
    ],
)
async def test_what_is_compressed(
    context: SerializationContext | None, value: str | bytes, encoding: bytes
) -> None:
    """It has the same bytes each time, and is read without a context, and in any other."""
    converter = DATA_CONVERTER.with_context(context) if context else DATA_CONVERTER
    [payload], again = await converter.encode([value]), await converter.encode([value])

    assert (payload.metadata["encoding"], [payload]) == (encoding, again)
    for reader in (
        DATA_CONVERTER,
        converter,
        converter.with_context(WorkflowSerializationContext("default", "id")),
    ):
        assert await reader.decode([payload]) == [value]
    other = converter.with_context(WorkflowSerializationContext("default", "id"))
    [plain] = await other.encode([value])
    assert plain.metadata["encoding"] != ZLIB


def forged(text: str) -> bytes:
    whole = Payload(metadata={"encoding": PLAIN}, data=json.dumps(text).encode())
    return zlib.compress(whole.SerializeToString(), 1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (forged("a" * 100_000_000), "larger than 8,000,000 bytes"),
        (forged("a")[:-1], "cut short"),
        (b"", "cut short"),
        (b"rubbish", "incorrect header"),
    ],
    ids=["bomb", "cut short", "empty", "rubbish"],
)
async def test_what_nothing_here_compressed_is_refused(data: bytes, said: str) -> None:
    """Whatever a forged payload expands to, no more than 8 MB of it are read."""
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, zlib.error), match=said):
            await DATA_CONVERTER.decode([Payload(metadata={"encoding": ZLIB}, data=data)])
        assert tracemalloc.get_traced_memory()[1] < 3 * EXPANDED_BYTES
    finally:
        tracemalloc.stop()
