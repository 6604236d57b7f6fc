"""Work in a thread that ends soon after its task is cancelled."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from activities.retrieval.index.damage import StoppedError

# A page of a PDF is read to its end.
STOP_SECONDS = 2.0

Result = TypeVar("Result")
Going = Callable[[], None]


async def in_thread(work: Callable[[Going], Result]) -> Result:
    """Run `work` in a thread; what it gets raises StoppedError once this is cancelled.

    The cancellation goes on when the thread has let go of what it held, or after two seconds.
    """
    stop = threading.Event()

    def going() -> None:
        if stop.is_set():
            raise StoppedError

    running = asyncio.ensure_future(asyncio.to_thread(work, going))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running], timeout=STOP_SECONDS)
        running.add_done_callback(_ignore)
        raise


def _ignore(running: "asyncio.Future[Result]") -> None:
    """Nobody waits for what a cancelled work returns, or raises."""
    with suppress(asyncio.CancelledError):
        running.exception()
