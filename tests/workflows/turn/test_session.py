"""Sessions through a real server: messages, their order, new histories, failures and ends."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, CancelledError

from activities.language_model.port import ModelCall, PermanentModelError
from commands.command import Exit
from commands.options import Wanted
from commands.run_list import list_runs
from commands.sessions import send
from mull.connection import TASK_QUEUE
from mull.errors import MullError
from mull.turn.session import SessionMessage, SessionRequest
from tests.conftest import ONE_BY_ONE, Handle, failure, until, until_asked
from tests.patience import PATIENCE
from tests.scripted import SUMMARY, ScriptedModel
from tests.workflows.turn import running as turns

Asked = WorkflowUpdateHandle[Any]

MESSAGES = ("a", "b", "c", "d", "e")


def served(client: Client, model: ScriptedModel, **given: Any) -> AbstractAsyncContextManager[None]:
    """Serve every queue without a workflow cache, one workflow task after the other."""
    return turns.served(client, model, **{**ONE_BY_ONE, **given})


def echo(call: ModelCall) -> str:
    return f"re {call.messages[-1]['content']}"


def echoing(*steps: Any, delay: float = 0) -> ScriptedModel:
    return ScriptedModel(step=[*steps, *[echo] * 40], delay=delay)


def texts(model: ScriptedModel) -> list[str]:
    """What the model was shown last, without the system message."""
    return [one["content"] for one in model.calls[-1].messages if one["role"] != "system"]


class Talk:
    """One session, as a client in any language talks to it."""

    def __init__(self, client: Client, **request: Any) -> None:
        self.client = client
        self.request = {"tools": [], **request}
        self.id = f"session-{uuid.uuid4().hex}"
        self.handle: Handle = client.get_workflow_handle(self.id)

    async def ask(self, message: str, key: str | None = None, **more: Any) -> Asked:
        begun = WithStartWorkflowOperation[Any, Any](
            "SessionWorkflow",
            self.request,
            id=self.id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        return await self.client.start_update_with_start_workflow(
            "send",
            {"message": message, **more},
            id=key,
            start_workflow_operation=begun,
            wait_for_stage=WorkflowUpdateStage.ACCEPTED,
        )

    async def send(self, message: str, key: str | None = None, **more: Any) -> Any:
        return await told(await self.ask(message, key, **more))

    async def refused(self, **message: Any) -> ApplicationError:
        return await failed(
            await self.handle.start_update(
                "send", message, wait_for_stage=WorkflowUpdateStage.ACCEPTED
            )
        )

    async def progress(self) -> Any:
        return await self.handle.query("progress")

    async def finish(self) -> Any:
        await self.handle.execute_update("finish_now", {"author": "ann"})
        return await asyncio.wait_for(self.handle.result(), PATIENCE)

    async def runs(self) -> int:
        found = self.client.list_workflows(f"WorkflowId = '{self.id}'")
        return len([run async for run in found])


async def told(asked: Asked) -> Any:
    return await asyncio.wait_for(asked.result(), PATIENCE)


async def failed(asked: Asked) -> ApplicationError:
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await told(asked)
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


async def until_turn(talk: Talk, number: int) -> None:
    await until(talk.progress, lambda seen: seen["turn"] == number)


async def test_each_message_knows_the_earlier_ones(client: Client) -> None:
    """The first one starts the session; each turn is a run of its own, numbered from 1."""
    model = echoing()
    async with served(client, model):
        talk = Talk(client, system="Be brief.")
        answers = [await talk.send(message) for message in MESSAGES[:2]]
        answers.append(await talk.send("c", context=["It is raining."]))
        await talk.send("d")
        seen, result = await talk.progress(), await talk.finish()
        turn = await client.get_workflow_handle(f"{talk.id}-turn-3").result()

    assert [(one["number"], one["answer"]) for one in answers[:2]] == [(1, "re a"), (2, "re b")]
    assert texts(model)[:4] == ["a", "re a", "b", "re b"]
    assert '1. "It is raining."' in texts(model)[4]
    assert texts(model)[6:] == ["d"]
    assert model.calls[-1].messages[0]["content"].startswith("Be brief.")
    assert (turn["turn_count"], turn["answer"]) == (3, answers[2]["answer"])
    assert (seen["turns"], seen["messages"], seen["waiting"], seen["turn"]) == (4, 8, [], None)
    assert (result["stop_reason"], result["usage"]["calls"]) == ("finished_by_person", 4)
    assert result["usage"]["parts"]["generating"]["input_tokens"] == 320


async def test_periodic_reflections_count_the_turns_of_the_session(client: Client) -> None:
    looks = [("look", {"place": "sea"})]
    model = ScriptedModel(step=[looks, "one", looks, "two"], reflection=["Go on."])
    async with served(client, model):
        talk = Talk(client, tools=["look"], think_level="low", reflect_every=2)
        await talk.send("a")
        assert model.asked("reflection") == []
        await talk.send("b")

    assert len(model.asked("reflection")) == 1


async def test_messages_are_answered_in_order_and_the_ninth_is_refused(client: Client) -> None:
    """Eight wait, of which one is under way; the ninth is told so at once, and loses nothing.

    A message that was answered in an earlier history is no ninth.
    """
    gate = asyncio.Event()

    async def held(call: ModelCall) -> str:
        await gate.wait()
        return echo(call)

    async with served(client, echoing(echo, held)):
        talk = Talk(client, turns_per_execution=1)
        answers = [await talk.send("m0", "id-0")]
        sent = [await talk.ask(f"m{number}") for number in range(1, 9)]
        error, again = await talk.refused(message="m9"), await talk.send("m0", "id-0")
        gate.set()
        answers += [await told(one) for one in sent]

    assert (error.type, error.message[:21]) == ("Refused", "8 messages wait alrea")
    assert [one["answer"] for one in answers] == [f"re m{number}" for number in range(9)]
    assert [one["number"] for one in answers] == [*range(1, 10)]
    assert again == answers[0]


@pytest.mark.parametrize(("turns", "most_bytes", "histories"), [(2, 10_000_000, 3), (9, 1, 6)])
async def test_no_message_is_lost_where_it_goes_on_in_a_new_history(
    client: Client, monkeypatch: pytest.MonkeyPatch, turns: int, most_bytes: int, histories: int
) -> None:
    monkeypatch.setattr("workflows.session.HISTORY_BYTES", most_bytes)
    model = echoing()
    async with served(client, model):
        talk = Talk(client, turns_per_execution=turns)
        answers = [await talk.send(message, f"id-{message}") for message in MESSAGES]
        again = [await talk.send(message, f"id-{message}") for message in MESSAGES]
        result, runs = await talk.finish(), await talk.runs()

    assert [one["answer"] for one in answers] == [f"re {message}" for message in MESSAGES]
    assert again == answers
    assert len(model.calls) == 5
    assert texts(model) == ["a", "re a", "b", "re b", "c", "re c", "d", "re d", "e"]
    assert (runs, result["turns"], result["usage"]["calls"]) == (histories, 5, 5)


async def test_once_it_is_to_go_on_new_messages_are_to_be_sent_again(client: Client) -> None:
    """What was taken is answered in its history; what comes meanwhile is refused by its type."""
    both, refused = asyncio.Event(), asyncio.Event()

    def held(until: asyncio.Event) -> Callable[[ModelCall], Awaitable[str]]:
        async def answered(call: ModelCall) -> str:
            await until.wait()
            return echo(call)

        return answered

    model = echoing(held(both), held(refused))
    # With one task at a time, the worker's only poll may miss a task for a minute.
    async with served(client, model, max_cached_workflows=10, max_concurrent_workflow_tasks=10):
        talk = Talk(client, turns_per_execution=1)
        taken = [await talk.ask("a"), await talk.ask("b")]
        both.set()
        await until_turn(talk, 2)
        error = await talk.refused(message="c")
        refused.set()
        answers = [await told(one) for one in taken]
        later = await talk.send("c")

    assert error.type == "SessionContinues"
    assert [one["answer"] for one in (*answers, later)] == ["re a", "re b", "re c"]
    assert texts(model) == ["a", "re a", "b", "re b", "c"]


async def test_a_turn_that_fails_is_an_answer_in_words(client: Client) -> None:
    wrong_key = PermanentModelError("no such key", "AuthenticationError", 401)
    model = echoing(wrong_key, lambda _: asyncio.sleep(60))
    async with served(client, model):
        talk = Talk(client)
        answers = [await talk.send("a", "id-a")]
        cancelled = await talk.ask("b")
        await until_asked(model, 2)
        busy = await talk.progress()
        await client.get_workflow_handle(f"{talk.id}-turn-2").cancel()
        answers.append(await told(cancelled))
        again, after = await talk.send("a", "id-a"), await talk.send("c")
        seen = await talk.progress()

    errors = [one["error"] for one in answers]
    assert errors == ["AuthenticationError: no such key", "the turn was cancelled"]
    assert again == answers[0]
    assert (after["number"], after["answer"], texts(model)) == (3, "re c", ["c"])
    assert (seen["turns"], seen["failed"], seen["usage"]["calls"]) == (3, 2, 1)
    assert [(one["step"], one["in_flight"]) for one in (busy, seen)] == [("turn", 1), ("", 0)]


async def test_a_turn_without_an_answer_says_what_it_has(client: Client) -> None:
    """The next turn reads that, too."""
    model = echoing([("look", {"place": "sea"})])
    async with served(client, model):
        talk = Talk(client, tools=["look"], max_steps=1)
        answer = await talk.send("a")
        await talk.send("b")

    assert (answer["answer"], answer["stop_reason"]) == (None, "max_steps")
    assert texts(model) == ["a", answer["so_far"], "b"]


async def test_it_ends_after_the_turn_under_way(client: Client) -> None:
    model = echoing(delay=0.5)
    async with served(client, model):
        talk = Talk(client)
        first, second = await talk.ask("a"), await talk.ask("b")
        await until_asked(model, 1)
        result = await talk.finish()
        error = await failed(second)
        talk.request = result["going_on"]
        again = await talk.send("b")

    assert (await told(first))["answer"] == "re a"
    assert (error.type, len(model.calls)) == ("SessionEnded", 2)
    assert (again["number"], texts(model)) == (2, ["a", "re a", "b"])


async def test_it_ends_when_nobody_writes_any_more(client: Client) -> None:
    """The idle time begins anew with each message."""
    async with served(client, echoing()):
        talk = Talk(client, idle_seconds=6)
        await talk.send("a")
        await asyncio.sleep(1)
        begun = datetime.now(UTC)
        await talk.send("b")
        result = await asyncio.wait_for(talk.handle.result(), PATIENCE)
        closed = (await talk.handle.describe()).close_time

    assert (result["stop_reason"], result["turns"]) == ("idle", 2)
    assert closed
    assert (closed - begun).total_seconds() > 6


async def test_cancelling_it_cancels_the_turn_under_way(client: Client) -> None:
    model = echoing(lambda _: asyncio.sleep(60))
    async with served(client, model):
        talk = Talk(client)
        first, second = await talk.ask("a"), await talk.ask("b")
        await until_asked(model, 1)
        await talk.handle.cancel()
        answer, error = await told(first), await failed(second)
        await failure(talk.handle, CancelledError)
        seen = await client.get_workflow_handle(f"{talk.id}-turn-1").describe()

    assert (answer["error"], error.type) == ("the turn was cancelled", "SessionEnded")
    assert seen.status is WorkflowExecutionStatus.CANCELED


async def test_large_messages_are_summarized_by_a_turn(client: Client) -> None:
    """The last ones stay as they were, and no message is refused for what was said before."""
    model = echoing()
    large = [f"{number} {'x' * 40_000}" for number in range(6)]
    async with served(client, model):
        talk = Talk(client)
        for text in large:
            answer = await talk.send(text)
            assert answer["answer"] == f"re {text}"
        seen = await talk.progress()

    assert len(model.asked("summary")) == 2
    assert SUMMARY in model.calls[-1].messages[0]["content"]
    assert (seen["summarized"], seen["warnings"]) == (True, [])
    assert seen["conversation_bytes"] < 240_000


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"message": " "}, "message: "),
    ({"message": 5}, "message: should be a valid string"),
    ({"message": "secret" * 20_000}, "message: 120,000 bytes exceed the limit of 100,000"),
    ({"message": "a", "colour": "secret"}, "colour: no such field"),
    ({"message": "a", "context": "secret"}, "context: "),
    ({"message": "a", "context": ["secret" * 16_000] * 3}, "context"),
    ({"message": "a", "context": ["secret"] * 51}, "context: "),
    ({}, "message: missing"),
]


async def test_a_malformed_message_is_refused_at_once(client: Client) -> None:
    async with served(client, echoing()):
        talk = Talk(client, context=["b"])
        await talk.send("a")
        for given, said in WRONG:
            error = await talk.refused(**given)
            assert said in error.message, error.message
            assert "secret" not in error.message
            assert error.type in {"InvalidRequest", "Refused"}
        for inputs in ([], [{"message": "a"}] * 2, [b"rubbish"]):
            with pytest.raises(WorkflowUpdateFailedError):
                await talk.handle.execute_update("send", args=inputs)
        with pytest.raises(WorkflowUpdateFailedError):
            await talk.handle.execute_update("send", {"message": "a"}, id="i" * 201)
        assert (await talk.send("b"))["number"] == 2


async def say(talk: Talk, message: str, key: str | None = None, **more: Any) -> Exit:
    request = SessionRequest.model_validate(talk.request)
    sent = SessionMessage(message=message)
    wanted = Wanted(as_json=True)
    return await send(talk.client, talk.id, request, sent, wanted, message_id=key, **more)


async def test_the_command_line_talks_to_a_session(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(client, echoing()):
        await Talk(client).send("so that the worker is known to poll")
        talk = Talk(client, turns_per_execution=2)
        codes = [await say(talk, message, f"id-{message}") for message in (*MESSAGES[:3], "a")]
        await talk.finish()
        codes.append(await say(talk, "d"))
        talk.request["max_steps"] = 2
        codes.append(await say(talk, "e", detach=True))
        # Nothing is left that the end of the process would break off loudly.
        assert "WorkflowUpdateHandle.result" not in f"{asyncio.all_tasks()}"

    printed = capsys.readouterr()
    results = [json.loads(line) for line in printed.out.splitlines()]
    assert [one.get("answer") for one in results] == ["re a", "re b", "re c", "re a", "re d", None]
    assert [one.get("turn_count") for one in results] == [1, 2, 3, 1, 4, None]
    assert results[5] == {"id": f"{talk.id}-turn-5"}
    assert set(codes) == {Exit.DONE}
    assert "Note: the session had ended, and goes on with turn 4." in printed.err
    assert "this has no effect: --max-steps." in printed.err


async def test_a_command_line_sends_again_what_comes_between_two_histories(client: Client) -> None:
    """Where the session is to go on in a new one, its message is the first of that."""
    model = echoing(delay=1)
    async with served(client, model):
        talk = Talk(client, turns_per_execution=1)
        taken = [await talk.ask("a"), await talk.ask("b")]
        await until_turn(talk, 2)
        code = await say(talk, "c")
        answers = [await told(one) for one in taken]
        seen, runs = await talk.progress(), await talk.runs()

    assert (code, [one["number"] for one in answers]) == (Exit.DONE, [1, 2])
    assert (seen["turns"], seen["failed"], runs) == (3, 0, 3)


async def test_a_turn_of_a_lost_session_is_not_taken_for_the_new_one_s(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = asyncio.Event()

    async def held(call: ModelCall) -> str:
        await gate.wait()
        return echo(call)

    model = echoing(echo, echo, held)
    async with served(client, model):
        talk = Talk(client)
        for message in MESSAGES[:2]:
            await talk.send(message)
        await talk.handle.cancel()
        await failure(talk.handle, CancelledError)
        await talk.ask("c")
        said, told = asyncio.create_task(say(talk, "d")), ""
        async with asyncio.timeout(PATIENCE):
            # The message before is answered only once the command line has seen it wait.
            while "1 message before this one." not in told:
                await asyncio.sleep(0.05)
                told += capsys.readouterr().err
        gate.set()
        code = await said

    assert (code, json.loads(capsys.readouterr().out)["answer"]) == (Exit.DONE, "re d")


async def test_what_the_command_line_says_of_a_turn_that_failed(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its exit codes are those of a turn without a session."""
    model = echoing(
        "yes",
        PermanentModelError("no such key", "AuthenticationError", 401),
        lambda _: asyncio.sleep(60),
    )
    async with served(client, model):
        await Talk(client).send("so that the worker is known to poll")
        talk = Talk(client)
        failed_code = await say(talk, "a")
        ended = asyncio.create_task(say(talk, "b"))
        await until_asked(model, 3)
        last = asyncio.create_task(say(talk, "c"))
        await until(talk.progress, lambda seen: len(seen["waiting"]) >= 2)
        await talk.handle.cancel()
        cancelled_code = await ended
        with pytest.raises(MullError, match="Send the message again") as caught:
            await last

    assert (failed_code, cancelled_code) == (Exit.FAILED, Exit.CANCELLED)
    assert caught.value.exit_code == Exit.FAILED
    assert "no such key" in capsys.readouterr().err


async def test_a_turn_of_a_session_that_waits_for_a_person_is_listed(client: Client) -> None:
    async with served(client, echoing(lambda _: [("write", {"text": "a"})], "done")):
        talk = Talk(client, tools=None)
        answer = await talk.ask("write it")
        turn: Any = client.get_workflow_handle(f"{talk.id}-turn-1")
        await until(lambda: listed(client), lambda rows: rows.get(turn.id))
        await turn.execute_update("permit", {"call": 1, "allow": False})
        await told(answer)
        await until(lambda: listed(client), lambda rows: turn.id not in rows)


async def listed(client: Client) -> dict[str, Any]:
    found = await list_runs(client, "WorkflowType = 'ToolTurnWorkflow'", 1_000)
    return {row["id"]: row["MullNeedsReview"] for row in found.rows} if found else {}
