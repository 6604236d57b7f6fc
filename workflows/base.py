"""What every workflow does, whatever it runs: people, deadline, budget, spans, details, attributes.

A workflow is a subclass with a state, a `run` that is its loop, and a few hooks: follow
docs/a-new-workflow.md. Handlers and validators stand here alone and call the hooks, since the SDK
drops the validator of an update that a subclass decorates again. No constructor starts anything.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, ClassVar, Generic, Self, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span
from pydantic import ValidationError
from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate
from temporalio.contrib.workflow_streams import PollInput
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

with workflow.unsafe.imports_passed_through():
    from mull import telemetry
    from mull.connection import STREAM_POLL
    from mull.details import details
    from mull.drafts import DraftState, ReviewedState
    from mull.request import Finish, Record, Request, Review
    from mull.run import Part, RunState, Usage
    from mull.sampling.probability import CalibrationMap, Setup
    from mull.sheet import Sheet, draft_sheet
    from mull.text import fitted
    from workflows import notices
    from workflows.calls import SOMEBODY, Calls, People, failure, require, run_locally

Update = SearchAttributeUpdate[Any]
Attribute = str | float | int | bool
MakesSheet = Callable[..., Sheet]
Number = TypeVar("Number", int, float)
StateT = TypeVar("StateT", bound=RunState[Any])
ReviewedT = TypeVar("ReviewedT", bound=ReviewedState[Any])
DraftStateT = TypeVar("DraftStateT", bound=DraftState[Any, Any])

# Between two writes of the search attributes of a run that goes on.
BETWEEN_WRITES = timedelta(seconds=5)
UNREGISTERED = (
    "search attributes are not registered on this server, so the run can't be filtered by them:"
    " run `mull register` once"
)


class Workflow:
    """A run that is started by one request, shows where it stands, and can be ended by a person.

    A subclass says what its `request_type` is, how its sheet is made of its record, and which
    fields of a decision a span shows. Its state keeps warnings, and makes the record.
    """

    request_type: ClassVar[type[Request]]
    make_sheet: ClassVar[MakesSheet]
    span_fields: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *inputs: object) -> Self:
        """Reject a start without a valid request, which would fail every workflow task."""
        require(cls.request_type, inputs, f'{{"{cls.request_type.subject_field}": "..."}}')
        return super().__new__(cls)

    def __init__(self, state: Any, budget_seconds: float | None = None) -> None:
        """Begin the time budget, in seconds."""
        self._state = state
        self._people = People(budget_seconds)
        self._closing = False
        self._registered: frozenset[str] = frozenset()
        self._trace_id: str | None = None
        self.has_webhook = False

    @workflow.query(description="Where the run stands, what it decided, and what it has spent")
    def progress(self) -> dict[str, Any]:
        """Return the run's record with every field, cut to the size of an event."""
        shown: dict[str, Any] = fitted(self._progress()).model_dump(mode="json")
        return shown

    @workflow.update(description="End the run with what there is")
    def finish_now(self, by: Finish | None = None) -> None:
        """End the run with what there is, and cancel the calls in flight."""
        self._finish(by or Finish())

    def _finish(self, by: Finish) -> None:
        """Do what a person wished who ends the run."""
        self._people.finish = by

    @finish_now.validator
    def _takes_finish(self, by: Finish | None = None) -> None:
        if self._has_ended() or self._people.finish is not None:
            raise refusal("the run has already finished")
        if not (by is None or isinstance(by, Finish)):
            raise refusal('give nothing, or one JSON object, such as {"author": "..."}')

    def _progress(self) -> Any:
        return self._state.record(**({} if self._has_ended() else self._under_way()))

    def _under_way(self) -> dict[str, Any]:
        """List the fields of the record that are empty once the run has ended."""
        return {}

    def _sheet(self) -> Sheet:
        return self.make_sheet(self._progress(), self._state.request)

    def _has_ended(self) -> bool:
        ended: bool = self._state.stopped
        return ended

    async def _find_attributes(self, *run: Setup) -> tuple[CalibrationMap, ...]:
        """Ask once which search attributes are registered; warn if none are.

        Given what the `run` is like, return the worker's calibration maps for it.
        """
        found = await run_locally(telemetry.ServerActivities.registered_search_attributes, *run)
        if not isinstance(found, telemetry.Registered):
            found = telemetry.Registered(names=found or [], maps=())
        self._registered, self.has_webhook = frozenset(found.names), found.webhook
        if not self._registered:
            workflow.logger.warning(UNREGISTERED)
            self._state.warn(UNREGISTERED)
        return found.maps

    def _span_decision(self, decision: Any) -> None:
        with span(telemetry.SPAN_DECISION, "EVALUATOR", self._numbers(decision)):
            pass

    def _numbers(self, decision: Any) -> dict[str, Attribute]:
        """Name what the span of a decision shows: a reason that quotes only where content is on."""
        quotes = self._quotes(decision) and not telemetry.captures_content()
        reason = () if quotes else ("reason",)
        return numbers(decision, (*self.span_fields, "stop", "stop_reason", *reason))

    def _quotes(self, decision: Any) -> bool:
        """Tell whether the reason of a decision may quote a model, a document or a tool."""
        del decision
        return False

    def _write(self, *updates: Update) -> None:
        """Write those search attributes that the server knows."""
        written = [update for update in updates if update.key.name in self._registered]
        if written:
            workflow.upsert_search_attributes(written)

    @contextmanager
    def _running(self, **held_to: Attribute) -> Iterator[Span]:
        """Span the run, with what it is held to. The span's id is the same on every replay."""
        info = workflow.info()
        known: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": info.workflow_type,
            "mull.workflow_id": info.workflow_id,
            "mull.run_id": info.run_id,
            **{f"mull.{name}": value for name, value in held_to.items()},
        }
        with span(telemetry.SPAN_RUN.format(type=info.workflow_type), "AGENT", known) as current:
            context = current.get_span_context()
            recorded = context.is_valid and context.trace_flags.sampled
            self._trace_id = f"{context.trace_id:032x}" if recorded else None
            yield current

    async def _close(self) -> None:
        """Let every caller of an update have its answer, and take no more of them."""
        self._closing = True
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _record_end(
        self, span: Span, result: Any, memo: Mapping[str, Any], *updates: Update
    ) -> None:
        """Record how the run ended everywhere but in its result."""
        self._write(telemetry.STOP_REASON.value_set(result.stop_reason), *updates)
        ended = {"stop_reason": result.stop_reason, "stop_explanation": result.stop_explanation}
        doubt = {"doubt": result.doubt} if result.doubt else {}
        workflow.upsert_memo({**ended, **doubt, **memo})
        span.set_attribute("mull.stop_reason", result.stop_reason)

    def written_details(self) -> str:
        """Write where the run stands, for the Web UI."""
        return details(self._sheet(), self._trace_id, workflow.info().workflow_id)


class RunWorkflow(Workflow, Generic[StateT]):
    """A run with decisions and a budget."""

    _state: StateT

    def __init__(self, state: StateT) -> None:
        """Begin with nothing asked yet."""
        super().__init__(state, state.request.budget_seconds)
        self._calls = Calls(self._people, state)
        self._step: Any = "starting"
        self._written = workflow.now()
        self._waits = False

    @workflow.query(description="Each decision so far, with every number it was based on")
    def decisions(self) -> list[Any]:
        """List the decisions so far."""
        return self._state.decisions

    @workflow.update(description="Accept, revise, replace or score a result that waits for you")
    def review(self, given: Review) -> None:
        """Take a person's review of the result."""
        self._people.review(given)

    @review.validator
    def _takes_review(self, given: Review) -> None:
        if not self._people.waiting or self._people.finish is not None:
            raise refusal("the run is not waiting for a review")
        if not isinstance(given, Review):
            raise refusal('give one JSON object, such as {"accept": true}')
        left = self._people.seconds_left()
        if given.revise is not None and left is not None and left <= 0:
            raise refusal("no further revision is possible: the time is up")
        refuse_if(self._state.refused(given))

    @contextmanager
    def _running(self, **held_to: Attribute) -> Iterator[Span]:
        """Span the run; if it fails or is cancelled, write the search attributes as they stand."""
        with super()._running(**held_to) as span:
            try:
                yield span
            except (Exception, asyncio.CancelledError):
                if self._state.decisions:
                    self._write(*self._updates(), telemetry.NEEDS_REVIEW.value_set(False))
                raise

    def _under_way(self) -> dict[str, Any]:
        flight, until = self._calls.in_flight, self._people.until
        return {"step": self._step, "in_flight": flight, "review_until": until}

    def _updates(self) -> list[Update]:
        """List the search attributes of where the run stands."""
        return spending(self._state.used, self._state.model)

    def _has_ended(self) -> bool:
        return self._state.stopped and not self._people.waiting

    def _has_room(self, part: Part | None) -> bool:
        """Tell whether the next call may be made; end the run where it may not."""
        if self._people.over:
            self._cut_short()
            return False
        full = None if part is None else self._state.no_room(part)
        if full is not None:
            self._stop("budget", full)
        return full is None

    def _cut_short(self) -> None:
        """End the run because a person said so, or the time is up."""
        self._stop(*self._people.why_over(self._state.request.budget_seconds))

    def _begin_wait(self, seconds: float | None) -> None:
        """Begin to wait for a person, and tell the webhook so, where there is one."""
        self._people.begin_wait(seconds)
        if self.has_webhook:
            notices.tell("waiting", stop_reason=self._state.decisions[-1].stop_reason)

    def _stop(self, reason: str, said: str, author: str | None = None) -> None:
        self._decided(self._state.stop(reason, said, workflow.now(), author))

    def _decided(self, decision: Any) -> None:
        """Span a decision with its numbers, and write the search attributes if the run goes on."""
        self._span_decision(decision)
        if not decision.stop:
            self._write_progress(waits=decision.waits_for_review)

    def _write_progress(self, *, waits: bool = False) -> None:
        """Write the search attributes of a run that goes on, which costs the server a task's time.

        The beginning and the end of a wait for a person are written at once.
        """
        now = workflow.now()
        if waits or self._waits or now - self._written >= BETWEEN_WRITES:
            self._write(*self._updates())
            self._written, self._waits = now, waits

    def _conclude(self, span: Span, result: Any, memo: Mapping[str, Any], *updates: Update) -> None:
        """Record the outcome everywhere but in the result."""
        self._record_end(span, result, memo, *self._updates(), *updates)
        span.set_attributes(self._numbers(self._state.decisions[-1]))
        for name, metric in telemetry.MEASURES.items():
            if memo.get(name) is not None:
                metric.record(workflow.metric_meter(), memo[name])


class ReviewedWorkflow(RunWorkflow[ReviewedT], Generic[ReviewedT]):
    """A run whose result a person may accept or replace, or more if it overrides `_follow`."""

    async def _wait_for_review(self) -> None:
        """Wait for a person, and do what they say."""
        timeout = self._state.request.review_timeout_seconds
        self._begin_wait(timeout)
        self._step = "waiting_for_review"
        if (said := await self._people.wait()) is None:
            self._settle("review_timeout", f"nobody reviewed it within {timeout:g} seconds")
        elif isinstance(said, Finish):
            self._settle(*self._people.why_over(None))
        else:
            await self._follow(said, said.author or SOMEBODY)

    async def _follow(self, said: Review, who: str) -> None:
        """Do what a person said, which the state did not refuse."""
        if said.replace is not None:
            self._state.replace(said.replace, who, workflow.now())
            self._settle("replaced_by_person", f"replaced by {who}", who)
        else:
            self._settle("accepted_by_person", f"accepted by {who}", who)

    def _settle(self, reason: str, said: str, author: str | None = None) -> None:
        self._decided(self._state.settle(reason, said, workflow.now(), author))


class DraftWorkflow(ReviewedWorkflow[DraftStateT]):
    """A run that revises drafts, with what is shown of it unless it says otherwise."""

    make_sheet: ClassVar[MakesSheet] = staticmethod(draft_sheet)

    def _numbers(self, decision: Any) -> dict[str, Attribute]:
        return {**super()._numbers(decision), "mull.needs_review": decision.waits_for_review}

    def _updates(self) -> list[Update]:
        waits = self._state.decisions[-1].waits_for_review
        return [telemetry.NEEDS_REVIEW.value_set(waits), *super()._updates()]


@contextmanager
def span(
    name: str, kind: str, attributes: Mapping[str, Attribute], group: str | None = None
) -> Iterator[Span]:
    """Span a part of the run, and group its events in the history, where the group has a name."""
    events = workflow.create_event_group(group).scope() if group else nullcontext()
    tracer, known = trace.get_tracer(telemetry.TRACER), {telemetry.KIND: kind, **attributes}
    with tracer.start_as_current_span(name, attributes=known) as current, events:
        yield current


def numbers(record: Record, fields: Iterable[str]) -> dict[str, Attribute]:
    """Name a span's attributes after these fields of a record, without those that are None."""
    return known({f"mull.{name}": getattr(record, name) for name in fields})


def known(values: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Leave out the attributes of a span that have no value."""
    return {name: value for name, value in values.items() if value is not None}


def spending(usage: Usage, model: str | None) -> list[Update]:
    """List the search attributes of what was spent, and on which model."""
    spent = [set_or_clear(telemetry.TOKENS, usage.tokens)]
    spent += [set_or_clear(telemetry.COST_USD, usage.cost_usd)]
    if model is not None:
        spent += [telemetry.MODEL.value_set(model[: telemetry.KEYWORD_CHARACTERS])]
    return spent


def set_or_clear(key: SearchAttributeKey[Number], value: Number | None) -> Update:
    """Set a number, or clear an earlier one if the value is unknown now."""
    return key.value_unset() if value is None else key.value_set(value)


def _count(stop_reason: str) -> None:
    telemetry.RUNS.record(workflow.metric_meter(), stop_reason=stop_reason)


def refusal(reason: str) -> ApplicationError:
    """Make the refusal of an update, which changes nothing."""
    return failure("Refused", reason)


def refuse_if(reason: str | None) -> None:
    """Refuse an update, if there is a reason."""
    if reason is not None:
        raise refusal(reason)


class Inbound(Interceptor):
    """Sees a run's start, updates and queries; if `strict`, refuses updates without any input."""

    def __init__(self, *, strict: bool = False) -> None:
        self._part = _StrictInbound if strict else _Inbound

    def workflow_interceptor_class(
        self, _: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the part that sees what comes in to one run."""
        return self._part


class _Inbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, call: ExecuteWorkflowInput) -> Any:
        """Count the run by how it ends, unless its task is retried; send a notice of a failure."""
        try:
            result = await super().execute_workflow(call)
        except (FailureError, ValidationError, asyncio.CancelledError) as error:
            cancelled = is_cancelled_exception(error)
            _count("cancelled" if cancelled else "failed")
            if not cancelled and getattr(workflow.instance(), "has_webhook", False):
                await notices.tell_failure(error)
            raise
        _count(getattr(result, "stop_reason", "completed"))
        return result

    def handle_update_validator(self, call: HandleUpdateInput) -> None:
        """Hand the validator one input, whatever was given: None or all of them together.

        So an update with no or several inputs is refused in words, as one wrong input is. The SDK's
        poll of a stream has no validator: a wrong input would fail every workflow task.
        """
        if len(call.args) != 1:
            call.args = [call.args or None]
        if call.update == STREAM_POLL and not isinstance(call.args[0], PollInput):
            raise refusal('give one JSON object, such as {"from_offset": 0}')
        super().handle_update_validator(call)

    async def handle_signal(self, call: HandleSignalInput) -> None:
        """Drop a malformed signal, which would fail every workflow task from now on."""
        try:
            await super().handle_signal(call)
        except Exception as error:
            workflow.logger.warning("a malformed signal was dropped: %r", error)

    async def handle_query(self, call: HandleQueryInput) -> object:
        """Write the current details when they are asked for: keeping them would cost every run."""
        answer: object = await super().handle_query(call)
        run: object = workflow.instance()
        # A run of `DoctorWorkflow` has no details.
        if isinstance(answer, WorkflowMetadata) and isinstance(run, Workflow):
            answer.current_details = run.written_details()
        return answer


class _StrictInbound(_Inbound):
    def handle_update_validator(self, call: HandleUpdateInput) -> None:
        """Refuse an update without any input, since nothing in it is encrypted."""
        if not call.args:
            raise refusal("an update without an encrypted input: give one, such as {}")
        super().handle_update_validator(call)
