"""Encrypted runs on a real server: who has which key, and who comes to have it later."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from operator import itemgetter
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import ActivityType, Payload, Payloads, WorkflowType
from temporalio.api.common.v1 import RetryPolicy as Retries
from temporalio.api.enums.v1 import EventType
from temporalio.api.enums.v1 import UpdateWorkflowExecutionLifecycleStage as Stage
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
    StartActivityExecutionRequest,
    StartWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.client import (
    ActivityFailureError,
    Client,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.converter import WorkflowSerializationContext as RunContext

import mull
import worker
from activities.sandbox.port import TASK_QUEUE as CODE_QUEUE
from activities.sandbox.port import Program, Result
from commands import doctor
from commands.doctor import starts_check
from mull.connection import connect
from mull.errors import ConfigurationError
from mull.keys import BOUND_TO, ENCRYPTED, KEY_ID, UnreadableError
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import SelfConsistencyResult
from mull.turn.approval import ToolRule
from tests import callers
from tests.conftest import (
    Handle,
    begin,
    encoded_in,
    failure,
    payloads_of,
    served,
    until,
    until_step,
)
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel, ScriptedSandbox, finished
from tests.workflows.serving import browsing, chat, listening
from tests.workflows.test_reviews import ASK
from tests.workflows.turn.running import Noted
from tests.workflows.turn.running import served as turning

Connected = Callable[..., Any]
ASKED = {"question": "How much?", "max_responses": 1}


def key(name: str) -> str:
    """A key that is the same for the same id."""
    return f"{name}:{base64.b64encode(name.ljust(32).encode()).decode()}"


@pytest.fixture
def connected(client: Client, monkeypatch: pytest.MonkeyPatch) -> Connected:
    del client

    async def connected(ids: str | None, *, only_code: bool = False) -> Client:
        monkeypatch.delenv("MULL_ENCRYPTION_KEYS", raising=False)
        if ids is not None:
            monkeypatch.setenv("MULL_ENCRYPTION_KEYS", ",".join(map(key, ids.split())))
        return await connect(only_code=only_code)

    return connected


async def result(client: Client, run: Handle) -> SelfConsistencyResult:
    handle = client.get_workflow_handle(run.id, result_type=SelfConsistencyResult)
    return await asyncio.wait_for(handle.result(), PATIENCE)


FAILED = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
}


async def until_failed(run: Handle) -> None:
    """Wait until a worker has failed at a workflow task of a run, or the run has."""
    async for event in run.fetch_history_events(wait_new_event=True):
        if event.event_type in FAILED:
            return
    pytest.fail("the workflow task did not fail")


async def test_a_request_waits_for_a_worker_with_its_key(connected: Connected) -> None:
    sender, without = await connected("main-2"), await connected("main-1")
    run = await begin(sender, ASKED)
    async with served(without, ScriptedModel()):
        await until_failed(run)
    async with served(await connected("main-2 main-1"), ScriptedModel(sample=["129"])):
        found = await result(sender, run)

    assert found.final_answer == "129"


def pending(run: Any) -> Any:
    return run.raw_description.pending_workflow_task


async def test_doctor_counts_the_starts_that_wait_for_a_key(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the key's id; one that a worker has taken does not count."""
    monkeypatch.setattr(doctor, "PATIENCE_SECONDS", 60)
    other, own = await connected("theirs"), await connected("main-1")
    before = await starts_check(own)
    async with served(own, ASK.model()):
        await until_step(await begin(own, ASK.request), "waiting_for_review")
        lost = [await begin(other, ASKED) for _ in range(3)]
        for run in lost:
            await until(run.describe, lambda seen: pending(seen).attempt >= 3)
        check = await starts_check(own)

    assert (before.state, check.state) == ("ok", "warning")
    assert check.said.startswith("3 of the newest 500 open runs wait for a key")
    assert check.said.endswith("3 for theirs")
    assert "Give the workers on mull the key" in check.do[0]


async def test_keys_for_code_alone_are_for_workers_of_code(connected: Connected) -> None:
    with pytest.raises(ConfigurationError, match="has only keys for code"):
        await connected("code-2")


async def test_keys_rotate_without_loss(connected: Connected) -> None:
    before = await connected("old")
    async with served(before, ScriptedModel(sample=["1"])):
        first = await begin(before, ASKED)
        assert (await result(before, first)).final_answer == "1"
    after = await connected("new old")
    async with served(after, ScriptedModel(sample=["2"])):
        second = await begin(after, ASKED)
        assert (await result(after, second)).final_answer == "2"
        assert (await result(after, first)).final_answer == "1"
        progress = await after.get_workflow_handle(first.id).query("progress")

    with pytest.raises(UnreadableError, match="'new', which is not among"):
        await result(before, second)
    assert progress["question"] == "How much?"


async def test_a_program_without_the_key_hears_of_it(connected: Connected) -> None:
    """From the client as from OpenAI's interface: its configuration is wrong, and what to set."""
    own, other = await connected("main-1"), await connected("theirs")
    m, name = mull.Client(other), f"chat-local-{sha256(b'one').hexdigest()[:16]}"
    request = SelfConsistencyRequest(question="How much?", max_responses=1)
    async with served(own, ScriptedModel(sample=["129"])):
        run = await mull.Client(own).begin(request, name)
        await run.result()
        found = await m.get(name)
        for reading in (found.result(), found.look(), found.request(), m.begin(request, name)):
            with pytest.raises(mull.ConfigurationError, match="'main-1', which is not among"):
                await reading
        async with listening(other) as address, browsing(address) as plain:
            header = {"Idempotency-Key": "one"}
            answered = await plain.post("/chat/completions", json=chat(), headers=header)

    assert answered.status_code == 500
    assert "configuration" in answered.json()["error"]["message"]


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
    serving = worker.running(
        worker.build(
            confined,
            ["code"],
            sandbox=ScriptedSandbox([lambda program: finished(program, program.code or "")]),
        )
    )
    async with serving, callers.serving(client):
        program = Program(code="print(1)")
        run = await callers.begin(client, "run_code", CODE_QUEUE, program, Result)
        if reads:
            assert (await run.result()).stdout.text == "print(1)"
        else:
            await until_failed(run)


async def test_a_run_outlives_the_rotation_of_its_keys(connected: Connected) -> None:
    run = await begin(await connected(STEPS[0][0]), ASKED)
    async with served(await connected(STEPS[1][0]), ScriptedModel(sample=["129"])):
        assert (await result(await connected(STEPS[0][0]), run)).final_answer == "129"
    assert (await result(await connected(STEPS[2][0]), run)).final_answer == "129"
    with pytest.raises(UnreadableError, match="'main-1', which is not among"):
        await result(await connected(STEPS[3][0]), run)


async def test_plain_requests_are_read_where_the_worker_is_told_to(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULL_CLEAR", "read")
    plain, encrypting = await connected(None), await connected("main-1")
    run = await begin(plain, ASKED)
    async with served(encrypting, ScriptedModel(sample=["129"])):
        found = await result(encrypting, run)

    assert found.final_answer == "129"
    with pytest.raises(UnreadableError, match="'main-1', which is not among"):
        await result(plain, run)


async def test_an_update_that_can_t_be_read_holds_up_no_run(connected: Connected) -> None:
    other, own = await connected("theirs"), await connected("main-1")
    async with served(own, ScriptedModel(sample=[["129"], "129"])):
        run = await begin(own, {**ASKED, "review_when": "high"})
        handle = other.get_workflow_handle(run.id)
        with pytest.raises(UnreadableError, match="main-1"):
            await asyncio.wait_for(handle.execute_update("finish_now", {"author": "ann"}), PATIENCE)
        assert (await result(own, run)).stop_reason


async def test_each_payload_is_encrypted_and_code_s_by_its_own_key(connected: Connected) -> None:
    client = await connected("main-1 code-1")
    async with served(client, ScriptedModel(sample=["129"])):
        run = await begin(client, ASKED)
        await result(client, run)
    found = [payload for _, payload in encoded_in((await run.fetch_history()).events)]

    readable = [each for each in found if each.metadata["encoding"] != ENCRYPTED]
    assert {each.metadata[KEY_ID] for each in found if each not in readable} == {b"main-1"}
    assert [each.data[:80] for each in readable] == []


async def test_a_failed_run_says_why_to_who_has_the_key_alone(connected: Connected) -> None:
    client = await connected("main-1")
    async with served(client, ScriptedModel()):
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


async def test_one_s_own_codec_is_used(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all that is sent, and instead of keys."""
    assert (await connected(None)).data_converter.payload_codec is None
    monkeypatch.setenv("MULL_CODEC", "tests.unit.test_encryption:OwnCodec")
    own = await connect()
    async with served(own, ScriptedModel(sample=["129"])):
        run = await begin(own, ASKED)
        found = await result(own, run)

    assert type(own.data_converter.payload_codec).__name__ == "OwnCodec"
    assert found.final_answer == "129"


IN_CLEAR = "not encrypted, and this worker only accepts encrypted payloads"


async def sent(client: Client, run: str, name: str, *payloads: Payload) -> str:
    """Send an update as it stands, as any client of the namespace can; return why it is refused."""
    request = UpdateWorkflowExecutionRequest(namespace=client.namespace)
    request.workflow_execution.workflow_id = run
    request.request.meta.update_id = uuid.uuid4().hex
    request.request.input.name = name
    request.request.input.args.payloads.extend(payloads)
    request.wait_policy.lifecycle_stage = Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED
    answer = await client.workflow_service.update_workflow_execution(request)
    if not answer.outcome.HasField("failure"):
        return ""
    converter = client.data_converter.with_context(RunContext(client.namespace, run))
    return str(await converter.decode_failure(answer.outcome.failure))


async def started(client: Client, payloads: Sequence[Payload], kind: str, run: str = "") -> Handle:
    """Start a run with an input as it stands."""
    request = StartWorkflowExecutionRequest(
        namespace=client.namespace, workflow_id=run or f"test-{uuid.uuid4().hex}",
        workflow_type=WorkflowType(name=kind), task_queue=TaskQueue(name="mull"),
        input=Payloads(payloads=payloads), request_id=uuid.uuid4().hex,
    )  # fmt: skip
    await client.workflow_service.start_workflow_execution(request)
    return client.get_workflow_handle(request.workflow_id)


async def input_of(run: Handle) -> list[Payload]:
    first = (await run.fetch_history()).events[0]
    return list(first.workflow_execution_started_event_attributes.input.payloads)


@pytest.mark.parametrize("inputs", [[ASKED], [ASKED, ASKED], [b"x"]], ids=["one", "two", "bytes"])
async def test_a_start_in_the_clear_fails_its_run(connected: Connected, inputs: list[Any]) -> None:
    """For good, and in words that only who has the key reads."""
    plain, encrypting = await connected(None), await connected("main-1")
    async with served(encrypting, ScriptedModel()):
        run = await plain.start_workflow(
            "SelfConsistencyWorkflow", args=inputs, id=uuid.uuid4().hex, task_queue="mull"
        )
        error = await failure(encrypting.get_workflow_handle(run.id))

    assert IN_CLEAR in error.message
    assert "or MULL_CLEAR=read for the worker" in error.message
    assert (error.type, error.non_retryable) == ("Refused", True)


async def test_a_key_for_code_starts_no_run_and_says_nothing_to_one(connected: Connected) -> None:
    """A program that broke out of its sandbox may have it."""
    everybody = await connected("main-1 code-1")
    escaped = await connected("code-1", only_code=True)
    # A codec of its own, which encrypts anything by that key.
    vars(escaped.data_converter.payload_codec).update(_usual="code-1", _id="code-1")
    async with served(everybody, ScriptedModel(sample=[["1"], "1"])):
        refused = await failure(everybody.get_workflow_handle((await begin(escaped, ASKED)).id))
        run = await begin(everybody, ASKED)
        [word] = await escaped.data_converter.encode([{"author": "the owner"}])
        said = await sent(everybody, run.id, "finish_now", word)
        assert await result(everybody, run)

    assert (refused.type, "with a key for code" in refused.message) == ("Refused", True)
    assert said.startswith("Refused: this is encrypted with a key for code")


@pytest.mark.parametrize("given", [{"author": "the owner"}, None, b"", ...])
async def test_an_update_in_the_clear_is_refused(connected: Connected, given: Any) -> None:
    """With an input, without one, and with null; the run goes on as if it had not been sent."""
    plain, encrypting = await connected(None), await connected("main-1")
    payloads = [] if given is ... else await plain.data_converter.encode([given])
    async with served(encrypting, ScriptedModel(sample=[["1"], "1"])):
        run = await begin(encrypting, ASKED)
        said = await sent(encrypting, run.id, "finish_now", *payloads)
        assert await result(encrypting, run)

    assert said.startswith(("Refused: this is not encrypted", "Refused: an update without an enc"))


async def test_updates_in_the_clear_are_taken_where_the_worker_is_told_to(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For clients that can't encrypt, as the Web UI without a codec server."""
    monkeypatch.setenv("MULL_CLEAR", "read")
    plain, encrypting = await connected(None), await connected("main-1")
    async with paying(encrypting, Noted(), 1):
        run = await begin(encrypting, {"message": "Do it"}, "ToolTurnWorkflow")
        permit = await plain.data_converter.encode([await until_asking(run)])
        assert await sent(encrypting, run.id, "permit", *permit) == ""
        assert (await run.result())["answer"] == "Done."


async def until_asking(run: Handle) -> dict[str, Any]:
    """Wait until a call of a turn waits for a person, and return what allows it."""
    asked = (await until(lambda: run.query("progress"), itemgetter("questions")))["questions"]
    return {"allow": True, **{name: asked[0][name] for name in ("call", "run_id", "digest")}}


@asynccontextmanager
async def paying(client: Client, calls: Noted, turns: int) -> AsyncIterator[None]:
    """Serve turns that each want to write once."""
    steps: list[Any] = [[("write", {"text": "a"})], "Done."] * turns
    async with turning(client, ScriptedModel(step=steps), calls):
        yield


async def test_what_one_run_was_allowed_moves_to_no_other(connected: Connected) -> None:
    """A copied permit is refused in words; a copied start fails its run, also as another type."""
    client, noted = await connected("main-1"), Noted()
    async with paying(client, noted, 2):
        first = await begin(client, {"message": "Do it"}, "ToolTurnWorkflow")
        await first.execute_update("permit", await until_asking(first))
        await first.result()
        taken = next(
            event.workflow_execution_update_accepted_event_attributes.accepted_request.input.args
            for event in (await first.fetch_history()).events
            if event.HasField("workflow_execution_update_accepted_event_attributes")
        )
        second = await begin(client, {"message": "Do it"}, "ToolTurnWorkflow")
        await until_asking(second)
        said = await sent(client, second.id, "permit", *taken.payloads)
        own = await input_of(first)
        replayed = [await failure(await started(client, own, kind)) for kind in TYPES]
        await second.execute_update("permit", {"call": 1, "allow": False})
        await second.result()

    assert f"encrypted for workflow {first.id}" in said
    assert f"not for workflow {second.id}" in said
    assert {error.type for error in replayed} == {"Refused"}
    assert all(f"encrypted for workflow {first.id}" in error.message for error in replayed)
    assert noted.calls == ["write a"]


TYPES = ("ToolTurnWorkflow", "SelfConsistencyWorkflow", "WebhookWorkflow", "MemoryWorkflow")


async def test_what_a_run_got_is_no_activity_s_nor_the_other_way_round(
    connected: Connected,
) -> None:
    """What a call took starts no run of the same id, and no call outside of a run."""
    client, noted = await connected("main-1"), Noted()
    async with paying(client, noted, 1):
        run = await begin(client, {"message": "Do it"}, "ToolTurnWorkflow")
        await run.execute_update("permit", await until_asking(run))
        await run.result()
        (call,) = [
            event.activity_task_scheduled_event_attributes
            for event in (await run.fetch_history()).events
            if event.activity_task_scheduled_event_attributes.activity_type.name == "call_tool"
        ]
        again = await failure(await started(client, call.input.payloads, TYPES[0], run.id))
        for id_, raw in ((run.id, call.input.payloads[0]), ("alone", await clear(connected))):
            request = StartActivityExecutionRequest(
                namespace=client.namespace, activity_id=id_, request_id=id_,
                activity_type=ActivityType(name="call_tool"), identity="x",
                task_queue=TaskQueue(name="mull-tools"), input=Payloads(payloads=[raw]),
                start_to_close_timeout=Duration(seconds=5),
                retry_policy=Retries(maximum_attempts=1),
            )  # fmt: skip
            await client.workflow_service.start_activity_execution(request)
            with pytest.raises(ActivityFailureError):
                await client.get_activity_handle(id_).result()

    assert again.type == "Refused"
    assert noted.calls == ["write a"]


async def clear(connected: Connected) -> Payload:
    """A call of a tool in the clear."""
    task = {"name": "write", "arguments": '{"text": "b"}'}
    plain: Client = await connected(None)
    [payload] = await plain.data_converter.encode([task])
    return payload


async def test_what_began_in_the_clear_waits_until_a_worker_may_read_it(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turning keys on loses no run: without MULL_CLEAR its tasks fail, and with it it goes on."""
    plain, encrypting = await connected(None), await connected("main-1")
    async with served(plain, ASK.model()):
        run = await begin(plain, ASK.request)
        await until_step(run, "waiting_for_review")
    async with loose(encrypting):
        with pytest.raises(WorkflowQueryFailedError):
            await run.query("progress")
        assert (await run.describe()).status is WorkflowExecutionStatus.RUNNING
    monkeypatch.setenv("MULL_CLEAR", "read")
    async with loose(encrypting):
        own = encrypting.get_workflow_handle(run.id)
        await own.execute_update("review", {"accept": True})
        assert (await result(encrypting, run)).stop_reason == "accepted_by_person"


def loose(client: Client) -> AbstractAsyncContextManager[None]:
    """Serve as in production: what does not fit a history fails the task, and not the run."""
    return served(client, ScriptedModel(), workflow_failure_exception_types=[])


async def test_a_run_that_was_reset_reads_what_it_kept(connected: Connected) -> None:
    """The new run has the same id, for which all was encrypted."""
    client = await connected("main-1")
    async with served(client, ASK.model()):
        run = await begin(client, ASK.request)
        await until_step(run, "waiting_for_review")
        history = (await run.fetch_history()).events
        last = max(
            e.event_id for e in history if "task_completed" in str(e.WhichOneof("attributes"))
        )
        again = ResetWorkflowExecutionRequest(
            namespace=client.namespace, reason="x", request_id=uuid.uuid4().hex,
            workflow_task_finish_event_id=last,
        )  # fmt: skip
        again.workflow_execution.workflow_id = run.id
        await client.workflow_service.reset_workflow_execution(again)
        own = client.get_workflow_handle(run.id)
        await until_step(own, "waiting_for_review")
        await own.execute_update("review", {"accept": True})
        assert (await result(client, own)).stop_reason == "accepted_by_person"


async def test_a_signal_in_the_clear_is_dropped(connected: Connected) -> None:
    plain, client = await connected(None), await connected("main-1")
    variant = {"name": "ask", "workflow": "SelfConsistencyWorkflow"}
    async with served(client, ScriptedModel()):
        batch = {"variants": [variant], "pages": 1}
        run = await begin(client, batch, "BatchWorkflow")
        await plain.get_workflow_handle(run.id).signal(
            "allow", {"max_concurrency": 5, "finish": {"author": "the owner"}}
        )
        progress = await run.query("progress")
        await run.execute_update("finish_now", {"author": "ann"})
        ended = await run.result()

    assert progress["stop_reason"] is None
    assert "ann" in ended["stop_explanation"]


def bound_to(payload: Payload) -> tuple[str, str]:
    """Read for what a payload was encrypted."""
    place = json.loads(payload.metadata[BOUND_TO])
    assert place["namespace"] == "default"
    return place["kind"], place["id"]


async def test_a_session_and_its_turns_are_bound_to_themselves(connected: Connected) -> None:
    """Start, update, child, tool call, memo, query, new history: both ends agree on each."""
    client, noted = await connected("main-1"), Noted()
    noted.rules = [ToolRule(tool="*", action="allow")]
    session = f"test-{uuid.uuid4().hex}"
    async with paying(client, noted, 3):
        handle = await client.start_workflow(
            "SessionWorkflow", {"turns_per_execution": 1}, id=session,
            task_queue="mull", memo={"asked": "Do it"}, static_summary="Do it",
        )  # fmt: skip
        for number in (1, 2):
            answer = await said_in(client, session, f"message {number}")
            assert answer["answer"] == "Done.", answer
        seen = await handle.describe()
        assert (await seen.memo())["asked"] == "Do it"
        first = client.get_workflow_handle(session, run_id=handle.first_execution_run_id)
        assert await (await first.describe()).static_summary() == "Do it"
        assert (await client.get_workflow_handle(session).query("progress"))["turns"]
        await client.get_workflow_handle(session).execute_update("finish_now", {"author": "ann"})
        await client.get_workflow_handle(session).result()
        turn = client.get_workflow_handle(f"{session}-turn-1")
        assert (await turn.query("progress"))["answer"] == "Done."
        histories = [await each.fetch_history() for each in (handle, turn)]

    found = [bound_to(each) for one in histories for event in one.events
             for each in stored(event)]  # fmt: skip
    turns = {f"{session}-turn-{number}" for number in (1, 2)}
    assert {id_ for _, id_ in found} <= {session, *turns}
    assert {kind for kind, _ in found} == {"workflow", "activity"}
    assert len(noted.calls) == 2


async def said_in(client: Client, session: str, message: str) -> dict[str, Any]:
    while True:
        try:
            given, handle = {"message": message}, client.get_workflow_handle(session)
            return dict(await handle.execute_update("send", given))
        except WorkflowUpdateFailedError as error:
            if "new history" not in str(error.cause):
                raise
            await asyncio.sleep(0.1)


def stored(event: Any) -> list[Payload]:
    """Find the payloads that a codec is given: attributes and the SDK's own notes are not."""
    if event.HasField("marker_recorded_event_attributes"):
        event.marker_recorded_event_attributes.details.pop("data")
    return [each for each in payloads_of(event) if "type" not in each.metadata]
