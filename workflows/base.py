"""What every workflow has: its one request, its records, its deadline, the wait for a person."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span
from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    import telemetry
    from activities.server import ServerActivities
    from reflection.details import details
    from reflection.run import Finish, Review, Usage
    from reflection.sheet import Sheet
    from workflows.calls import run_locally

# Search attributes are keywords, numbers and booleans, and an update is typed by its value.
Update = (
    SearchAttributeUpdate[str]
    | SearchAttributeUpdate[int]
    | SearchAttributeUpdate[float]
    | SearchAttributeUpdate[bool]
)
Attribute = str | float | int | bool
Number = TypeVar("Number", int, float)

INVALID_REQUEST = "InvalidRequest"
SOMEBODY = "a person"
UNREGISTERED = (
    "search attributes are not registered on this server, so the run is not found by them"
)


def require_request(inputs: Sequence[object], kind: type, field: str) -> None:
    """Refuse a start without the one request, which would else fail each workflow task."""
    if len(inputs) != 1 or not isinstance(inputs[0], kind):
        raise ApplicationError(
            f'no request: start this workflow with one JSON object, such as {{"{field}": "..."}}',
            type=INVALID_REQUEST,
            non_retryable=True,
        )


def refusal(reason: str) -> ApplicationError:
    """Make the refusal of an update, which changes nothing."""
    return ApplicationError(reason, type="Refused", non_retryable=True)


def refuse_finish(by: object, *, finished: bool) -> None:
    """Raise ApplicationError, which refuses the wish to end a run, unless it can be done."""
    if finished:
        raise refusal("the run is finished already")
    if not (by is None or isinstance(by, Finish)):
        raise refusal('give nothing, or one JSON object, such as {"author": "..."}')


def seconds_left(budget_seconds: float | None, waited: timedelta) -> float | None:
    """Return the seconds until the deadline, None without one; waiting for people is free."""
    if budget_seconds is None:
        return None
    used = workflow.now() - workflow.info().start_time - waited
    return budget_seconds - used.total_seconds()


@contextmanager
def run_span(more: Mapping[str, str | int | float]) -> Iterator[Span]:
    """Span the whole run, with `more` attributes. Its id is the same on every replay."""
    name = telemetry.SPAN_RUN.format(type=workflow.info().workflow_type)
    with trace.get_tracer(telemetry.TRACER).start_as_current_span(name) as span:
        span.set_attributes(
            {
                telemetry.KIND: "AGENT",
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": workflow.info().workflow_type,
                "mull.workflow_id": workflow.info().workflow_id,
                "mull.run_id": workflow.info().run_id,
                **more,
            }
        )
        yield span


def decision_span(numbers: Mapping[str, Attribute]) -> None:
    """Span one decision with every number it was based on."""
    with trace.get_tracer(telemetry.TRACER).start_as_current_span(telemetry.SPAN_DECISION) as span:
        span.set_attributes({telemetry.KIND: "EVALUATOR", **numbers})


def known(numbers: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Leave out the attributes of a span that have no value."""
    return {name: value for name, value in numbers.items() if value is not None}


def show(sheet: Sheet) -> None:
    """Bring the current details of the Web UI up to date."""
    context = trace.get_current_span().get_span_context()
    recorded = context.is_valid and context.trace_flags.sampled
    trace_id = f"{context.trace_id:032x}" if recorded else None
    workflow.set_current_details(details(sheet, trace_id, workflow.info().workflow_id))


class SearchAttributes:
    """The search attributes of a run: only those that the server knows are written."""

    def __init__(self) -> None:
        self._registered: frozenset[str] = frozenset()

    async def find(self) -> str | None:
        """Ask once which there are, and return a warning where there are none.

        A run does without where nobody says.
        """
        registered = await run_locally(ServerActivities.registered_search_attributes)
        self._registered = frozenset(registered or ())
        if registered:
            return None
        workflow.logger.warning(UNREGISTERED)
        return UNREGISTERED

    def write(self, *updates: Update) -> None:
        """Write those that the server knows."""
        written = [update for update in updates if update.key.name in self._registered]
        if written:
            workflow.upsert_search_attributes(written)


def spending(usage: Usage) -> list[Update]:
    """List the search attributes of what was spent."""
    return [
        set_or_clear(telemetry.TOKENS, usage.tokens),
        set_or_clear(telemetry.COST_USD, usage.cost_usd),
    ]


def set_or_clear(key: SearchAttributeKey[Number], value: Number | None) -> Update:
    """Write a number; unknown is none, and an earlier one that is not true any more must go."""
    return key.value_unset() if value is None else key.value_set(value)


class Reviewing:
    """The wait for a person's review; `finished` tells that the run is to end instead."""

    def __init__(self, finished: Callable[[], bool]) -> None:
        self._finished = finished
        self._given: Review | None = None
        self._since: datetime | None = None
        self._waited = timedelta()
        self.until: datetime | None = None

    @property
    def waiting(self) -> bool:
        """True while a review is waited for, and none has come."""
        return self._since is not None and self._given is None

    def waited(self) -> timedelta:
        """Tell how long the run has waited for people, in all."""
        now = timedelta() if self._since is None else workflow.now() - self._since
        return self._waited + now

    def refuse(self, given: object) -> None:
        """Raise ApplicationError, which refuses an update, unless a review is waited for."""
        if not self.waiting or self._finished():
            raise refusal("the run does not wait for a review")
        if not isinstance(given, Review):
            raise refusal('give one JSON object, such as {"accept": true}')

    def take(self, given: Review) -> None:
        """Take a person's review."""
        self._given = given

    def begin(self, seconds: float | None) -> None:
        """Begin to wait: from now on a review is taken, for so many seconds, or for ever."""
        self._since, self._given = workflow.now(), None
        self.until = None if seconds is None else self._since + timedelta(seconds=seconds)

    async def wait(self) -> Review | None:
        """Wait for a review; None where the run is to end instead. Raises TimeoutError."""
        left = None if self.until is None else self.until - workflow.now()
        try:
            await workflow.wait_condition(
                lambda: self._given is not None or self._finished(), timeout=left
            )
        finally:
            self._waited, self._since, self.until = self.waited(), None, None
        given, self._given = self._given, None
        return given
