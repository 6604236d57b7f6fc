"""`register`: register Mull's search attributes in a namespace."""

import shlex
from collections.abc import Collection, Iterable

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from commands.command import Exit, Json, connected, print_json, tell
from commands.doctor import temporal_command
from mull.connection import address
from mull.telemetry import SEARCH_ATTRIBUTES, search_attributes
from mull.text import terminal_safe

FULL = "cannot have more than"
CLOUD = (".tmprl.cloud", ".temporal.io")
REMOVE = "Remove it (on Temporal Cloud, rename it), then run `mull register` again."


@connected
async def register(client: Client, as_json: Json = False) -> Exit:
    """Register Mull's search attributes in the namespace.

    Run it once for each namespace. Attributes that are registered already stay as they are. If
    the server refuses, as Temporal Cloud does, it prints the commands to register them with.

    For example:

        mull register
        TEMPORAL_NAMESPACE=answers mull register --json

    Exit codes: 0 all are registered, 1 refused or of another type, 2 no such namespace, 3 no
    server.
    """
    known: dict[str, str] = {}
    refused: dict[str, str] = {}
    try:
        known = await search_attributes(client)
    except RPCError as error:
        refused = dict.fromkeys(SEARCH_ATTRIBUTES, _refusal(error))
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known and name not in refused]
    # One request for each type, since a store may have no room for one of them.
    for kind, names in by_type(missing).items():
        number = IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}")
        added = dict.fromkeys(names, number)
        request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=added)
        try:
            await client.operator_service.add_search_attributes(request)
        except RPCError as error:
            refused |= dict.fromkeys(names, _refusal(error))
    new = [name for name in missing if name not in refused]
    wrong = {n: known[n] for n, kind in SEARCH_ATTRIBUTES.items() if known.get(n, kind) != kind}
    commands = commands_for(refused, address(), client.namespace)
    right = [name for name in SEARCH_ATTRIBUTES if name not in {*wrong, *refused}]
    if as_json:
        found = {"registered": right, "new": new, "wrong": wrong, "refused": refused}
        written = {"namespace": client.namespace, **found, "commands": commands}
        print_json(written)
    else:
        counts = f"{len(right)} of {len(SEARCH_ATTRIBUTES)} are registered in {client.namespace}"
        tell(f"{counts}, {len(new)} of them now.")
        for name, kind in wrong.items():
            tell(f"{name} is registered as {kind}; expected {SEARCH_ATTRIBUTES[name]}. {REMOVE}")
        for said in dict.fromkeys(refused.values()):
            tell(f"The server refused: {said}")
        if any(FULL in said for said in refused.values()):
            tell("The namespace has no room for them: give Mull one of its own.")
        elif commands:
            tell("\n    ".join(["Ask someone who may change the namespace to run:", *commands]))
    return Exit.FAILED if refused or wrong else Exit.DONE


def _refusal(error: RPCError) -> str:
    """Return why the server refused; raise if there is no server or no namespace."""
    if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.NOT_FOUND}:
        raise error
    return terminal_safe(error.message, 300)


def by_type(names: Iterable[str]) -> dict[str, list[str]]:
    """Group search attributes by their types, such as Keyword."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(SEARCH_ATTRIBUTES[name], []).append(name)
    return found


def commands_for(names: Collection[str], server: str, namespace: str) -> list[str]:
    """Write the commands that register these: one of Temporal Cloud's, or one for each type."""
    within = f"--namespace {shlex.quote(namespace)}"
    if names and server.partition(":")[0].endswith(CLOUD):
        given = (f"--search-attribute {name}={SEARCH_ATTRIBUTES[name]}" for name in names)
        return [" ".join(["tcld namespace search-attributes add", within, *given])]
    create = (
        f"{temporal_command()} operator search-attribute create --address {shlex.quote(server)}"
    )
    typed = by_type(names).items()
    return [f"{create} {within} --type {kind} --name {' --name '.join(n)}" for kind, n in typed]
