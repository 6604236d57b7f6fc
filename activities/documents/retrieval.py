"""The port to documents, the activity that retrieves, and its threads.

RetrievalError                the documents can't be searched, and a retry would not help
└── TransientRetrievalError   a retry may work: Temporal retries it
StoppedError                  the caller of the work in a thread was cancelled
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from mull.connection import heartbeating
from mull.multipath.parts import Passage
from mull.request import Record

THREADS = 16
STOP_SECONDS = 2.0

Result = TypeVar("Result")
# Called from any thread with how many files were read, and how many there are.
Progress = Callable[[int, int], None]
# Long work calls this often; it raises StoppedError once the caller was cancelled.
CheckStopped = Callable[[], None]


def unwatched(done: int, total: int) -> None:
    """Ignore progress."""


class RetrievalTask(Record):
    """What to search for, in which folder of the worker, and how many passages to return."""

    prompt: str
    docs: str
    passages: int


class Retrieval(Record):
    """The best passages, best first, and what was searched.

    `files` counts the files found, and `searched` those that could be read. `left_out` lists why
    others could not, with a few names.
    """

    passages: tuple[Passage, ...]
    files: int
    searched: int
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class RetrievalError(Exception):
    """The documents can't be searched: the folder does not exist or is not allowed.

    A missing folder is a permanent error, although another worker may have it: a mistyped name is
    far more likely, and Temporal would not route the next attempt to that worker.
    """


class TransientRetrievalError(RetrievalError):
    """The machine can't search now: it is out of disk space, memory or file descriptors."""


class Retriever(Protocol):
    """Finds the passages of documents that fit a prompt."""

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find passages. Raises RetrievalError, in one of its two kinds."""
        ...


class DocumentActivities:
    """The activity that searches documents."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    @activity.defn
    async def retrieve(self, task: RetrievalTask) -> Retrieval:
        """Find the passages that fit a prompt.

        The heartbeat's details are two counts: files read, and files in all.
        Raises ApplicationError, non-retryable if a retry would not help.
        """
        async with heartbeating() as progress:
            try:
                return await self._retriever.retrieve(task, progress)
            except RetrievalError as error:
                raise ApplicationError(
                    str(error),
                    type=type(error).__name__,
                    non_retryable=not isinstance(error, TransientRetrievalError),
                ) from None


class StoppedError(BaseException):
    """The caller of the work was cancelled. An `except Exception` does not catch this."""


class Threads:
    """Sixteen threads for documents alone."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mull-documents")

    async def run(self, work: Callable[[CheckStopped], Result]) -> Result:
        """Run `work` in a thread; its `check_stopped` raises StoppedError once this is cancelled.

        The cancellation goes on when the thread has ended, or after two seconds. A thread that is
        left behind counts as busy until it ends, so `work` must not change what others use.
        """
        stop = threading.Event()

        def check_stopped() -> None:
            if stop.is_set():
                raise StoppedError

        running = self._pool.submit(work, check_stopped)
        waited = asyncio.wrap_future(running)
        # Retrieve the exception of cancelled work, so that asyncio does not log it.
        waited.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait([waited])
        except asyncio.CancelledError:
            stop.set()
            if not running.cancel():
                await asyncio.wait([waited], timeout=STOP_SECONDS)
            raise
        return waited.result()

    def close(self) -> None:
        """Begin no more work, and let each thread finish its own."""
        self._pool.shutdown(wait=False, cancel_futures=True)
