"""Heartbeats of activities, by which Temporal delivers cancellations."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from temporalio import activity

HEARTBEAT_SECONDS = 2.0
# A program that is no longer needed ends within a second of the cancellation.
CODE_HEARTBEAT_SECONDS = 0.3


@asynccontextmanager
async def heartbeating(seconds: float = HEARTBEAT_SECONDS) -> AsyncIterator[Callable[..., None]]:
    """Heartbeat at this interval, in seconds, while the block runs.

    Yields a function that sets the heartbeat's details, from any thread.
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
