"""What a person allowed is what runs, once, and nobody but Mull's workflows calls what acts."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import ActivityFailureError, Client, WorkflowFailureError
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import mull
import worker
from activities.code_tests.activity import TestTask
from activities.environments.activity import EpisodeTask
from activities.environments.port import Named, TaskRef
from activities.sandbox.port import TASK_QUEUE as CODE_QUEUE
from activities.sandbox.port import Program
from activities.tools import tool
from activities.tools.activity import ToolActivities
from activities.tools.functions import functions_of
from activities.tools.port import TASK_QUEUE, CallTask, ListTask, ToolOutcome
from mull.connection import TASK_QUEUE as MULL
from mull.connection import connect
from mull.multipath.suite import Suite
from mull.turn.approval import ToolRule
from mull.turn.tools import Tool
from tests import callers
from tests.conftest import Handle, begin, refusal, until
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel, ScriptedSandbox
from tests.workflows.agents.running import Counting
from tests.workflows.turn.running import (
    ANSWER,
    Noted,
    ended,
    keyed,
    permit,
    served,
    start,
    until_at,
)
from tests.workflows.turn.test_session import Talk, told

ACCEPTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
WAITS = "waiting_for_permission"
WRITE = [("write", {"text": "a"})]
# As an attacker writes it: it reads only, may be repeated, and takes anything.
CLAIMED = Tool(name="write", read_only=True, idempotent=True, parameters={"type": "object"})
PAYMENT = CallTask(tool=CLAIMED, arguments={"text": "a"}, timeout_seconds=9, call=1)


@workflow.defn(name="Own")
class OwnWorkflow:
    """A stranger's, which calls an activity; that of `callers` has a name of Mull's."""

    @workflow.run
    async def run(self, name: str, queue: str, task: Any) -> Any:
        limits: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=20)}
        limits["retry_policy"] = RetryPolicy(maximum_attempts=2)
        return await workflow.execute_activity(name, task, task_queue=queue, **limits)


EPISODE = {"task": TaskRef(environment=Counting.name, task="1"), "key": "k", "timeout_seconds": 9}
ACTING: list[tuple[str, str, Any]] = [
    ("call_tool", TASK_QUEUE, PAYMENT),
    ("list_tools", TASK_QUEUE, ListTask()),
    ("begin_task", TASK_QUEUE, EpisodeTask(**EPISODE)),
    ("execute_action", TASK_QUEUE, EpisodeTask(**EPISODE, action="a")),
    ("evaluate_episode", TASK_QUEUE, EpisodeTask(**EPISODE, answer="a")),
    ("verify_answer", TASK_QUEUE, EpisodeTask(**EPISODE, answer="a")),
    ("call_tool", CODE_QUEUE, PAYMENT.model_copy(update={"tool": Tool(name="run_python")})),
    ("run_code", CODE_QUEUE, Program(code="print(1)")),
    ("test_code", CODE_QUEUE, TestTask(code="1", suite=Suite(origin="user", kind="cases"))),
]


@pytest.mark.parametrize("way", ["standalone", "its own workflow", "a workflow of Mull's name"])
@pytest.mark.parametrize(("name", "queue", "task"), ACTING)
async def test_nobody_else_calls_what_acts(
    client: Client, way: str, name: str, queue: str, task: Any
) -> None:
    """Neither a client, nor a workflow of another type, nor one on another queue; nothing runs."""
    noted, sandbox, own = Noted(), ScriptedSandbox([]), f"own-{uuid.uuid4().hex}"
    noted.rules = [ToolRule(tool="*", action="allow")]
    serving = worker.build(
        client, ["tools", "code"], called=noted.tools(), sandbox=sandbox,
        environments=[Named(Counting.name, cast("Any", Counting))],
    )  # fmt: skip
    called = "Own" if "own" in way else "DoctorWorkflow"
    strange = Worker(
        client,
        task_queue=own,
        workflows=[OwnWorkflow, callers.CallingWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with serving[0], serving[1], strange:
        if way == "standalone":
            limit = timedelta(seconds=20)
            work: Any = client.execute_activity(
                name, task, id=own, task_queue=queue, start_to_close_timeout=limit
            )
        else:
            given = [name, queue, task]
            work = client.execute_workflow(called, args=given, id=own, task_queue=own)
        with pytest.raises((ActivityFailureError, WorkflowFailureError)) as caught:
            await work

    error = caught.value.cause
    while not isinstance(error, ApplicationError):
        error = getattr(error, "cause", None)
        assert error is not None
    assert (error.type, error.non_retryable) == ("ForeignCaller", True)
    assert f"only Mull's workflows on the task queue mull call {name}" in error.message
    assert (noted.calls, sandbox.programs) == ([], [])


@pytest.mark.parametrize(
    ("rules", "status", "ran"),
    [
        ((), "asking", []),
        ((ToolRule(tool="*", action="ask"),), "asking", []),
        ((ToolRule(tool="write", action="deny", why="not today"),), "denied", []),
        ((ToolRule(tool="write", arguments={"text": "a"}, action="allow"),), "ok", ["write a"]),
    ],
)
async def test_a_worker_believes_its_own_registry_and_rules(
    client: Client, rules: tuple[ToolRule, ...], status: str, ran: list[str]
) -> None:
    noted = Noted()
    noted.rules = rules
    [tools] = worker.build(client, ["tools"], called=noted.tools())
    async with tools:
        found = await callers.call(client, "call_tool", TASK_QUEUE, PAYMENT, ToolOutcome)

    assert (found.status, noted.calls) == (status, ran)
    assert (found.tool is not None) == (status == "asking")


async def test_the_schema_is_the_worker_s_own(client: Client) -> None:
    noted = Noted()
    noted.rules = [ToolRule(tool="*", action="allow")]
    [tools] = worker.build(client, ["tools"], called=noted.tools())
    task = PAYMENT.model_copy(update={"arguments": {"text": 1}})
    async with tools:
        found = await callers.call(client, "call_tool", TASK_QUEUE, task, ToolOutcome)

    assert (found.status, noted.calls) == ("invalid", [])


@pytest.mark.parametrize("encrypted", [False, True])
async def test_an_allowed_call_runs_in_each_turn_and_history_of_a_session(
    client: Client, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    """Two turns, the second after the session went on in a new history, also with keys set."""
    if encrypted:
        keyed(monkeypatch)
        client = await connect()
    noted, model = Noted(), ScriptedModel(step=[WRITE, ANSWER, [("write", {"text": "b"})], ANSWER])
    async with served(client, model, noted):
        talk = Talk(client, tools=None, turns_per_execution=1)
        for number in (1, 2):
            asked = await talk.ask(f"message {number}")
            turn: Handle = client.get_workflow_handle(f"{talk.id}-turn-{number}")
            await waiting(turn)
            await permit(turn, 1)
            assert (await told(asked))["answer"] == ANSWER

    assert noted.calls == ["write a", "write b"]


async def test_a_permission_is_found_page_by_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.tools.activity.PAGE_EVENTS", 1)
    noted, looks = Noted(), [("look", {"place": place}) for place in ("sea", "sky", "sun")]
    noted.rules = [ToolRule(tool="look", action="ask")]
    async with served(client, ScriptedModel(step=[looks, WRITE, ANSWER]), noted):
        handle = await start(client)
        await until_at(handle, WAITS)
        for number in (1, 2, 3):
            await permit(handle, number)
        await until_at(handle, WAITS, 4)
        found = sorted(noted.calls)
        monkeypatch.setattr("activities.tools.activity.READ_BACK", 0)
        word = await permit(handle, 4)
        again = await until(lambda: questions(handle))
        await permit(handle, 4, allow=False)
        await ended(handle)

    assert found == sorted(noted.calls) == ["look sea", "look sky", "look sun"]
    assert again[0]["digest"] == word["digest"]
    assert again[0]["doubts"] == ["it has not been allowed yet"]


async def questions(handle: Handle) -> Any:
    return (await handle.query("progress"))["questions"]


async def waiting(handle: Handle, calls: int = 1) -> Any:
    """Wait until a turn, which may not have begun, asks."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await until_at(handle, WAITS, calls)
            except Exception:
                await asyncio.sleep(0.1)


async def at_rest(handle: Handle) -> None:
    """Wait until no worker is at a run: one that is terminated under it may never stop (SDK)."""
    pending = "pending_workflow_task"
    await until(handle.describe, lambda seen: not seen.raw_description.HasField(pending))


async def test_a_word_on_one_run_is_none_on_the_next(client: Client) -> None:
    noted, calls = Noted(), [WRITE, WRITE, [("write", {"text": "b"})]]
    async with served(client, ScriptedModel(step=calls), noted):
        handle = await start(client)
        seen = (await until_at(handle, WAITS))["questions"][0]
        word = {name: seen[name] for name in ("call", "run_id", "digest")} | {"allow": True}
        said = []
        for _ in range(2):
            await at_rest(client.get_workflow_handle(handle.id))
            await client.start_workflow(
                "ToolTurnWorkflow",
                {"message": "How much is it?"},
                id=handle.id,
                task_queue=MULL,
                id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING,
            )
            again: Handle = client.get_workflow_handle(handle.id)
            await waiting(again)
            said.append(await refusal(again, "permit", word))
            mixed = (await again.query("progress"))["questions"][0]["run_id"]
            said.append(await refusal(again, "permit", {**word, "run_id": mixed}))

    assert ["look at it again" in one for one in said] == [True] * 4
    assert noted.calls == []


class Changing(Noted):
    """`write` takes other arguments once it has `changed`."""

    changed = False

    def tools(self) -> ToolActivities:
        made = super().tools()

        @tool()
        async def write(text: str, copy: str = "the owner") -> str:
            """Write a text."""
            self.calls.append(f"write {text} to {copy}")
            return "written"

        before = made._local

        def local(docs: str | None) -> Any:
            return {**before(docs), **(functions_of(write) if self.changed else {})}

        made._local = local  # type: ignore[method-assign]
        return made


async def test_a_tool_that_changed_after_it_was_allowed_is_asked_about_again(
    client: Client,
) -> None:
    changing = Changing()
    async with served(client, ScriptedModel(step=[WRITE, ANSWER]), changing):
        handle = await start(client)
        await until_at(handle, WAITS)
        changing.changed = True
        word = await permit(handle, 1)
        asked = await until(
            lambda: questions(handle), lambda seen: seen and seen[0]["digest"] != word["digest"]
        )
        nothing = list(changing.calls)
        said = await refusal(handle, "permit", {**word, "allow": True})
        await permit(handle, 1)
        result = await ended(handle)

    assert nothing == []
    assert asked[0]["doubts"] == [
        "the tool's parameters have changed since it was allowed",
    ]  # fmt: skip
    assert "is not the one that was shown" in said
    assert changing.calls == ["write a to the owner"]
    assert (result.calls[0].status, result.answer) == ("ok", ANSWER)


async def task_after_permit(handle: Handle) -> tuple[int, int] | None:
    """Find the last workflow task before a person's word, and the first that completed after it."""
    events = (await handle.fetch_history()).events
    words = [one.event_id for one in events if one.event_type == ACCEPTED]
    tasks = [one.event_id for one in events if one.event_type == COMPLETED]
    earlier, later = ([task for task in tasks if task < words[0]], tasks[-1])
    return (earlier[-1], later) if later > words[0] else None


async def reset(client: Client, handle: Handle, *, after_permit: bool) -> Handle:
    """Reset a run to a workflow task before or after the word of a person, as an operator does."""
    found = await task_after_permit(handle)
    assert found is not None
    chosen = found[after_permit]
    made = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(
                workflow_id=handle.id, run_id=handle.result_run_id or ""
            ),
            reason="a test",
            request_id=uuid.uuid4().hex,
            workflow_task_finish_event_id=chosen,
        )
    )
    return client.get_workflow_handle(handle.id, run_id=made.run_id)


class Stuck(Noted):
    """`write` notes that it was called, and does not answer until it is let go, or too late."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.free = seconds, asyncio.Event()

    def tools(self) -> ToolActivities:
        @tool(timeout_seconds=self.seconds)
        async def write(text: str) -> str:
            """Write a text."""
            self.calls.append(f"write {text}")
            await self.free.wait()
            return "written"

        return ToolActivities(functions_of(write), rules=self.rules)


@pytest.mark.parametrize("whose", ["the worker's rules", "the request's"])
@pytest.mark.parametrize("after_permit", [False, True])
async def test_a_reset_asks_again(client: Client, after_permit: bool, whose: str) -> None:
    """Before the word, which the server sends again, or after it, while the call is under way."""
    stuck, own = Stuck(40), [ToolRule(tool="*", action="ask")]
    stuck.rules = [ToolRule(tool="*", action="allow")] if "request" in whose else own
    async with served(client, ScriptedModel(step=[WRITE, ANSWER]), stuck):
        begun = await start(client, approve=own)
        handle: Handle = begun
        await until_at(handle, WAITS)
        await permit(handle, 1)
        await until(lambda: stuck.calls)
        # One more workflow task, in whose history the word is.
        await handle.signal("nonsense")
        await until(lambda: task_after_permit(handle))
        again = await reset(client, begun, after_permit=after_permit)
        seen = await waiting(again)
        before = list(stuck.calls)
        stuck.free.set()
        await permit(again, 1)
        result = await ended(again)

    doubts = " ".join(seen["questions"][0]["doubts"])
    assert before == ["write a"]
    assert f"this run was reset from {handle.result_run_id}" in doubts
    assert (f"it was allowed elsewhere ({handle.result_run_id})" in doubts) is after_permit
    assert stuck.calls == ["write a"] * 2
    assert result.calls[0].status == "ok"


async def test_what_a_person_decides_on_is_checked_by_the_queue(client: Client) -> None:
    """People query and answer meanwhile, and a local activity would have a replay see that later.

    A query ends the workflow task in which one is under way, and its result stands before the
    events of the next task, which the run saw first.
    """
    async with served(client, ScriptedModel(step=[WRITE, ANSWER]), Noted()):
        handle = await start(client)
        await until_at(handle, WAITS)
        await permit(handle, 1)
        await ended(handle)
        events = (await handle.fetch_history()).events

    called = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
    assert called.count("check_arguments") == 1


async def test_a_call_that_may_have_happened_is_shown_so(client: Client) -> None:
    stuck = Stuck(1)
    model = ScriptedModel(step=[WRITE, WRITE, ANSWER])
    async with served(client, model, stuck):
        handle = await start(client)
        first = (await until_at(handle, WAITS))["questions"][0]
        await permit(handle, 1)
        second = (await until_at(handle, WAITS, 2))["questions"][0]
        await permit(handle, 2, allow=False)
        await ended(handle)

    assert first["doubts"] == []
    assert second["doubts"] == [
        "call 1, the same, has no known outcome: it may already have happened",
    ]  # fmt: skip


async def test_rules_that_changed_since_the_listing_hold(client: Client) -> None:
    """The worker that makes a call asks by its own rules, though the one that listed it allowed."""
    noted = Noted()
    noted.rules = [ToolRule(tool="*", action="allow")]
    tools = noted.tools()

    def tightened(_: Any) -> Any:
        tools._rules = ()
        return WRITE

    async with served(client, ScriptedModel(step=[tightened, ANSWER]), tools):
        handle = await start(client)
        seen = await waiting(handle)
        nothing = list(noted.calls)
        await permit(handle, 1)
        await ended(handle)

    assert seen["questions"][0]["doubts"] == ["it has not been allowed yet"]
    assert (nothing, noted.calls) == ([], ["write a"])


async def test_an_older_client_s_word_is_refused(client: Client) -> None:
    """It says what mends that; denying needs no more than the number."""
    noted = Noted()
    async with served(client, ScriptedModel(step=[WRITE, ANSWER]), noted):
        handle = await begin(client, {"message": "How much is it?"}, "ToolTurnWorkflow")
        await until_at(handle, WAITS)
        said = await refusal(handle, "permit", {"call": 1, "allow": True})
        await handle.execute_update("permit", {"call": 1, "allow": False})
        result = await ended(handle)

    assert "`mull review` sends: upgrade a client that does not" in said
    assert (noted.calls, result.calls[0].status) == ([], "denied")


async def test_a_client_allows_what_it_was_shown(client: Client) -> None:
    """A question of the record says which call is meant: of another one nothing is allowed."""
    m, noted = mull.Client(client), Noted()
    model = ScriptedModel(step=[[("write", {"text": "a"})], "done"])
    async with served(client, model, noted):
        run = await m.start("turn", message="write it")
        seen = await until(run.look, lambda seen: seen.questions)
        other = seen.questions[0].model_copy(update={"digest": "another"})
        with pytest.raises(mull.RequestError, match="refused"):
            await run.permit(other, allow=True)
        before = list(noted.calls)
        await run.permit(seen.questions[0], allow=True, author="ann")
        ended = await run.result()

    assert (before, noted.calls, ended.answer) == ([], ["write a"], "done")
    assert getattr(ended.calls[0].approval, "author", None) == "ann"
