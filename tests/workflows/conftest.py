"""What a test of a workflow leaves under way would be served by the worker of the next one."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from temporalio.client import Client
from temporalio.service import RPCError


@pytest.fixture
async def client(client: Client) -> AsyncIterator[Client]:
    """The client of all tests; runs that are open after the test are ended."""
    yield client
    async for run in client.list_workflows("ExecutionStatus = 'Running'"):
        with suppress(RPCError):
            await client.get_workflow_handle(run.id, run_id=run.run_id).terminate()
