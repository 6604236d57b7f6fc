"""One session: a turn for each message, one after the other, in as many histories as it takes."""

import asyncio
from datetime import timedelta

from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from mull import telemetry
    from mull.request import explain
    from mull.sheet import Sheet
    from mull.text import encoded_size, lasting_words, terminal_safe
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
    from workflows.base import Workflow, refusal
    from workflows.calls import INVALID_REQUEST, SOMEBODY
    from workflows.children import why_it_failed

HISTORY_BYTES = 10_000_000
SUMMARY_COLUMNS = 100


@workflow.defn(failure_exception_types=[ValidationError])
class SessionWorkflow(Workflow):
    """Answer messages in their order, each by a turn that knows the earlier ones."""

    request_type = SessionRequest

    @workflow.init
    def __init__(self, request: SessionRequest) -> None:
        """Begin with the messages of the request; a message may come before `run` begins."""
        super().__init__()
        self._session = Session(request)
        self._closing = False

    @workflow.run
    async def run(self, request: SessionRequest) -> SessionResult:
        """Take turns until nobody writes any more, or a person ends the session."""
        if encoded_size(workflow.info().workflow_id) > ID_BYTES:
            said = f"workflow id over {ID_BYTES} bytes; the ids of the turns begin with it"
            raise ApplicationError(said, type=INVALID_REQUEST, non_retryable=True)
        with self._running() as span:
            try:
                await self._find_attributes()
                await self._take_turns(timedelta(seconds=request.idle_seconds))
            except asyncio.CancelledError:
                await self._close()
                raise
            await self._close()
            if self._session.ended is None:
                workflow.continue_as_new(self._session.going_on())
            return self._conclude(span)

    @workflow.update(description="Send a message, and get its answer")
    async def send(self, given: SessionMessage) -> SessionAnswer:
        """Answer a message in its turn. One that was answered before gets the same answer."""
        sent = self._session.take(given, _message_id())
        await workflow.wait_condition(lambda: sent.answer is not None or self._closing)
        if sent.answer is None:
            raise _ended()
        return sent.answer

    @send.validator
    def _takes_message(self, given: SessionMessage) -> None:
        if not isinstance(given, SessionMessage):
            raise refusal('give one JSON object, such as {"message": "..."}')
        if _message_id() in self._session.answers:
            return
        if self._people.finish is not None or self._has_ended():
            raise _ended()
        if self._full or self._closing:
            said = "the session goes on in a new history: send the message again"
            raise ApplicationError(said, type=SESSION_CONTINUES, non_retryable=True)
        reason = self._session.refuses(given, _message_id())
        if reason is not None:
            raise refusal(reason)

    async def _take_turns(self, idle: timedelta) -> None:
        """Answer what waits, until a person ends the session, it is idle, or the history is full.

        What was taken is answered in this history, since no new one knows the caller who waits.
        """
        session = self._session
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
        by = self._people.finish.author or SOMEBODY
        session.ended = "finished_by_person", f"finished by {by}"

    def _has_work(self) -> bool:
        return bool(self._session.waiting or self._people.finish or self._full)

    @property
    def _full(self) -> bool:
        """Whether this history is long enough; it takes no more messages then."""
        info, made = workflow.info(), self._session.made
        return made > 0 and (
            made >= self._session.request.turns_per_execution
            or info.is_continue_as_new_suggested()
            or info.get_current_history_size() >= HISTORY_BYTES
        )

    async def _take_turn(self) -> None:
        """Answer the first message by a child; if it fails, that is what the answer says."""
        session = self._session
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

    async def _close(self) -> None:
        """Tell those who still wait that there is no answer, and let every caller have its own."""
        self._closing = True
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _conclude(self, span: Span) -> SessionResult:
        result = self._session.record()
        self._write(telemetry.STOP_REASON.value_set(str(result.stop_reason)))
        ended = {"stop_reason": result.stop_reason, "stop_explanation": result.stop_explanation}
        workflow.upsert_memo(ended)
        span.set_attributes({"mull.stop_reason": result.stop_reason, "mull.turns": result.turns})
        return result

    def _progress(self) -> SessionResult:
        return self._session.record()

    def _sheet(self) -> Sheet:
        return sheet(self._progress())

    def _has_ended(self) -> bool:
        return self._session.ended is not None

    def _warn(self, warning: str) -> None:
        self._session.warn(warning)


def _message_id() -> str:
    """Return the id of the message under way: that of its update, which its client made."""
    info = workflow.current_update_info()
    assert info is not None  # noqa: S101 - only updates ask
    return info.id


def _ended() -> ApplicationError:
    said = "the session ended before an answer"
    return ApplicationError(said, type=SESSION_ENDED, non_retryable=True)
