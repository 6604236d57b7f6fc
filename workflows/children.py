"""Child workflows that a run waits for: begun in order, counted, and cancelled together."""

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from mull.request import INVALID
    from mull.text import encoded_size
    from workflows.calls import failure


def check_id(most_bytes: int, children: str) -> None:
    """Fail a run whose id is too long to begin the ids of its `children`."""
    if encoded_size(workflow.info().workflow_id) > most_bytes:
        said = f"workflow id over {most_bytes} bytes; the ids of the {children} begin with it"
        raise failure(INVALID, said)


class Children:
    """The children in flight, each by what was planned, and the `steps` taken in this history.

    The next history would not hear how a child ended, so it begins once none is in flight.
    """

    def __init__(self) -> None:
        """Begin with none in flight."""
        self.in_flight: dict[Hashable, asyncio.Task[None]] = {}
        self.steps = 0

    def begin(self, planned: Hashable, child: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start to make a child, which counts as a step, and is in flight until it has ended."""
        self.steps += 1
        self.in_flight[planned] = made = asyncio.create_task(child)
        made.add_done_callback(lambda _: self.in_flight.pop(planned))
        return made

    def is_full(self, most: int) -> bool:
        """Tell whether the history is long enough: the others are begun in a new one."""
        return self.steps >= most or workflow.info().is_continue_as_new_suggested()

    async def cancel(self) -> None:
        """Cancel those in flight, and wait until each has ended."""
        left = [*self.in_flight.values()]
        for child in left:
            child.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def why_it_failed(error: BaseException) -> str:
    """Say in one line why a child workflow has no result."""
    if isinstance(error, WorkflowAlreadyStartedError):
        return "a workflow with this id has already run"
    cause = error.cause if isinstance(error, ChildWorkflowError) else error
    if isinstance(cause, ApplicationError):
        return f"{cause.type}: {cause.message}"
    return f"{type(cause).__name__}: {cause}"
