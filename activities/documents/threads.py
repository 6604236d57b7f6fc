"""The threads of retrieval, and work in them that ends soon after its task is cancelled.

StoppedError        nobody waits for the work any more
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

THREADS = 8
LONG_WORKS = 6
STOP_SECONDS = 2.0

Result = TypeVar("Result")
# Long work calls this often; it raises StoppedError once nobody waits for the work any more.
CheckStopped = Callable[[], None]


class StoppedError(BaseException):
    """Nobody waits for the work any more. No `except Exception` on its way swallows it."""


class Threads:
    """At most eight threads that nothing else of the worker uses; two are kept for short work.

    They start with the first work, and again with the first after `close`.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._long = asyncio.Semaphore(LONG_WORKS)

    async def short(self, work: Callable[[], Result]) -> Result:
        """Run in a thread what takes no longer than a query does."""
        return await asyncio.get_running_loop().run_in_executor(self._started(), work)

    async def long(self, work: Callable[[CheckStopped], Result]) -> Result:
        """Run `work` in a thread; what it is given raises StoppedError once this is cancelled.

        The cancellation goes on when the thread has ended, or after two seconds. A thread that is
        left behind counts as busy until it ends, so `work` must change nothing that others use.
        """
        await self._long.acquire()
        stop = threading.Event()

        def check_stopped() -> None:
            if stop.is_set():
                raise StoppedError

        running = asyncio.get_running_loop().run_in_executor(self._started(), work, check_stopped)
        running.add_done_callback(self._ended)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([running], timeout=STOP_SECONDS)
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
        self._long.release()
        # Asked for, so that asyncio does not log what a cancelled work raised.
        with suppress(asyncio.CancelledError):
            running.exception()
