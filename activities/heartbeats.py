"""Heartbeats: how a lost worker is noticed, and how a call hears that it is cancelled."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache

from temporalio import activity

from connection import ConfigurationError, address

VARIABLE = "MULL_HEARTBEAT_SECONDS"
SILENCE_SECONDS = 5.0
# Temporal Cloud bills each heartbeat that reaches it. These are its addresses.
CLOUD, CLOUD_SILENCE_SECONDS = (".tmprl.cloud", ".temporal.io"), 30.0
LEAST_SECONDS, MOST_SECONDS = 1.0, 300.0
BEAT_SECONDS = 1.0


@cache
def silence() -> float:
    """Return the seconds of silence after which a worker's calls are given up.

    Workflows ask for it too: a replay does not compare time-outs. Raises ConfigurationError.
    """
    if (given := os.environ.get(VARIABLE)) is None:
        host = address().rpartition(":")[0].rstrip(".").lower()
        return CLOUD_SILENCE_SECONDS if host.endswith(CLOUD) else SILENCE_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        said = f"expected seconds from {LEAST_SECONDS:.0f} to {MOST_SECONDS:.0f}"
        raise ConfigurationError(f"{VARIABLE}: {said}")
    return seconds


@asynccontextmanager
async def heartbeating() -> AsyncIterator[Callable[..., None]]:
    """Heartbeat while the block runs, so that cancellations arrive.

    The first one comes after half of the silence that is allowed: shorter calls cost none. Of the
    others the SDK sends one in 80 % of it; they are many, so that a busy worker may miss some.

    Yields a function that sets the heartbeat's details, from any thread.
    """
    allowed = activity.info().heartbeat_timeout
    seconds = silence() if allowed is None else allowed.total_seconds()
    newest: tuple[object, ...] = ()

    def tell(*details: object) -> None:
        nonlocal newest
        newest = details

    async def beat() -> None:
        await asyncio.sleep(seconds / 2)
        while True:
            activity.heartbeat(*newest)
            await asyncio.sleep(min(BEAT_SECONDS, seconds / 5))

    beating = asyncio.create_task(beat())
    try:
        yield tell
    finally:
        beating.cancel()
