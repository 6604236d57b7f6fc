"""Temporal's own command line, as it is called on this machine.

Mull's search attributes: which a server has, and the commands that add the others.

The Temporal server, its namespace and search attributes, and the workers that poll it.
"""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import telemetry
from activities.server import TYPES
from commands.doctor.table import Check
from commands.session import unserved
from connection import (
    DEFAULT_ADDRESS,
    ConfigurationError,
    NoServerError,
    address,
    connect,
    namespace,
)
from reflection.text import terminal_safe
from telemetry import SEARCH_ATTRIBUTES


def temporal_command() -> str:
    """Return what starts it: its name where the shell finds it, else its path beside Python."""
    beside = shutil.which("temporal", path=str(Path(sys.executable).parent))
    if shutil.which("temporal") or beside is None:
        return "temporal"
    return shlex.quote(beside)


AREA, NAME = "server", "search attributes"


def attributes_check(known: Mapping[str, str], address: str, namespace: str) -> Check:
    """Compare the attributes that a server has, by name and type, with Mull's."""
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
    other = {
        name: kind for name, kind in SEARCH_ATTRIBUTES.items() if known.get(name, kind) != kind
    }
    if not missing and not other:
        return Check(AREA, NAME, "ok", f"all {len(SEARCH_ATTRIBUTES)} are registered")
    said = []
    if missing:
        count = f"{len(missing)} of {len(SEARCH_ATTRIBUTES)}"
        said.append(f"{count} are missing ({', '.join(missing)}): runs work, and can't be found so")
    said += [f"{name} is {known[name]}, and shall be {kind}" for name, kind in other.items()]
    commands = _commands(missing, address, namespace)
    do = ("register them by the commands below",) if commands else ("remove it, and add it anew",)
    return Check(AREA, NAME, "warning", "; ".join(said), do, commands)


def _commands(missing: list[str], address: str, namespace: str) -> tuple[str, ...]:
    where = "" if address == DEFAULT_ADDRESS else f" --address {shlex.quote(address)}"
    where += "" if namespace == "default" else f" --namespace {shlex.quote(namespace)}"
    create = f"{temporal_command()} operator search-attribute create"
    by_type: dict[str, list[str]] = {}
    for name in missing:
        by_type.setdefault(SEARCH_ATTRIBUTES[name], []).append(f"--name {name}")
    return tuple(
        f"{create}{where} --type {kind} {' '.join(names)}" for kind, names in by_type.items()
    )


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
        said = f"the server refused: {terminal_safe(error.message, 200)}"
        optional = name == "search attributes"
        return Check(area, name, "warning" if optional else "wrong", said)


async def _server(client: Client) -> Check:
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    version = f", Temporal {terminal_safe(info.server_version, 40)}" if info.server_version else ""
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
        said = f"there is none called {terminal_safe(name, 100)}"
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
