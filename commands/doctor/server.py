"""What `doctor` checks at the Temporal server: namespace, search attributes and workers."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import telemetry
from activities.server import TYPES
from commands.doctor.command import Check
from commands.session import unserved
from connection import (
    DEFAULT_ADDRESS,
    ConfigurationError,
    NoServerError,
    address,
    connect,
    namespace,
)
from telemetry import SEARCH_ATTRIBUTES

ATTRIBUTES = "search attributes"
PATIENCE_SECONDS = 3
QUEUES = {
    "mull": "workflows",
    "mull-llm": "model calls and retrieval",
    "mull-code": "code in a sandbox",
}
START = "Start one with `mull dev`, or set TEMPORAL_ADDRESS."


async def server_checks() -> list[Check]:
    """Check the server and what only it knows; wait at most 3 s for an answer."""
    try:
        telemetry.set_up(None)
        async with asyncio.timeout(PATIENCE_SECONDS):
            client = await connect(quiet=True)
    except TimeoutError:
        said = f"No server answered at {address()} within {PATIENCE_SECONDS} s."
        return [Check("server", "server", "wrong", said, (START,))]
    except (NoServerError, ConfigurationError) as error:
        return [Check("server", "server", "wrong", str(error), (START,))]
    found = [
        await _guarded("server", "server", _server(client)),
        await _guarded("server", "namespace", _namespace(client)),
    ]
    if found[-1].state == "wrong":
        return found
    rest = [
        _guarded("server", ATTRIBUTES, _attributes(client)),
        *(_guarded("workers", name, _queue(client, name)) for name in QUEUES),
    ]
    return found + list(await asyncio.gather(*rest))


async def _guarded(area: str, name: str, looking: Awaitable[Check]) -> Check:
    """Await a check; a server that refuses or does not answer is its result."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await looking
    except TimeoutError:
        return Check(area, name, "wrong", f"The server did not answer within {PATIENCE_SECONDS} s.")
    except RPCError as error:
        said = f"The server refused: {error.message}"
        return Check(area, name, "warning" if name == ATTRIBUTES else "wrong", said)


async def _server(client: Client) -> Check:
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    version = f", Temporal {info.server_version}" if info.server_version else ""
    return Check("server", "server", "ok", f"answers at {address()}{version}")


async def _namespace(client: Client) -> Check:
    name = namespace()
    try:
        request = DescribeNamespaceRequest(namespace=name)
        await client.workflow_service.describe_namespace(request)
    except RPCError as error:
        if error.status is RPCStatusCode.PERMISSION_DENIED:
            said = f"{name} (this API key may not describe it)"
            return Check("server", "namespace", "warning", said)
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        said = f"There is no namespace {name}."
        do = "Set TEMPORAL_NAMESPACE to another namespace, or create it with the command below."
        create = f"{temporal_command()} operator namespace create --namespace {shlex.quote(name)}"
        return Check("server", "namespace", "wrong", said, (do,), (create,))
    return Check("server", "namespace", "ok", name)


async def _attributes(client: Client) -> Check:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(request)
    known = {name: TYPES.get(number, "") for name, number in answer.custom_attributes.items()}
    return attributes_check(known, address(), namespace())


async def _queue(client: Client, name: str) -> Check:
    if not await unserved(client, (name,)):
        return Check("workers", name, "ok", f"a worker is polling it ({QUEUES[name]})")
    said = f'No worker is polling task queue "{name}" ({QUEUES[name]}).'
    do = f"Start `mull-worker --queues {name.removeprefix('mull-')}`, or `mull dev`."
    return Check("workers", name, "wrong", said, (do,))


def attributes_check(known: Mapping[str, str], address: str, namespace: str) -> Check:
    """Compare the server's search attributes, by name and type, with Mull's."""
    missing = {name: kind for name, kind in SEARCH_ATTRIBUTES.items() if name not in known}
    said = [
        f"{name} is registered as {known[name]}; expected {kind}."
        for name, kind in SEARCH_ATTRIBUTES.items()
        if known.get(name, kind) != kind
    ]
    do = "Remove it, then register it again."
    if missing:
        count = f"{len(missing)} of {len(SEARCH_ATTRIBUTES)} search attributes"
        runs = "Runs still work, but can't be filtered by them."
        said.insert(0, f"{count} are not registered ({', '.join(missing)}). {runs}")
        do = "Register them with the commands below."
    if not said:
        return Check("server", ATTRIBUTES, "ok", f"all {len(SEARCH_ATTRIBUTES)} are registered")
    create = f"{temporal_command()} operator search-attribute create"
    create += "" if address == DEFAULT_ADDRESS else f" --address {shlex.quote(address)}"
    create += "" if namespace == "default" else f" --namespace {shlex.quote(namespace)}"
    commands = []
    for kind in dict.fromkeys(missing.values()):
        names = " ".join(f"--name {name}" for name, other in missing.items() if other == kind)
        commands.append(f"{create} --type {kind} {names}")
    return Check("server", ATTRIBUTES, "warning", " ".join(said), (do,), tuple(commands))


def temporal_command() -> str:
    """Return the `temporal` command: its name if it is on PATH, otherwise its full path."""
    beside = shutil.which("temporal", path=str(Path(sys.executable).parent))
    return "temporal" if shutil.which("temporal") or beside is None else shlex.quote(beside)
