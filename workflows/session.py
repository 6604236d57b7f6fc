"""One session: a turn for each message, one after the other, in as many histories as it takes."""

import asyncio
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from mull.request import explain
    from mull.text import lasting_words, terminal_safe
    from mull.turn.result import ToolTurnResult
    from mull.turn.session import (
        ID_BYTES,
        SESSION_CONTINUES,
        SESSION_ENDED,
        Session,
        SessionAnswer,
        SessionMessage,
        SessionRequest,
        SessionResult,
        sheet,
        turn_id,
    )
    from workflows import base
    from workflows.base import Workflow, refusal, refuse_if
    from workflows.calls import failure
    from workflows.children import check_id, why_it_failed

HISTORY_BYTES = 10_000_000
SUMMARY_COLUMNS = 100


@workflow.defn(failure_exception_types=[ValidationError])
class SessionWorkflow(Workflow):
    """Answer messages in their order, each by a turn that knows the earlier ones."""

    request_type = SessionRequest
    make_sheet = staticmethod(sheet)
    _state: Session

    @workflow.init
    def __init__(self, request: SessionRequest) -> None:
        """Begin with the messages of the request; a message may come before `run` begins."""
        super().__init__(Session(request))

    @workflow.run
    async def run(self, request: SessionRequest) -> SessionResult:
        """Take turns until no message comes for a while, or a person ends the session."""
        check_id(ID_BYTES, "turns")
        with self._running() as span:
            try:
                await self._find_attributes()
                await self._take_turns(timedelta(seconds=request.idle_seconds))
            except asyncio.CancelledError:
                await self._close()
                raise
            await self._close()
            if self._state.ended is None:
                workflow.continue_as_new(self._state.going_on())
            result: SessionResult = self._state.record()
            self._record_end(span, result, {})
            span.set_attribute("mull.turns", result.turns)
            return result

    @workflow.update(description="Send a message, and get its answer")
    async def send(self, given: SessionMessage) -> SessionAnswer:
        """Answer a message in its turn. One that was answered before gets the same answer."""
        sent = self._state.take(given, _message_id())
        await workflow.wait_condition(lambda: sent.answer is not None or self._closing)
        if sent.answer is None:
            raise _ended()
        return sent.answer

    @send.validator
    def _takes_message(self, given: SessionMessage) -> None:
        if not isinstance(given, SessionMessage):
            raise refusal('give one JSON object, such as {"message": "..."}')
        if _message_id() in self._state.answers:
            return
        if self._people.finish is not None or self._has_ended():
            raise _ended()
        if self._full or self._closing:
            said = "the session goes on in a new history: send the message again"
            raise failure(SESSION_CONTINUES, said)
        refuse_if(self._state.refuses(given, _message_id()))

    async def _take_turns(self, idle: timedelta) -> None:
        """Answer what waits, until a person ends the session, it is idle, or the history is full.

        Messages that were taken are answered in this history: a new one does not know who waits.
        """
        session = self._state
        while self._people.finish is None:
            if session.waiting:
                await self._take_turn()
            elif self._full:
                return
            else:
                try:
                    await workflow.wait_condition(self._has_work, timeout=idle)
                except TimeoutError:
                    if not self._has_work():
                        lasted = lasting_words(int(idle.total_seconds()))
                        session.ended = "idle", f"no message for {lasted}"
                        return
        session.ended = "finished_by_person", self._people.why_over(None)[1]

    def _has_work(self) -> bool:
        return bool(self._state.waiting or self._people.finish or self._full)

    @property
    def _full(self) -> bool:
        """Whether this history is long enough; it takes no more messages then."""
        info, made = workflow.info(), self._state.made
        return made > 0 and (
            made >= self._state.request.turns_per_execution
            or info.is_continue_as_new_suggested()
            or info.get_current_history_size() >= HISTORY_BYTES
        )

    async def _take_turn(self) -> None:
        """Answer the first message by a child; if it fails, that is what the answer says."""
        session = self._state
        try:
            request = session.begin()
            result: ToolTurnResult = await workflow.execute_child_workflow(
                "ToolTurnWorkflow",
                request,
                id=turn_id(workflow.info().workflow_id, request.turn_count),
                task_timeout=request.task_timeout(),
                result_type=ToolTurnResult,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                static_summary=terminal_safe(request.message, SUMMARY_COLUMNS),
            )
        except (Exception, asyncio.CancelledError) as error:
            why = explain(error) if isinstance(error, ValidationError) else why_it_failed(error)
            session.lost("the turn was cancelled" if is_cancelled_exception(error) else why)
        else:
            session.answered(result)
        self._write(*base.spending(session.usage, session.model))
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError

    def _under_way(self) -> dict[str, Any]:
        taken = self._state.turn is not None
        return {"step": "turn" if taken else "", "in_flight": int(taken)}


def _message_id() -> str:
    """Return the id of the message under way: that of its update, which its client made."""
    info = workflow.current_update_info()
    assert info is not None  # noqa: S101 - only updates ask
    return info.id


def _ended() -> ApplicationError:
    return failure(SESSION_ENDED, "the session ended before an answer")
