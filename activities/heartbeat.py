"""Telling Temporal that an activity is under way; it answers with a cancellation, if any."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from temporalio import activity

HEARTBEAT_SECONDS = 2.0
# Code that nobody waits for any more is ended within a second of the cancellation.
CODE_HEARTBEAT_SECONDS = 0.3


@asynccontextmanager
async def heartbeating(seconds: float = HEARTBEAT_SECONDS) -> AsyncIterator[Callable[..., None]]:
    """Heartbeat every so many seconds for as long as the block takes.

    The block gets what it may tell the newest details with, from any thread.
    """
    newest: tuple[object, ...] = ()

    def tell(*details: object) -> None:
        nonlocal newest
        newest = details

    async def beat() -> None:
        while True:
            await asyncio.sleep(seconds)
            activity.heartbeat(*newest)

    beating = asyncio.create_task(beat())
    try:
        yield tell
    finally:
        beating.cancel()
