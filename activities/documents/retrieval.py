"""The ports to documents and embedding models, the activity that retrieves, and its threads.

RetrievalError                   the documents can't be searched, and a retry would not help
└── TransientRetrievalError   a retry may work: Temporal retries it
WordsAloneError      the embedding model is busy; holds the keyword search's result
StoppedError         nobody waits for the work in a thread any more
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic
from typing import NamedTuple, Protocol, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.language_model.port import TransientModelError
from connection import heartbeating
from reflection.multipath.state import Passage
from reflection.request import Record
from reflection.run import Spending, total

# How many texts one embedding call has: every provider accepts this many.
EMBEDDING_BATCH = 64

THREADS = 16
STOP_SECONDS = 2.0

Result = TypeVar("Result")
# Called from any thread with how many files were read, and how many there are.
Progress = Callable[[int, int], None]
# Long work calls this often; it raises StoppedError once nobody waits for the work any more.
CheckStopped = Callable[[], None]


def unwatched(done: int, total: int) -> None:
    """Ignore progress."""


class RetrievalTask(Record):
    """What to search for, in which folder of the worker, and how many passages to return.

    `timeout_seconds` bounds one call of the embedding model.
    """

    prompt: str
    docs: str
    passages: int
    embedding_model: str | None = None
    timeout_seconds: float = 120.0


class Retrieval(Record):
    """The best passages, best first, and what was searched.

    `files` counts the files found, and `searched` those that could be read. `left_out` lists why
    others could not, with a few names. `spending` is the cost of the embedding model, None if it
    was not called, and `failed` counts its calls without a reply.
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
    """The documents can't be searched: the folder does not exist or is not allowed.

    A missing folder is a permanent error, although another worker may have it: a mistyped name is
    far more likely, and nothing routes the next attempt to that worker.
    """


class TransientRetrievalError(RetrievalError):
    """The machine can't search now: it is out of disk space, memory or file descriptors."""


class WordsAloneError(Exception):
    """The embedding model failed with a transient `cause`; `found` is by words alone."""

    def __init__(self, cause: TransientModelError, found: "Retrieval") -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.found = found


class Retriever(Protocol):
    """Finds the passages of documents that fit a prompt."""

    async def retrieve(self, task: RetrievalTask, progress: Progress = unwatched) -> Retrieval:
        """Find passages. Raises RetrievalError, in one of its two kinds, and WordsAloneError."""
        ...


class Embedded(NamedTuple):
    """One vector for each text, all of one length, with their cost and model."""

    vectors: list[list[float]]
    spending: Spending
    provider: str | None = None


class Embedder(Protocol):
    """Turns texts into vectors that are close if the texts have similar meanings."""

    async def embed(self, texts: Sequence[str], model: str, timeout_seconds: float) -> Embedded:
        """Embed texts; the seconds bound each call. Raises ModelError, and nothing else."""
        ...


class DocumentActivities:
    """The activity that searches documents."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    @activity.defn
    async def retrieve(self, task: RetrievalTask) -> Retrieval:
        """Find the passages that fit a prompt.

        While an embedding model is busy the search is retried; the last attempt returns the keyword
        search's result. A 429 uses up no attempt while there is time for another search in this
        one. The heartbeat's details are two counts: files read, and files in all.
        Raises ApplicationError, non-retryable if a retry would not help.
        """
        info = activity.info()
        async with heartbeating() as progress:
            try:
                found = await self._unlimited(task, progress)
            except WordsAloneError as error:
                # Without a known maximum, treat this attempt as the last.
                most = info.retry_policy.maximum_attempts if info.retry_policy else 0
                if info.attempt < most:
                    wait = error.cause.retry_after
                    raise ApplicationError(
                        str(error),
                        type=error.cause.kind,
                        next_retry_delay=None if wait is None else timedelta(seconds=wait),
                    ) from None
                found = error.found
            except RetrievalError as error:
                raise ApplicationError(
                    str(error),
                    type=type(error).__name__,
                    non_retryable=not isinstance(error, TransientRetrievalError),
                ) from None
        return found.model_copy(update={"attempts": info.attempt})

    async def _unlimited(self, task: RetrievalTask, progress: Progress) -> Retrieval:
        """Search again after each 429, in the first half of the attempt. Raises as a search does.

        What is embedded is kept, so that the next search goes on from there.
        """
        limit, started = activity.info().start_to_close_timeout, monotonic()
        limited = list[Retrieval]()
        while True:
            try:
                found = await self._retriever.retrieve(task, progress)
            except WordsAloneError as error:
                cause, found = error.cause, _summed([*limited, error.found])
                wait = 1.0 if cause.retry_after is None else cause.retry_after
                ends = monotonic() + wait - started
                if cause.status != 429 or limit is None or ends > limit.total_seconds() / 2:
                    raise WordsAloneError(cause, found) from None
                limited.append(error.found)
                await asyncio.sleep(wait)
            else:
                return _summed([*limited, found])


def _summed(searches: Sequence[Retrieval]) -> Retrieval:
    """Return the last of several searches, with what all of them cost."""
    paid = [search.spending for search in searches if search.spending is not None]
    cost = {"spending": total(paid) if paid else None, "failed": sum(s.failed for s in searches)}
    return searches[-1].model_copy(update=cost)


class StoppedError(BaseException):
    """Nobody waits for the work any more. No `except Exception` on its way swallows it."""


class Threads:
    """Sixteen threads that nothing else of the worker uses."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mull-documents")

    async def run(self, work: Callable[[CheckStopped], Result]) -> Result:
        """Run `work` in a thread; what it is given raises StoppedError once this is cancelled.

        The cancellation goes on when the thread has ended, or after two seconds. A thread that is
        left behind counts as busy until it ends, so `work` must change nothing that others use.
        """
        stop = threading.Event()

        def check_stopped() -> None:
            if stop.is_set():
                raise StoppedError

        running = self._pool.submit(work, check_stopped)
        waited = asyncio.wrap_future(running)
        # Asked for, so that asyncio does not log what a cancelled work raised.
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
        """Begin no more work, and let each thread end with what it has."""
        self._pool.shutdown(wait=False, cancel_futures=True)
