"""The threads of searches, and work in them that ends soon after its task is cancelled.

StoppedError        nobody waits for the work any more
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADS = 16
STOP_SECONDS = 2.0

Result = TypeVar("Result")
# Long work calls this often; it raises StoppedError once nobody waits for the work any more.
CheckStopped = Callable[[], None]


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
