"""The Temporal server, its namespace and search attributes, and the workers that poll it."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import telemetry
from activities.server import TYPES
from commands.doctor.check import Check
from commands.doctor.looking.attributes import attributes_check
from commands.doctor.looking.cli import temporal_command
from commands.session import unserved
from connection import (
    ConfigurationError,
    NoServerError,
    address,
    connect,
    namespace,
)
from reflection.plain import plain

PATIENCE_SECONDS = 3
QUEUES = {
    "mull": "workflows",
    "mull-llm": "calls of models, and retrieval",
    "mull-code": "code in a sandbox",
}
START = "start one with `starter.py dev`, or set TEMPORAL_ADDRESS"


async def server_checks() -> list[Check]:
    """Look at the server, and at what only it knows; one that does not answer is waited for 3 s."""
    try:
        telemetry.set_up(None)
        async with asyncio.timeout(PATIENCE_SECONDS):
            client = await connect(quiet=True)
    except TimeoutError:
        said = f"nothing answers at {address()} within {PATIENCE_SECONDS} s"
        return [Check("server", "server", "wrong", said, (START,))]
    except (NoServerError, ConfigurationError) as error:
        return [Check("server", "server", "wrong", str(error), (START,))]
    found = [await _guarded("server", "server", lambda: _server(client))]
    found.append(await _guarded("server", "namespace", lambda: _namespace(client)))
    if found[-1].state == "wrong":
        return found
    rest = [
        _guarded("server", "search attributes", lambda: _attributes(client)),
        *(_queue(client, name) for name in QUEUES),
    ]
    return found + list(await asyncio.gather(*rest))


async def _guarded(area: str, name: str, look: Callable[[], Awaitable[Check]]) -> Check:
    """Look, and take a server that refuses or is silent for what was found."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await look()
    except TimeoutError:
        return Check(area, name, "wrong", f"the server did not answer in {PATIENCE_SECONDS} s")
    except RPCError as error:
        said = f"the server refused: {plain(error.message, 200)}"
        optional = name == "search attributes"
        return Check(area, name, "warning" if optional else "wrong", said)


async def _server(client: Client) -> Check:
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    version = f", Temporal {plain(info.server_version, 40)}" if info.server_version else ""
    return Check("server", "server", "ok", f"answers at {address()}{version}")


async def _namespace(client: Client) -> Check:
    name = namespace()
    try:
        request = DescribeNamespaceRequest(namespace=name)
        await client.workflow_service.describe_namespace(request)
    except RPCError as error:
        if error.status is RPCStatusCode.PERMISSION_DENIED:
            said = f"{name}, which this key may not describe"
            return Check("server", "namespace", "warning", said)
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        do = "set TEMPORAL_NAMESPACE to another, or make it by the command below"
        create = f"{temporal_command()} operator namespace create"
        make = f"{create} --namespace {shlex.quote(name)}"
        said = f"there is none called {plain(name, 100)}"
        return Check("server", "namespace", "wrong", said, (do,), (make,))
    return Check("server", "namespace", "ok", name)


async def _attributes(client: Client) -> Check:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(request)
    known = {name: TYPES.get(number, "") for name, number in answer.custom_attributes.items()}
    return attributes_check(known, address(), namespace())


async def _queue(client: Client, name: str) -> Check:
    async def look() -> Check:
        if not await unserved(client, (name,)):
            return Check("workers", name, "ok", f"a worker polls it ({QUEUES[name]})")
        do = f"start `worker.py --queues {name.removeprefix('mull-')}`, or `starter.py dev`"
        return Check("workers", name, "wrong", f"no worker polls it ({QUEUES[name]})", (do,))

    return await _guarded("workers", name, look)
