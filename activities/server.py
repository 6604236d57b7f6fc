"""Queries to the Temporal server: which of Mull's search attributes are registered."""

import time

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


class ServerActivities:
    """Queries to the server, as quick local activities."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked_at = float("-inf")
        self._registered: list[str] = []

    @activity.defn
    async def registered_search_attributes(self) -> list[str]:
        """List Mull's search attributes that are registered with their right type.

        If the server refuses the list is empty: runs work without search attributes. An answer is
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
