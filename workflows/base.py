"""What every workflow has: its one request, its spans, its search attributes, its details."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
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
    from reflection.run import Record, Usage
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
UNREGISTERED = (
    "search attributes are not registered on this server, so the run can't be filtered by them"
)


def require_request(inputs: Sequence[object], kind: type, field: str) -> None:
    """Reject a start without a valid request, which would fail every workflow task."""
    if len(inputs) != 1 or not isinstance(inputs[0], kind):
        raise ApplicationError(
            f'no request: start this workflow with one JSON object, such as {{"{field}": "..."}}',
            type=INVALID_REQUEST,
            non_retryable=True,
        )


@contextmanager
def span(
    name: str, kind: str, attributes: Mapping[str, Attribute], group: str | None = None
) -> Iterator[Span]:
    """Span a part of the run, and group its events in the history, where the group has a name."""
    events = workflow.create_event_group(group).scope() if group else nullcontext()
    with trace.get_tracer(telemetry.TRACER).start_as_current_span(name) as current, events:
        current.set_attributes({telemetry.KIND: kind, **attributes})
        yield current


@contextmanager
def run_span(more: Mapping[str, Attribute]) -> Iterator[Span]:
    """Span the whole run, with `more` attributes. Its id is the same on every replay."""
    info = workflow.info()
    known = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": info.workflow_type,
        "mull.workflow_id": info.workflow_id,
        "mull.run_id": info.run_id,
        **more,
    }
    with span(telemetry.SPAN_RUN.format(type=info.workflow_type), "AGENT", known) as current:
        yield current


def decision_span(numbers: Mapping[str, Attribute]) -> None:
    """Span one decision with every number it was based on."""
    with span(telemetry.SPAN_DECISION, "EVALUATOR", numbers):
        pass


def numbers(record: Record, fields: Iterable[str]) -> dict[str, Attribute]:
    """Name a span's attributes after these fields of a record, without those that are None."""
    return known({f"mull.{name}": getattr(record, name) for name in fields})


def known(values: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Leave out the attributes of a span that have no value."""
    return {name: value for name, value in values.items() if value is not None}


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

    async def find(self, warn: Callable[[str], None]) -> None:
        """Ask once which are registered, and warn if none are: a run works without them."""
        registered = await run_locally(ServerActivities.registered_search_attributes)
        self._registered = frozenset(registered or ())
        if not registered:
            workflow.logger.warning(UNREGISTERED)
            warn(UNREGISTERED)

    def write(self, *updates: Update) -> None:
        """Write those that the server knows."""
        written = [update for update in updates if update.key.name in self._registered]
        if written:
            workflow.upsert_search_attributes(written)


def spending(usage: Usage, model: str | None) -> list[Update]:
    """List the search attributes of what was spent, and on which model."""
    spent = [
        set_or_clear(telemetry.TOKENS, usage.tokens),
        set_or_clear(telemetry.COST_USD, usage.cost_usd),
    ]
    return spent if model is None else [*spent, telemetry.MODEL.value_set(model)]


def set_or_clear(key: SearchAttributeKey[Number], value: Number | None) -> Update:
    """Set a number, or clear an earlier one if the value is unknown now."""
    return key.value_unset() if value is None else key.value_set(value)
