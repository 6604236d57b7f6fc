"""The port to documents, and the activity that retrieves passages of them.

RetrievalError      the documents can't be searched, as its message says: no try like it can work
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.heartbeat import HEARTBEAT_SECONDS
from reflection.multipath.state import Passage
from reflection.request import Record
from reflection.usage import Spending

# How many files were read, and how many there are: called from any thread.
Progress = Callable[[int, int], None]


def unwatched(done: int, total: int) -> None:
    """Tell nobody."""


class RetrievalTask(Record):
    """What to look for in which folder of the worker, and how many passages to return.

    `timeout_seconds` bounds one call of the embedding model.
    """

    prompt: str
    docs: str
    passages: int
    embedding_model: str | None = None
    timeout_seconds: float = 120.0


class Retrieval(Record):
    """The passages that fit best, the best first; and what was searched.

    `files` counts what was found, and `searched` those of them that could be read. `left_out` says
    which could not and why, at most a few of them by name. `spending` is what an embedding model
    cost, None where none was asked, and `failed` counts its calls that brought no reply.
    """

    passages: tuple[Passage, ...]
    files: int
    searched: int
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    spending: Spending | None = None
    failed: int = 0
    attempts: int = 1


class RetrievalError(Exception):
    """The documents can't be searched: no such folder, or none that the operator allows."""


class Retriever(Protocol):
    """Whatever finds the passages of documents that fit a prompt."""

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find passages. Raises RetrievalError where no try like it can work."""
        ...


class DocumentActivities:
    """What a run asks of documents."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    @activity.defn
    async def retrieve(self, task: RetrievalTask) -> Retrieval:
        """Find the passages that fit a prompt. Raises a non-retryable ApplicationError.

        The heartbeat's details are two counts: the files that were read, and all files.
        """
        async with progressing() as progress:
            try:
                found = await self._retriever.retrieve(task, progress)
            except RetrievalError as error:
                raise ApplicationError(
                    str(error), type="RetrievalError", non_retryable=True
                ) from None
        return found.model_copy(update={"attempts": activity.info().attempt})


@asynccontextmanager
async def progressing(seconds: float = HEARTBEAT_SECONDS) -> AsyncIterator[Progress]:
    """Heartbeat every so many seconds, with the newest counts as details."""
    counts: tuple[int, ...] = ()

    def note(done: int, total: int) -> None:
        nonlocal counts
        counts = (done, total)

    async def beat() -> None:
        while True:
            await asyncio.sleep(seconds)
            activity.heartbeat(*counts)

    beating = asyncio.create_task(beat())
    try:
        yield note
    finally:
        beating.cancel()
