"""Reading the results of a batch's runs, a bounded number at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from reflection.batch.request import BatchRequest, Planned
from reflection.batch.result import Run, RunResult
from reflection.batch.state import Batch
from reflection.run import Record

AT_ONCE = 16

Value = TypeVar("Value")
Given = TypeVar("Given")


class Read(NamedTuple):
    """A run, its own result, None where it has none, and the seconds that it took."""

    run: Run
    result: Any
    seconds: float | None = None


async def read_runs(client: Client, runs: Sequence[Run], kind: type[Record]) -> list[Read]:
    """Read the results of these runs, each of this kind, in their order."""
    return await _side_by_side(runs, lambda run: _read(client, run, kind))


async def carried_runs(client: Client, request: BatchRequest, identity: str) -> tuple[Run, ...]:
    """Find the runs that an earlier batch of this id has completed, where there was one."""
    batch = Batch(request, identity)
    try:
        await client.get_workflow_handle(identity).describe()
    except RPCError as error:
        _pass_unless_missing(error)
        return ()
    found = await _side_by_side(batch.waiting, lambda planned: _completed(client, batch, planned))
    return tuple(each for each in found if each is not None)


def _pass_unless_missing(error: RPCError) -> None:
    """Raise again what is no answer: a run that was made must not count as one that was not."""
    if error.status is not RPCStatusCode.NOT_FOUND:
        raise error


async def _read(client: Client, run: Run, kind: type[Record]) -> Read:
    if run.status != "completed":
        return Read(run, None)
    handle = client.get_workflow_handle(run.workflow_id, result_type=kind)
    try:
        result, described = await handle.result(), await handle.describe()
    except RPCError as error:
        _pass_unless_missing(error)
        return Read(run.model_copy(update={"error": "its result is not kept any more"}), None)
    closed = described.close_time
    seconds = (closed - described.start_time).total_seconds() if closed else None
    return Read(run, result, seconds)


async def _completed(client: Client, batch: Batch, planned: Planned) -> Run | None:
    handle = client.get_workflow_handle(batch.id_of(planned), result_type=RunResult)
    try:
        if (await handle.describe()).status is not WorkflowExecutionStatus.COMPLETED:
            return None
        return batch.run(planned, "completed", (await handle.result()).usage)
    except WorkflowFailureError:
        return None
    except RPCError as error:
        _pass_unless_missing(error)
        return None


async def _side_by_side(
    many: Sequence[Given], one: Callable[[Given], Awaitable[Value]]
) -> list[Value]:
    places = asyncio.Semaphore(AT_ONCE)

    async def bounded(given: Given) -> Value:
        async with places:
            return await one(given)

    return await asyncio.gather(*map(bounded, many))
