"""A message to a session: begin the session, or go on with it, and follow the turn that answers."""

import asyncio
import json
import sys
import uuid
from typing import Any

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from commands.command import Exit, fail, option_of, say_unserved, tell, unserved
from commands.follow import LOOK_SECONDS, Wanted, follow
from commands.loops import SESSION, TURN, FoundRun, Handle, look, reach, request_of
from connection import TASK_QUEUE
from reflection.text import tally_words
from reflection.turn.result import ToolTurnResult
from reflection.turn.session import (
    SESSION_CONTINUES,
    SESSION_ENDED,
    SessionAnswer,
    SessionMessage,
    SessionRequest,
    turn_id,
)

# What a session has of its own, besides what its request holds all of its turns to.
STATE = ("messages", "summary", "turn_count", "carried")
# Until a session that takes no more messages in one history goes on in the next.
PAUSE_SECONDS = 0.5

Answer = asyncio.Task[SessionAnswer]


async def send(
    client: Client,
    session: str,
    request: SessionRequest,
    message: SessionMessage,
    wanted: Wanted,
    *,
    message_id: str | None = None,
    detach: bool = False,
) -> Exit:
    """Send a message, follow its turn and print the result, or print the turn's id at once.

    `request` begins the session where there is none. A message with the id of an earlier one is
    the same message, and gets the same answer.
    """
    missing = await unserved(client, TURN.queues(request))
    if missing:
        say_unserved(missing, "session", waits=False)
    key = message_id or uuid.uuid4().hex
    while True:
        sent = await _sent(client, session, request, message, key)
        answer = asyncio.create_task(sent.result())
        try:
            return await _followed(client, session, key, answer, wanted, detach=detach)
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            kind = cause.type if isinstance(cause, ApplicationError) else None
            if kind == SESSION_ENDED:
                again = "Send the message again to go on with it"
                fail(f"{getattr(cause, 'message', cause)}. {again}.", Exit.FAILED)
            if kind != SESSION_CONTINUES:
                fail(f"refused: {getattr(cause, 'message', cause)}.", Exit.USAGE)
            await asyncio.sleep(PAUSE_SECONDS)
        finally:
            answer.cancel()


async def _sent(
    client: Client, session: str, request: SessionRequest, message: SessionMessage, key: str
) -> WorkflowUpdateHandle[SessionAnswer]:
    """Send a message to a session that goes on, or with the start of one."""
    given: dict[str, Any] = {
        "id": key,
        "wait_for_stage": WorkflowUpdateStage.ACCEPTED,
        "result_type": SessionAnswer,
    }
    try:
        found = await reach(client, session)
        if found.loop is not SESSION:
            fail(f"{session} is a run of its own, and no session.", Exit.USAGE)
        request = await _going_on(client, found, request)
        if found.goes_on:
            return await found.handle.start_update("send", message, **given)
    except RPCError as error:
        # There is none, or it has just ended.
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    begun = WithStartWorkflowOperation[Any, Any](
        SESSION.workflow,
        request,
        id=session,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    return await client.start_update_with_start_workflow(
        "send", message, start_workflow_operation=begun, **given
    )


async def _going_on(client: Client, found: FoundRun, request: SessionRequest) -> SessionRequest:
    """Return the request by which a session that has ended goes on where it stood."""
    if found.goes_on:
        began = await request_of(client, found)
        names = set(SessionRequest.model_fields) - set(STATE)
        others = [name for name in sorted(names) if getattr(began, name) != getattr(request, name)]
        if others:
            given = ", ".join(map(option_of, others))
            tell(f"Note: the session keeps what it began with; {given} has no effect.")
        return request
    if found.description.status is not WorkflowExecutionStatus.COMPLETED:
        tell("Note: the session ended without a result; a new one begins, which knows nothing.")
        return request
    stood = (await found.handle.result()).going_on
    tell(f"The session had ended, and goes on with turn {stood.turn_count:,}.")
    return request.model_copy(update={name: getattr(stood, name) for name in STATE})


async def _followed(
    client: Client, session: str, key: str, answer: Answer, wanted: Wanted, *, detach: bool
) -> Exit:
    """Follow the turn that answers a message. Raises WorkflowUpdateFailedError."""
    number = await _number(client.get_workflow_handle(session), key, answer)
    turn: Handle = client.get_workflow_handle(turn_id(session, number), result_type=ToolTurnResult)
    if detach:
        sys.stdout.write(json.dumps({"id": turn.id}) + "\n" if wanted.as_json else f"{turn.id}\n")
        return Exit.DONE
    while not await _begun(turn):
        if answer.done():
            return _kept(await answer, wanted)
        await asyncio.wait({answer}, timeout=LOOK_SECONDS)
    tell(f"run {turn.id}")
    return await follow(turn, TURN, None, wanted)


async def _number(session: Handle, key: str, answer: Answer) -> int:
    """Tell the number of the turn that answers a message, from its place among those that wait."""
    while not answer.done():
        seen = await look(session, SESSION)
        waiting = seen.progress.waiting if seen else ()
        if seen and key in waiting:
            before = waiting.index(key)
            if before:
                tell(f"{tally_words(before, 'message')} before this one.")
            return int((seen.progress.turn or seen.progress.turns + 1) + before)
        await asyncio.wait({answer}, timeout=LOOK_SECONDS)
    return (await answer).number


async def _begun(turn: Handle) -> bool:
    try:
        await turn.describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


def _kept(answer: SessionAnswer, wanted: Wanted) -> Exit:
    """Print an answer from the session's record, whose turn the server no longer has."""
    said = answer.answer or answer.so_far or ""
    sys.stdout.write(f"{answer.model_dump_json() if wanted.as_json else said}\n")
    if answer.error:
        tell(f"Error: the run failed. {answer.error}")
        return Exit.FAILED
    return Exit.DONE if answer.answer or wanted.accept_any else Exit.BELOW_BAR
