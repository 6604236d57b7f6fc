"""Reaching one run by its id: what type it is of, what it was asked for, where it stands."""

from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from commands.console import fail
from commands.kinds import Answering, AnyAnswering, AnyKind, kind_named
from commands.session import Exit

LOOK = timedelta(seconds=10)

Handle: TypeAlias = WorkflowHandle[object, Any]
Seen: TypeAlias = tuple[Any, list[Any]]


class Run(NamedTuple):
    """A run: how it is reached, what its type is, and what the server says of it."""

    handle: Handle
    kind: AnyKind
    description: WorkflowExecutionDescription

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended yet."""
        return self.description.status is WorkflowExecutionStatus.RUNNING


async def reach(client: Client, run: str) -> Run:
    """Find a run by its id; one that is not of Mull's types is refused."""
    description = await client.get_workflow_handle(run).describe()
    kind = kind_named(description.workflow_type)
    if kind is None:
        fail("this id is of a run that is none of Mull's.", Exit.USAGE)
    handle: Handle = client.get_workflow_handle(run, result_type=kind.result)
    return Run(handle, kind, description)


async def reach_open(client: Client, run: str) -> Run:
    """Find a run by its id; one that has ended is refused."""
    found = await reach(client, run)
    if not found.goes_on:
        ended = status_words(found.description.status) or "closed"
        fail(f"the run has ended already ({ended}).", Exit.USAGE)
    return found


def status_words(status: WorkflowExecutionStatus | None) -> str | None:
    """Name a status as everywhere else: `cancelled`, which Temporal spells in another way."""
    if status is WorkflowExecutionStatus.CANCELED:
        return "cancelled"
    return status.name.lower() if status else None


def answering(run: Run, instead: str) -> AnyAnswering:
    """Return what is known of a run with one result; a batch is refused, with a word more."""
    if not isinstance(run.kind, Answering):
        fail(f"{run.handle.id} is a batch of runs; {instead}.", Exit.USAGE)
    return run.kind


async def look(handle: Handle, kind: AnyKind, patience: timedelta = LOOK) -> Seen | None:
    """Ask a run where it stands, open or closed; None where no worker answers.

    The decisions are asked for first, so that the progress knows all that they are about.
    """
    decisions: list[Any] = []
    try:
        if isinstance(kind, Answering):
            many = list[kind.decision]  # type: ignore[name-defined] # a type made at run time
            decisions = await handle.query("decisions", result_type=many, rpc_timeout=patience)
        progress = await handle.query("progress", result_type=kind.progress, rpc_timeout=patience)
    except (RPCError, WorkflowQueryFailedError):
        return None
    return progress, decisions


async def standing_of(handle: Handle, kind: AnyKind) -> Seen:
    """Ask a running run where it stands; a worker has to answer."""
    found = await look(handle, kind)
    if found is None:
        fail("the run goes on, and no worker answers for it just now.", Exit.UNREACHABLE)
    return found


async def request_of(client: Client, run: Run) -> Any:
    """Read from its history what a run was asked for; None where that was no request."""
    async for event in run.handle.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        with suppress(ApplicationError):
            found = await client.data_converter.decode(list(payloads), [run.kind.request])
            return found[0] if found else None
        return None
    return None
