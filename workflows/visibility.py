"""What every run records alike: its span, its search attributes, its trace."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span
from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributeUpdate
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    import telemetry
    from activities.server import ServerActivities
    from reflection.run import Usage
    from workflows.timeouts import LOCAL

# Search attributes are keywords, numbers and booleans, and an update is typed by its value.
Update = (
    SearchAttributeUpdate[str]
    | SearchAttributeUpdate[int]
    | SearchAttributeUpdate[float]
    | SearchAttributeUpdate[bool]
)

Number = TypeVar("Number", int, float)

UNREGISTERED = (
    "search attributes are not registered on this server, so the run is not found by them"
)


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


def trace_id() -> str | None:
    """Name the trace that the run's spans are in; None where nobody records them."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid and context.trace_flags.sampled else None


class SearchAttributes:
    """The search attributes of a run: only those that the server knows are written."""

    def __init__(self) -> None:
        self._registered: frozenset[str] = frozenset()

    async def find(self) -> str | None:
        """Ask once which there are, and return a warning where there are none.

        A run does without where nobody says.
        """
        registered: Sequence[str] = ()
        try:
            registered = await workflow.execute_local_activity_method(
                ServerActivities.registered_search_attributes,
                start_to_close_timeout=LOCAL,
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("search attributes can't be asked for: %s", error)
        self._registered = frozenset(registered)
        if registered:
            return None
        workflow.logger.warning(UNREGISTERED)
        return UNREGISTERED

    def write(self, *updates: Update) -> None:
        """Write those that the server knows."""
        known = [each for each in updates if each.key.name in self._registered]
        if known:
            workflow.upsert_search_attributes(known)


def spending(usage: Usage) -> list[Update]:
    """List the search attributes of what was spent."""
    return [
        set_or_clear(telemetry.TOKENS, usage.tokens),
        set_or_clear(telemetry.COST_USD, usage.cost_usd),
    ]


def set_or_clear(key: SearchAttributeKey[Number], value: Number | None) -> Update:
    """Write a number; unknown is none, and an earlier one that is not true any more must go."""
    return key.value_unset() if value is None else key.value_set(value)
