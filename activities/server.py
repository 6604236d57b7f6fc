"""The Temporal server as activities see it: heartbeats, and the registered search attributes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from temporalio import activity
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from telemetry import SEARCH_ATTRIBUTES

TYPES = {
    number: name.removeprefix("INDEXED_VALUE_TYPE_").title()
    for name, number in IndexedValueType.items()
}
REMEMBER_SECONDS = 60.0
HEARTBEAT_SECONDS = 2.0
# A program that is no longer needed ends within a second of the cancellation.
CODE_HEARTBEAT_SECONDS = 0.3


@asynccontextmanager
async def heartbeating(seconds: float = HEARTBEAT_SECONDS) -> AsyncIterator[Callable[..., None]]:
    """Heartbeat at this interval, in seconds, while the block runs: so cancellations arrive.

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


class ServerActivities:
    """Queries to the server, as quick local activities."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked_at = float("-inf")
        self._registered: list[str] = []

    @activity.defn
    async def registered_search_attributes(self) -> list[str]:
        """List Mull's search attributes that are registered with the right type.

        The list is empty if the server refuses: runs work without search attributes. An answer is
        cached for a minute.
        """
        if time.monotonic() - self._asked_at > REMEMBER_SECONDS:
            request = ListSearchAttributesRequest(namespace=self._client.namespace)
            try:
                answer = await self._client.operator_service.list_search_attributes(request)
            except RPCError as error:
                activity.logger.warning("search attributes are not used: %s", error.message)
                return []
            found = {name: TYPES.get(number) for name, number in answer.custom_attributes.items()}
            self._registered = [n for n, kind in SEARCH_ATTRIBUTES.items() if found.get(n) == kind]
            self._asked_at = time.monotonic()
        return self._registered
