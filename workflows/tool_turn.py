"""One turn: the model answers or calls tools, reflects midway, until it answers or a bound ends it.

What comes next is decided by `mull.turn.loop`; this is the order of the calls.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.contrib.workflow_streams import WorkflowStream
from temporalio.exceptions import ActivityError
from temporalio.exceptions import TimeoutError as CallTimedOut

with workflow.unsafe.imports_passed_through():
    from activities.tools.activity import ToolActivities, check_arguments
    from activities.tools.port import TASK_QUEUE, CallTask, Listing, ListTask, queue_of
    from activities.turn import ModelTask, PromptTask, StepTask, TurnActivities
    from mull import telemetry
    from mull.request import INVALID, TURN_SECONDS
    from mull.turn.approval import Permission
    from mull.turn.conversation import StreamedText
    from mull.turn.loop import MOST_UNUSABLE, Turn
    from mull.turn.request import ToolTurnRequest
    from mull.turn.result import Decision, Next, ToolTurnResult
    from mull.turn.sheet import sheet
    from mull.turn.tools import CallStatus, ToolCall
    from workflows import base
    from workflows.base import RunWorkflow, refusal, refuse_if
    from workflows.calls import (
        SOMEBODY,
        STARTING,
        Call,
        bounded_times,
        call_once,
        call_times,
        explain,
        failure,
        lost,
        priority,
    )

LISTING = STARTING.total_seconds(), 2
ENDED = "the turn was ended before this call"
CUT_OFF = "the turn ended while it ran; whether it took effect is not known"
NO_WORD = "no word of it came back; whether it took effect is not known"
RESET = "this run was reset from {}: what that one did may already have happened"


@workflow.defn(failure_exception_types=[ValidationError])
class ToolTurnWorkflow(RunWorkflow[Turn]):
    """Answer a message with tools, within a budget, and reflect midway."""

    request_type = ToolTurnRequest
    make_sheet = staticmethod(sheet)
    span_fields = ("next", "errors", "confidence")

    @workflow.init
    def __init__(self, request: ToolTurnRequest) -> None:
        """Begin with the message, and nothing asked yet."""
        info = workflow.info()
        super().__init__(Turn(request, started=info.start_time, run_id=info.run_id))
        if info.run_id != info.original_execution_run_id:
            self._state.calls.doubts[None] = RESET.format(info.original_execution_run_id)
        self._stream = WorkflowStream()
        limit, seconds = request.max_output_tokens, request.call_timeout_seconds
        self._times = call_times(seconds, request.max_attempts, limit, usual=TURN_SECONDS)
        self._work: dict[Next, Callable[[], Awaitable[None]]] = {
            "ask": self._ask,
            "call_tools": self._call_tools,
            "reflect": self._reflect,
            "compact": self._compact,
        }

    @workflow.run
    async def run(self, _: ToolTurnRequest) -> ToolTurnResult:
        """Do what each decision names, until one ends the turn, and return the result."""
        with self._running() as span:
            await self._find_attributes()
            await self._begin()
            while not self._state.stopped:
                await self._go_on()
            result: ToolTurnResult = self._state.result()
            self._conclude(span, result, {"answer": (result.answer or "")[:400]})
            return result

    @workflow.update(description="Allow or deny a tool call that waits for a person")
    def permit(self, given: Permission) -> None:
        """Take a person's word on a call."""
        self._state.calls.permit(given, given.author or SOMEBODY, workflow.now())

    @permit.validator
    def _takes_permission(self, given: Permission) -> None:
        if not isinstance(given, Permission):
            raise refusal('give one JSON object, such as {"call": 1, "allow": true}')
        refuse_if(self._state.calls.refuses(given))

    async def _begin(self) -> None:
        """List the tools of the worker, so that history has them, and learn of the model.

        Raises ApplicationError if the model can't be asked at all.
        """
        state, request, listing = self._state, self._state.request, Listing(tools=())
        if request.tools is None or request.tools:
            wanted = ListTask(names=request.tools, docs=request.docs)
            asked = ToolActivities.list_tools, wanted, "the tools"
            found = await self._calls.make(Call(*asked, bounded_times(*LISTING), TASK_QUEUE))
            if isinstance(found, ActivityError):
                state.warn(f"the turn has no tools: they could not be listed: {explain(found)}")
            listing = found if isinstance(found, Listing) else listing
            # A conversation goes on where a tool has gone since.
            if listing.unknown and (request.turn_count == 1 or not request.messages):
                raise failure(INVALID, f"tools: {listing.unknown}")
        task = ModelTask(model=request.model, think_level=request.think_level)
        call = Call(TurnActivities.describe_model, task, "what the model can do", self._times)
        known = await self._calls.make(call)
        if isinstance(known, ActivityError):
            raise lost(known).failure
        if known is not None:
            state.begin(listing.tools, listing.rules, known.thinking, native=known.native)
        for warning in listing.warnings:
            state.warn(warning)

    async def _go_on(self) -> None:
        """Decide what comes next, and do it."""
        if self._people.finish is not None:
            calls = self._state.calls
            for call in (*calls.with_status("waiting"), *calls.with_status("asking")):
                calls.finish(call.index, "not_run", ENDED)
            self._cut_short()
            return
        decision = self._state.decide(workflow.now())
        self._span_decision(decision)
        if decision.next is not None:
            self._step = decision.next
            self._write_progress()
            await self._work[decision.next]()

    async def _ask(self) -> None:
        """Ask the model for an answer or for calls; without any reply at all the run fails."""
        state, request = self._state, self._state.request
        task = StepTask.of(
            request,
            step=state.steps,
            guidance=state.guidance,
            messages=tuple(state.messages),
            tools=tuple(state.calls.tools.values()),
            native=state.native,
            thinking=state.thinking,
        )
        summary = f"step {state.steps} of {state.turn_budget.most('steps')}"
        call = Call(TurnActivities.ask_step, task, summary, self._times)
        reply = await self._calls.ask("generating", call)
        # Drop what was streamed of this reply; those who show it do so, too.
        written = self._stream.get_state()
        self._stream.truncate(written.base_offset + len(written.log))
        self._stream.topic("answer", type=StreamedText).publish(StreamedText(step=state.steps + 1))
        if isinstance(reply, ActivityError):
            if state.steps == 1:
                raise lost(reply).failure
            self._stop("generation_failed", explain(reply))
        elif reply is not None:
            state.replied(reply)
            # Earlier runs asked until their last step.
            if state.unusable >= MOST_UNUSABLE and not workflow.patched("unusable replies"):
                state.unusable = 1
            # Runs of 0.1.0 saw no confidence within a line, and not what the provider reported.
            line = reply.text.rstrip().rpartition("\n")[2].lower().lstrip(" \t*")
            alone = line.startswith("confidence:") and not line.endswith((")", "]", "_"))
            within = state.confidence is not None and not alone
            if (within or state.reported > request.max_context_tokens) and not workflow.patched(
                "the end of a reply"
            ):
                state.confidence, state.reported = None, 0

    async def _call_tools(self) -> None:
        """Run the calls of a reply: those of a wave side by side, one wave after the other."""
        calls = self._state.calls
        for wave in calls.waves():
            if self._people.finish is not None:
                return
            for call in wave:
                if calls.admit(call.index, workflow.now()).status == "waiting":
                    calls.judge(call.index, workflow.now())
            while any(calls.made[call.index].status in {"waiting", "asking"} for call in wave):
                await self._wait_for_permission()
                if self._people.finish is not None:
                    return
                allowed = [calls.made[call.index] for call in wave]
                running = [self._call(call) for call in allowed if call.status == "waiting"]
                await asyncio.gather(*running)

    async def _wait_for_permission(self) -> None:
        """Wait until a person has allowed or denied each call that asks; no clock runs meanwhile.

        Calls with wrong arguments end here, without a question.
        """
        calls, timeout = self._state.calls, self._state.request.review_timeout_seconds
        asking = calls.with_status("asking")
        # People ask and answer meanwhile.
        execute: Any = workflow.execute_local_activity
        if asking and workflow.patched("checked by its queue"):
            execute = partial(workflow.execute_activity, priority=priority())
        checks = [call_once(execute, check_arguments, [self._task(call, 0)]) for call in asking]
        for call, wrong in zip(asking, await asyncio.gather(*checks), strict=True):
            if wrong is not None:
                calls.finish(call.index, "invalid", wrong)
        if not calls.with_status("asking"):
            return
        self._begin_wait(timeout)
        self._state.turn_budget.begin_wait(workflow.now())
        self._step = "waiting_for_permission"
        self._write_progress(waits=True)
        await self._people.wait_for(lambda: not calls.with_status("asking"))
        self._state.turn_budget.end_wait(workflow.now())
        self._step = "call_tools"
        if self._people.finish is None:
            for call in calls.with_status("asking"):
                why = f"nobody allowed it within {timeout:g} seconds"
                said = Permission(call=call.index + 1, allow=False, why=why)
                calls.permit(said, None, workflow.now())
        self._write_progress()

    async def _call(self, call: ToolCall) -> None:
        """Run one call, in the time left. A call that may have written is not tried again."""
        calls, tool, began = self._state.calls, self._state.calls.tools[call.tool], workflow.now()
        seconds = self._state.turn_budget.tool_seconds(tool.timeout_seconds, began)
        if seconds is None:
            calls.finish(call.index, "not_run", "the turn has too little time left for it")
            return
        known: dict[str, base.Attribute] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.call.id": call.id,
            "mull.turn.step": call.step,
        }
        attempts = self._state.request.max_attempts if tool.read_only or tool.idempotent else 1
        summary = f"call {call.index + 1}: {tool.name}"
        with base.span(telemetry.SPAN_TOOL.format(tool=tool.name), "TOOL", known) as span:
            asked = ToolActivities.call_tool, self._task(call, seconds), summary
            times = bounded_times(seconds, attempts)
            made = await self._calls.make(Call(*asked, times, queue_of(tool)))
            ended: tuple[CallStatus, str] = "timeout", CUT_OFF
            if isinstance(made, ActivityError):
                calls.unclear.add(call.index)
                late = isinstance(made.cause, CallTimedOut)
                ended = ("timeout", NO_WORD) if late else ("error", explain(made))
            elif made is not None and made.status == "asking":
                span.set_attribute("mull.tool.status", made.status)
                calls.ask_again(call.index, made.content, made.tool)
                return
            elif made is not None:
                ended = made.status, made.content
            now = workflow.now()
            took = (now - began).total_seconds()
            done = calls.finish(call.index, *ended, seconds=took, at=now)
            span.set_attribute("mull.tool.status", done.status)

    def _task(self, call: ToolCall, seconds: float) -> CallTask:
        tool = self._state.calls.tools[call.tool]
        # Workers of untrusted code have no key to read a person's word.
        asked = bool(call.approval and call.approval.author) and queue_of(tool) == TASK_QUEUE
        known = {"docs": self._state.request.docs, "call": call.index + 1, "asked": asked}
        return CallTask(tool=tool, arguments=call.given, timeout_seconds=seconds, **known)

    async def _reflect(self) -> None:
        """Ask the model how the turn goes; a reflection that began in time may end late."""
        state = self._state
        seconds = state.begin_reflection(workflow.now())
        if seconds is None:
            return
        # The model is called once, and again only where its worker was lost.
        task = PromptTask.of(
            state.request,
            step=state.steps,
            prompt=state.reflection_prompt,
            timeout_seconds=seconds,
        )
        known: dict[str, base.Attribute] = {
            "mull.turn.step": state.steps,
            "mull.turn.count": state.request.turn_count,
        }
        with base.span(telemetry.SPAN_TURN_REFLECTION, "CHAIN", known) as span:
            asked = TurnActivities.reflect_midturn, task, f"a reflection after step {state.steps}"
            times = bounded_times(seconds, state.request.max_attempts)
            reply = await self._calls.ask("evaluating", Call(*asked, times, late=True))
            if isinstance(reply, ActivityError):
                state.reflected(None, workflow.now(), explain(reply))
            elif reply is None:
                state.reflected(None, workflow.now(), "it was cut short")
            else:
                state.reflected(reply.text, workflow.now(), reply.error)
            span.set_attribute("mull.turn.reflection", state.reflections[-1].outcome)

    async def _compact(self) -> None:
        """Have the older messages summarized, which the next steps read in their place."""
        state = self._state
        task = PromptTask.of(state.request, step=state.steps, prompt=state.summary_prompt)
        asked = TurnActivities.compact_messages, task, "a summary of earlier messages"
        reply = await self._calls.ask("generating", Call(*asked, self._times))
        if reply is not None:
            self._state.compacted(None if isinstance(reply, ActivityError) else reply.text)

    def _under_way(self) -> dict[str, Any]:
        return {**super()._under_way(), "at": workflow.now()}

    def _numbers(self, decision: Decision) -> dict[str, base.Attribute]:
        return {"mull.turn.step": decision.budget.steps_used, **super()._numbers(decision)}

    def _quotes(self, decision: Decision) -> bool:
        return decision.next == "reflect"

    def _updates(self) -> list[base.Update]:
        asks = bool(self._state.calls.with_status("asking"))
        return [telemetry.NEEDS_REVIEW.value_set(asks), *super()._updates()]
