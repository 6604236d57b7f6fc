"""The threads of retrieval, and work in them that ends soon after its task is cancelled.

StoppedError        whoever asked does not want to know any more
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from activities.retrieval.bounds import LONG_WORKS, STOP_SECONDS, THREADS

Result = TypeVar("Result")
# Called often by work that takes long: it raises StoppedError once the work is to end.
Going = Callable[[], None]


class StoppedError(Exception):
    """Whoever asked does not want to know any more."""


def nothing() -> None:
    """Do nothing, where nothing is to be done."""


class Threads:
    """At most eight threads that nothing else of the worker uses; two are kept for short work.

    They begin with the first work, and again with the first after `close`.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._long = asyncio.Semaphore(LONG_WORKS)

    async def short(self, work: Callable[[], Result]) -> Result:
        """Run in a thread what takes no longer than a query does."""
        return await asyncio.get_running_loop().run_in_executor(self._started(), work)

    async def long(
        self, work: Callable[[Going], Result], left_behind: Callable[[], None] = nothing
    ) -> Result:
        """Run `work` in a thread; what it gets raises StoppedError once this is cancelled.

        The cancellation goes on when the thread has let go of what it held, or after two seconds,
        when `left_behind` is called. Such a thread counts until it ends.
        """
        await self._long.acquire()
        stop = threading.Event()

        def going() -> None:
            if stop.is_set():
                raise StoppedError

        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._started(), work, going)
        running.add_done_callback(self._ended)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            if (await asyncio.wait([running], timeout=STOP_SECONDS))[1]:
                left_behind()
            raise

    def close(self) -> None:
        """Let go of the threads: each ends with the work that it has."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mull-documents")
        return self._pool

    def _ended(self, running: "asyncio.Future[Result]") -> None:
        """Nobody waits for what a cancelled work returns, or raises."""
        self._long.release()
        with suppress(asyncio.CancelledError):
            running.exception()
