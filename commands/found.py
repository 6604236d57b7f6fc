"""Runs that are found by their ids: of any loop, and of those that have not ended."""

from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus

from activities.memory import WORKFLOW as MEMORY
from activities.memory import memory_id
from commands.command import fail
from mull.handle import Run, described, find


async def reach(client: Client, run: str) -> Run[Any]:
    """Find a run by its id, or exit if its workflow type is not one of Mull's."""
    if run.startswith(memory_id("")):
        seen = await described(client, run)
        if seen is not None and seen.workflow_type == MEMORY:
            name = run.removeprefix(memory_id(""))
            fail(f"{run} is a memory. To see it:\n    mull memory show {name}")
    return await find(client, run)


async def reach_open(client: Client, run: str) -> Run[Any]:
    """Find a run by its id, or exit if it has ended."""
    found = await reach(client, run)
    if not found.goes_on:
        ended = status_words(found.description.status if found.description else None) or "closed"
        fail(f"the run has already ended ({ended}).")
    return found


def status_words(status: WorkflowExecutionStatus | None) -> str | None:
    """Return the name of a status; Temporal's CANCELED is `cancelled` here."""
    if status is WorkflowExecutionStatus.CANCELED:
        return "cancelled"
    return status.name.lower() if status else None
