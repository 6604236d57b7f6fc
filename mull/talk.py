"""A conversation: its messages are answered in turn, each by a run that knows those before it."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, Unpack

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

from mull.connection import TASK_QUEUE, cancellable, translated
from mull.errors import MullError, RequestError, checked
from mull.handle import Run, described, find, sized
from mull.keywords import MessageFields
from mull.loops import SESSION, TURN
from mull.news import LOOK_SECONDS
from mull.request import PERSON_PRIORITY
from mull.text import tally_words
from mull.turn.result import ToolTurnResult
from mull.turn.session import (
    SESSION_CONTINUES,
    SESSION_ENDED,
    SessionAnswer,
    SessionMessage,
    SessionRequest,
    SessionResult,
    turn_id,
)

# What a session carries besides the options of its turns.
STATE = ("messages", "summary", "turn_count", "carried")

Sent: TypeAlias = WorkflowUpdateHandle[SessionAnswer]
Answer: TypeAlias = "asyncio.Task[SessionAnswer]"
logger = logging.getLogger("mull")


def log_note(said: str, fields: Sequence[str] = ()) -> None:
    """Log what whoever sends a message may want to know."""
    logger.info("%s", ": ".join(filter(None, (said, ", ".join(fields)))))


class Talk:
    """A conversation by its `id`, begun by its first message; other processes can go on with it.

    `note` is told what a sender may want to know, such as the fields that have no effect since the
    session began with others. By default it is logged.
    """

    def __init__(
        self,
        temporal: Client,
        id: str,
        request: SessionRequest,
        need_workers: Callable[[Sequence[str]], Any],
    ) -> None:
        self.id, self.note = id, log_note
        self._temporal, self._request, self._need_workers = temporal, request, need_workers

    async def send(
        self,
        message: str,
        *,
        id: str | None = None,
        check: bool = False,
        **fields: Unpack[MessageFields],
    ) -> ToolTurnResult:
        """Send a message, and return the record of the turn that answers it.

        A message with the `id` of an earlier one is the same message, and gets the same answer.
        Raises what the client's methods raise, and MullError where the session ends meanwhile.
        """
        run = await self.start(message, id=id, **fields)
        return await run.result(check=check)

    async def start(
        self,
        message: str | SessionMessage,
        *,
        id: str | None = None,
        begun: bool = True,
        **fields: Unpack[MessageFields],
    ) -> Run[ToolTurnResult]:
        """Send a message, and return the run that answers it once that has begun.

        Unless it has to have `begun`, return before the turns of earlier messages have ended.
        """
        if isinstance(message, str):
            message = checked(SessionMessage, {"message": message, **fields})
        sized(message)
        key = id or uuid.uuid4().hex
        while True:
            with translated(self.id), cancellable():
                sent = await self._sent(message, key)
                answer = asyncio.create_task(sent.result())
                try:
                    return await self._turn(sent, answer, begun=begun)
                except WorkflowUpdateFailedError as error:
                    cause = error.cause
                    said = getattr(cause, "message", str(cause))
                    kind = cause.type if isinstance(cause, ApplicationError) else None
                    if kind == SESSION_ENDED:
                        raise MullError(said, "Send the message again to go on with it.") from error
                    if kind != SESSION_CONTINUES:
                        raise RequestError(f"refused: {said}") from error
                finally:
                    answer.cancel()
                    await asyncio.gather(answer, return_exceptions=True)
            await asyncio.sleep(LOOK_SECONDS)

    async def _sent(self, message: SessionMessage, key: str) -> Sent:
        """Send a message to an open session, or with the start of one."""
        given: dict[str, Any] = {
            "id": key,
            "wait_for_stage": WorkflowUpdateStage.ACCEPTED,
            "result_type": SessionAnswer,
        }
        while (going_on := await self._going_on()) is None:
            try:
                handle = self._temporal.get_workflow_handle(self.id)
                return await handle.start_update("send", message, **given)
            except RPCError as error:
                # A session that ended meanwhile, or whose history ends, is looked at again.
                if error.status not in {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}:
                    raise
        begun = WithStartWorkflowOperation[Any, Any](
            SESSION.workflow,
            going_on,
            id=self.id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            priority=Priority(priority_key=PERSON_PRIORITY),
        )
        return await self._temporal.start_update_with_start_workflow(
            "send", message, start_workflow_operation=begun, **given
        )

    async def _going_on(self) -> SessionRequest | None:
        """Return the request that begins the session, or goes on with one; None if it is open."""
        request = self._request
        if await described(self._temporal, self.id) is None:
            await self._need_workers(TURN.queues(request))
            return request
        found = await find(self._temporal, self.id)
        if found.loop is not SESSION:
            said = f"{self.id} is a run of its own and not a session"
            raise RequestError(said, "Choose another id.", "id")
        if found.goes_on:
            began = await found.request()
            await self._need_workers(TURN.queues(began or request))
            others = [
                name
                for name in sorted(request.model_fields_set)
                if name in STATE or getattr(began, name, None) != getattr(request, name)
            ]
            if others:
                self.note("the session keeps what it began with, so this has no effect", others)
            return None
        await self._need_workers(TURN.queues(request))
        if found.description.status is not WorkflowExecutionStatus.COMPLETED:
            self.note("the earlier session has no result; a new one begins, without its messages")
            return request
        stood = (await found.result()).going_on
        if request.messages:
            self.note("the session has messages of its own, so this has no effect", ["messages"])
        self.note(f"the session had ended, and goes on with turn {stood.turn_count:,}")
        return request.model_copy(update={name: getattr(stood, name) for name in STATE})

    async def _turn(self, sent: Sent, answer: Answer, *, begun: bool) -> Run[ToolTurnResult]:
        """Find the run that answers a message. Raises WorkflowUpdateFailedError."""
        number = await self._number(sent.id, answer)
        turn = Run[ToolTurnResult].of(self._temporal, TURN, turn_id(self.id, number))
        while begun and not answer.done():
            # The turns of earlier messages come first, and there may be another one by this name.
            with suppress(RPCError):
                if (await turn.handle.describe()).parent_run_id == sent.workflow_run_id:
                    break
            await asyncio.wait({answer}, timeout=LOOK_SECONDS)
        if answer.done():
            answer.result()
        return turn

    async def _number(self, key: str, answer: Answer) -> int:
        """Tell the number of the turn that answers a message, by its place among those waiting."""
        session = Run[SessionResult].of(self._temporal, SESSION, self.id)
        while not answer.done():
            seen = await session.glance()
            waiting = seen.waiting if seen else ()
            if seen and key in waiting:
                before = waiting.index(key)
                if before:
                    self.note(f"{tally_words(before, 'message')} before this one")
                return int((seen.turn or seen.turns + 1) + before)
            await asyncio.wait({answer}, timeout=LOOK_SECONDS)
        return answer.result().number
