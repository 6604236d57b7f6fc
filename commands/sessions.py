"""A message to a session: begin the session, or go on with it, and follow the turn that answers."""

import asyncio
import uuid
from contextlib import suppress
from typing import Any, TypeAlias

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateHandle,
    WorkflowUpdateStage,
)
from temporalio.common import Priority, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from commands.command import Exit, fail, need_workers, option_of, print_id, sized, tell
from commands.follow import LOOK_SECONDS, follow
from commands.found import described
from commands.options import Wanted
from mull.connection import TASK_QUEUE
from mull.handle import find
from mull.loops import SESSION, TURN
from mull.progress import Handle, look
from mull.request import PERSON_PRIORITY
from mull.text import tally_words
from mull.turn.result import ToolTurnResult
from mull.turn.session import (
    SESSION_CONTINUES,
    SESSION_ENDED,
    SessionAnswer,
    SessionMessage,
    SessionRequest,
    turn_id,
)

# What a session carries besides the options of its turns.
STATE = ("messages", "summary", "turn_count", "carried")

Sent: TypeAlias = WorkflowUpdateHandle[SessionAnswer]
Answer: TypeAlias = "asyncio.Task[SessionAnswer]"


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
    await need_workers(client, TURN.queues(request), "session")
    sized(message)
    key = message_id or uuid.uuid4().hex
    while True:
        sent = await _sent(client, session, request, message, key)
        answer = asyncio.create_task(sent.result())
        try:
            return await _followed(client, sent, answer, message, wanted, detach=detach)
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            said = getattr(cause, "message", str(cause))
            kind = cause.type if isinstance(cause, ApplicationError) else None
            if kind == SESSION_ENDED:
                fail(f"{said}. Send the message again to go on with it.", Exit.FAILED)
            if kind != SESSION_CONTINUES:
                fail(f"refused: {said}.")
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)
        await asyncio.sleep(LOOK_SECONDS)


async def _sent(
    client: Client, session: str, request: SessionRequest, message: SessionMessage, key: str
) -> Sent:
    """Send a message to an open session, or with the start of one."""
    given: dict[str, Any] = {
        "id": key,
        "wait_for_stage": WorkflowUpdateStage.ACCEPTED,
        "result_type": SessionAnswer,
    }
    while (going_on := await _going_on(client, session, request)) is None:
        try:
            handle = client.get_workflow_handle(session)
            return await handle.start_update("send", message, **given)
        except RPCError as error:
            # A session that ended meanwhile, or whose history ends, is looked at again.
            if error.status not in {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}:
                raise
    begun = WithStartWorkflowOperation[Any, Any](
        SESSION.workflow,
        going_on,
        id=session,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        priority=Priority(priority_key=PERSON_PRIORITY),
    )
    return await client.start_update_with_start_workflow(
        "send", message, start_workflow_operation=begun, **given
    )


async def _going_on(client: Client, session: str, request: SessionRequest) -> SessionRequest | None:
    """Return the request that begins a session, where an earlier one stood; None if it is open."""
    if await described(client, session) is None:
        return request
    found = await find(client, session)
    if found.loop is not SESSION:
        fail(f"{session} is a run of its own and not a session. Choose another id.")
    if found.goes_on:
        began = await found.request()
        others = [
            option_of(SessionRequest, name)
            for name in sorted(request.model_fields_set)
            if name in STATE or getattr(began, name) != getattr(request, name)
        ]
        if others:
            said = "the session keeps what it began with, so this has no effect"
            tell(f"Note: {said}: {', '.join(others)}.")
        return None
    if found.description.status is not WorkflowExecutionStatus.COMPLETED:
        tell("Note: the earlier session has no result; a new one begins, without its messages.")
        return request
    stood = (await found.handle.result()).going_on
    if request.messages:
        tell("Note: the session has messages of its own, so --messages has no effect.")
    tell(f"The session had ended, and goes on with turn {stood.turn_count:,}.")
    return request.model_copy(update={name: getattr(stood, name) for name in STATE})


async def _followed(
    client: Client,
    sent: Sent,
    answer: Answer,
    message: SessionMessage,
    wanted: Wanted,
    *,
    detach: bool,
) -> Exit:
    """Follow the turn that answers a message. Raises WorkflowUpdateFailedError."""
    number = await _number(client.get_workflow_handle(sent.workflow_id), sent.id, answer)
    turn: Handle = client.get_workflow_handle(
        turn_id(sent.workflow_id, number), result_type=ToolTurnResult
    )
    if detach:
        return print_id(turn.id, as_json=wanted.as_json)
    while not answer.done():
        # The turns of earlier messages come first, and there may be another one by this name.
        with suppress(RPCError):
            if (await turn.describe()).parent_run_id == sent.workflow_run_id:
                break
        await asyncio.wait({answer}, timeout=LOOK_SECONDS)
    if answer.done():
        answer.result()
    tell(f"run {turn.id}")
    return await follow(turn, TURN, message, wanted)


async def _number(session: Handle, key: str, answer: Answer) -> int:
    """Tell the number of the turn that answers a message, from its place among those that wait."""
    while not answer.done():
        seen = await look(session, SESSION)
        waiting = seen.waiting if seen else ()
        if seen and key in waiting:
            before = waiting.index(key)
            if before:
                tell(f"{tally_words(before, 'message')} before this one.")
            return int((seen.turn or seen.turns + 1) + before)
        await asyncio.wait({answer}, timeout=LOOK_SECONDS)
    return answer.result().number
