"""Encrypted runs on a real server: who has which key, and who comes to have it later."""

import asyncio
import base64
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

import worker
from activities.sandbox.port import TASK_QUEUE as CODE_QUEUE
from activities.sandbox.port import Output, Program, Result
from connection import ENCRYPTED, KEY_ID, ConfigurationError, UnreadableError, connect
from reflection.multipath.request import Limits
from reflection.sampling.result import SelfConsistencyResult
from tests import callers
from tests.conftest import begin, payloads_of, reflect, served
from tests.scripted import ScriptedCritic, ScriptedModel

Connected = Callable[..., Any]


def key(name: str) -> str:
    """A key that is the same for the same id."""
    return f"{name}:{base64.b64encode(name.ljust(32).encode()).decode()}"


@pytest.fixture
def connected(client: Client, monkeypatch: pytest.MonkeyPatch) -> Connected:
    """Connect with these keys, as any worker or command does."""
    del client

    async def connected(ids: str | None, *, only_code: bool = False) -> Client:
        monkeypatch.delenv("MULL_ENCRYPTION_KEYS", raising=False)
        if ids is not None:
            monkeypatch.setenv("MULL_ENCRYPTION_KEYS", ",".join(map(key, ids.split())))
        return await connect(only_code=only_code)

    return connected


async def result(client: Client, run: WorkflowHandle[Any, Any]) -> SelfConsistencyResult:
    """Wait for the result as this client reads it."""
    handle = client.get_workflow_handle(run.id, result_type=SelfConsistencyResult)
    return await asyncio.wait_for(handle.result(), 20)


async def until_failed(run: WorkflowHandle[Any, Any]) -> None:
    """Wait until a worker has failed at a workflow task of a run, or the run has."""
    failed = {
        EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    }
    for _ in range(200):
        history = await run.fetch_history()
        if any(event.event_type in failed for event in history.events):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the workflow task did not fail")


async def test_a_request_waits_for_a_worker_with_its_key(connected: Connected) -> None:
    """A worker without the key fails the workflow task and not the run, which later ends well."""
    sender, without = await connected("main-2"), await connected("main-1")
    run = await begin(sender, {"question": "How much?", "max_responses": 1})
    async with served(without, ScriptedModel([])):
        await until_failed(run)
    async with served(await connected("main-2 main-1"), ScriptedModel(["129"])):
        found = await result(sender, run)

    assert found.final_answer == "129"


async def test_keys_for_code_alone_are_for_workers_of_code(connected: Connected) -> None:
    """Nobody else can encrypt with them, and says so at once."""
    with pytest.raises(ConfigurationError, match="has only keys for code"):
        await connected("code-2")


async def test_keys_rotate_without_loss(connected: Connected) -> None:
    """The first key encrypts and all decrypt: what an older one encrypted stays readable."""
    before = await connected("old")
    async with served(before, ScriptedModel(["1"])):
        first = await begin(before, {"question": "How much?", "max_responses": 1})
        assert (await result(before, first)).final_answer == "1"
    after = await connected("new old")
    async with served(after, ScriptedModel(["2"])):
        second = await begin(after, {"question": "How much?", "max_responses": 1})
        assert (await result(after, second)).final_answer == "2"
        assert (await result(after, first)).final_answer == "1"
        progress = await after.get_workflow_handle(first.id).query("progress")

    with pytest.raises(UnreadableError, match="'new', which is not among"):
        await result(before, second)
    assert progress["question"] == "How much?"


class Echo:
    """A sandbox that runs nothing, and says what it was given."""

    name, at_once = "echo", 2

    async def run(self, program: Program) -> Result:
        """Print the program."""
        said, nothing = (
            Output(head=text, tail="", size=len(text)) for text in (program.code or "", "")
        )
        return Result(
            status="ok", exit_code=0, signal=None, stdout=said, stderr=nothing,
            wall_seconds=0.0, cpu_seconds=0.0, peak_memory_bytes=0, backend=self.name,
            limits=Limits(),
        )  # fmt: skip


# Each step of docs/operations.md for rotating: the keys of everybody, and those of the code worker.
STEPS = [
    ("main-1 code-1", "code-1"),
    ("main-1 code-1 main-2 code-2", "code-1 code-2"),
    ("main-2 code-2 main-1 code-1", "code-2 code-1"),
    ("main-2 code-2", "code-2"),
]


@pytest.mark.parametrize(
    ("everybody", "code", "reads"),
    [
        *((step, step, True) for step in range(4)),
        # While a step is taken, some workers are there already and others are not yet.
        *((step, step + 1, True) for step in range(3)),
        *((step + 1, step, True) for step in range(3)),
        # Whoever writes by the new key before the code workers can read it loses programs.
        (2, 0, False),
        (0, 3, False),
    ],
)
async def test_code_s_key_rotates_in_the_documented_order(
    connected: Connected, everybody: int, code: int, reads: bool
) -> None:
    """A program is run, and its result read, at each step and between any two of them."""
    client = await connected(STEPS[everybody][0])
    confined = await connected(STEPS[code][1], only_code=True)
    async with AsyncExitStack() as stack:
        for each in worker.build(confined, ["code"], sandbox=Echo()):
            await stack.enter_async_context(each)
        await stack.enter_async_context(callers.serving(client))
        program = Program(code="print(1)")
        run = await callers.begin(client, "run_code", CODE_QUEUE, program, Result)
        if reads:
            assert (await run.result()).stdout.text == "print(1)"
        else:
            await until_failed(run)


async def test_a_run_outlives_the_rotation_of_its_keys(connected: Connected) -> None:
    """Begun before the first step, it is read at each; once its key is gone, by nobody."""
    run = await begin(await connected(STEPS[0][0]), {"question": "How much?", "max_responses": 1})
    async with served(await connected(STEPS[1][0]), ScriptedModel(["129"])):
        assert (await result(await connected(STEPS[0][0]), run)).final_answer == "129"
    assert (await result(await connected(STEPS[2][0]), run)).final_answer == "129"
    with pytest.raises(UnreadableError, match="'main-1', which is not among"):
        await result(await connected(STEPS[3][0]), run)


async def test_plain_requests_of_other_clients_are_read(connected: Connected) -> None:
    """A run that was begun in the clear goes on, encrypted; its client is told what it lacks."""
    plain, encrypting = await connected(None), await connected("main-1")
    run = await begin(plain, {"question": "How much?", "max_responses": 1})
    async with served(encrypting, ScriptedModel(["129"])):
        found = await result(encrypting, run)

    assert found.final_answer == "129"
    with pytest.raises(UnreadableError, match="'main-1', which is not among"):
        await result(plain, run)


async def test_an_update_that_can_t_be_read_holds_up_no_run(connected: Connected) -> None:
    """It is refused, by the key's id, and the run goes on."""
    other, own = await connected("theirs"), await connected("main-1")
    async with served(own, ScriptedModel([["129"], "129"])):
        run = await begin(own, {"question": "How much?", "max_responses": 1, "review_when": "high"})
        handle = other.get_workflow_handle(run.id)
        with pytest.raises(UnreadableError, match="main-1"):
            await asyncio.wait_for(handle.execute_update("finish_now", {"author": "ann"}), 10)
        assert (await result(own, run)).stop_reason


async def test_each_payload_is_encrypted_and_code_s_by_its_own_key(connected: Connected) -> None:
    """Nothing but search attributes and headers stands in the clear in a history."""
    client = await connected("main-1 code-1")
    async with served(client, ScriptedModel(["129"])):
        run = await begin(client, {"question": "How much?", "max_responses": 1})
        await result(client, run)
    found: list[Payload] = []
    for event in (await run.fetch_history()).events:
        event.upsert_workflow_search_attributes_event_attributes.ClearField("search_attributes")
        found += payloads_of(event)

    readable = [each for each in found if each.metadata["encoding"] != ENCRYPTED]
    assert {each.metadata[KEY_ID] for each in found if each not in readable} == {b"main-1"}
    assert [each.data[:80] for each in readable] == []


async def test_a_failed_run_says_why_to_who_has_the_key_alone(connected: Connected) -> None:
    """Messages of failures are encrypted like everything else; types are not."""
    client = await connected("main-1")
    async with served(client, ScriptedModel([])):
        run = await begin(client, {"question": " ", "color": "red"})
        with pytest.raises(Exception, match="Workflow execution failed") as caught:
            await run.result()
    last = (await run.fetch_history()).events[-1]
    failure = last.workflow_execution_failed_event_attributes.failure

    assert "color: no such field" in str(caught.value.__cause__)
    assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
    assert failure.application_failure_info.type == "InvalidRequest"
    plain = (await connected(None)).get_workflow_handle(run.id)
    with pytest.raises(UnreadableError, match="main-1"):
        await plain.result()


async def test_a_reviewed_run_is_encrypted(connected: Connected) -> None:
    """Drafts, judgements and memo are read back by who has the key."""
    client = await connected("main-1")
    found = await reflect(client, ScriptedCritic(["A draft."], [0.9]))

    assert found.stop_reason


async def test_one_s_own_codec_is_used(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all that is sent, and instead of keys."""
    assert (await connected(None)).data_converter.payload_codec is None
    monkeypatch.setenv("MULL_CODEC", "tests.unit.test_encryption:OwnCodec")
    own = await connect()
    async with served(own, ScriptedModel(["129"])):
        run = await begin(own, {"question": "How much?", "max_responses": 1})
        found = await result(own, run)

    assert type(own.data_converter.payload_codec).__name__ == "OwnCodec"
    assert found.final_answer == "129"
