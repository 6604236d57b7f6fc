"""`doctor`: check the Temporal server and its workers, and say what to do about each problem."""

import asyncio
import shlex
import shutil
import sys
import uuid
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client, WorkflowExecution, WorkflowFailureError
from temporalio.common import Priority
from temporalio.service import RPCError, RPCStatusCode

from activities.doctor import (
    COMMAND_LINE,
    Check,
    DoctorRequest,
    DoctorResult,
    State,
    Version,
    encryption_check,
    versions_in_use,
)
from activities.installation import package_checks
from commands.command import Exit, Json, flag, print_json
from mull import connection, telemetry
from mull.connection import TASK_QUEUE, unserved
from mull.errors import FEW_TRIES, ConfigurationError, NoServerError
from mull.keys import ENCRYPTION_KEYS, KEY_ID, UnreadableError
from mull.queues import PURPOSES, REQUIRED
from mull.request import PERSON_PRIORITY
from mull.telemetry import SEARCH_ATTRIBUTES
from mull.text import tally_words, terminal_safe

STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "wrong": "bold red"}
UNREACHED = frozenset({"server", "workers"})
# Commands to copy are never cut.
SAID_COLUMNS = 2_000
ATTRIBUTES = "search attributes"
PATIENCE_SECONDS = 3
EXAMINED_WITHIN = timedelta(seconds=90)
# Until its first task is done, a run has fewer events than these.
TAKEN_SECONDS, TAKEN_EVENTS = 15.0, 5
MOST_RUNS = 500
NOT_TAKEN = (
    "If no worker took it, make the version of one current, as its log says.",
    f"If payloads are encrypted, {ENCRYPTION_KEYS} has to be the same here and there.",
)
START = "Start one with `mull dev`, or set TEMPORAL_ADDRESS."


def doctor(
    offline: Annotated[bool, flag("--offline", help="Call no model.")] = False,
    as_json: Json = False,
) -> None:
    """Check an installation, and say what to do about each problem.

    Server, workers, models, documents, tools, maps, sandbox, packages and telemetry: each check
    is ok, a warning or wrong, with what to do. The workers say what they are configured with
    (keys by name, not by value), start their MCP servers, and call each of their models once,
    for a few tokens; --offline leaves these calls out.

    Exit codes: 0 ok or only warnings, 1 something is wrong, 3 no server or no worker.
    """
    raise typer.Exit(print_checks(asyncio.run(run_checks(offline)), as_json=as_json))


async def run_checks(offline: bool) -> list[Check]:
    """Check the server from here, and have each worker that polls check itself."""
    checks, client = await server_checks()
    served = tuple(check.name for check in checks if check.name in PURPOSES and check.state == "ok")
    if client is None or "mull" not in served:
        return [*checks, *package_checks()]
    checks += [encryption_check(COMMAND_LINE), await starts_check(client)]
    return [*checks, *await examine(client, DoctorRequest(queues=served, offline=offline))]


async def examine(
    client: Client, request: DoctorRequest, within: timedelta = EXAMINED_WITHIN
) -> Sequence[Check]:
    """Have the worker of each queue check itself; a failure to do so is a check, too."""
    try:
        handle = await client.start_workflow(
            "DoctorWorkflow",
            request,
            id=f"doctor-{uuid.uuid4().hex}",
            task_queue="mull",
            result_type=DoctorResult,
            execution_timeout=within,
            priority=Priority(priority_key=PERSON_PRIORITY),
        )
        ending = asyncio.create_task(handle.result())
        await asyncio.wait({ending}, timeout=TAKEN_SECONDS)
        if not ending.done() and (await handle.describe()).history_length < TAKEN_EVENTS:
            with suppress(RPCError):
                await handle.terminate("no worker went on with it")
        found: DoctorResult = await ending
    except WorkflowFailureError as error:
        said = f"The workers could not be examined: {terminal_safe(str(error.cause), 300)}"
        return [Check("workers", "examined", "wrong", said, NOT_TAKEN)]
    except UnreadableError as error:
        return [
            Check("encryption", "workers", "wrong", f"The workers' answer can't be read: {error}.")
        ]
    return found.checks


def exit_code(checks: Iterable[Check]) -> Exit:
    """Return 3 without a server or a worker, 1 if anything else is wrong, otherwise 0."""
    wrong = {check.area for check in checks if check.state == "wrong"}
    if wrong & UNREACHED:
        return Exit.UNREACHABLE
    return Exit.FAILED if wrong else Exit.DONE


def print_checks(checks: Sequence[Check], *, as_json: bool) -> Exit:
    """Print one row for each check, the commands to copy and totals, or else one JSON document."""
    code, states = exit_code(checks), Counter(check.state for check in checks)
    if as_json:
        counts = {name: states[name] for name in STYLES}
        listed = [check._asdict() for check in checks]
        print_json({"exit_code": int(code), **counts, "checks": listed})
        return code
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("area", "check", "state"):
        table.add_column(name, no_wrap=True)
    table.add_column("found", overflow="fold")
    area = ""
    for check in checks:
        found = Text(terminal_safe(check.said, SAID_COLUMNS))
        for line in check.do:
            found.append(f"\n→ {terminal_safe(line, SAID_COLUMNS)}", "bold")
        shown = "" if check.area == area else check.area
        table.add_row(shown, Text(check.name), Text(check.state, STYLES[check.state]), found)
        area = check.area
    console = Console()
    console.print(table)
    # Unwrapped, so that they can be copied whatever the width.
    commands = [line for check in checks for line in check.commands]
    lines = [f"    {terminal_safe(line, SAID_COLUMNS)}\n" for line in commands]
    sys.stdout.write("".join(["\n", *lines]) if lines else "")
    warnings = tally_words(states["warning"], "warning")
    total = f"{states['ok']} ok, {warnings}, {states['wrong']} wrong."
    console.print(Text(f"\n{total}", "bold"))
    return code


async def server_checks() -> tuple[list[Check], Client | None]:
    """Check the server and what only it knows; wait at most 3 s for an answer.

    The client is None where there is no server or no namespace.
    """
    try:
        telemetry.set_up(None)
        async with asyncio.timeout(PATIENCE_SECONDS):
            client = await connection.connect(quiet=True)
    except (TimeoutError, NoServerError, ConfigurationError) as error:
        late = f"No server answered at {connection.address()} within {PATIENCE_SECONDS} s."
        return [
            Check(
                "server",
                "server",
                "wrong",
                late if isinstance(error, TimeoutError) else error.fact,
                (START,),
            )
        ], None
    found = [
        await _guarded("server", "server", _version(client)),
        await _guarded("server", "namespace", _namespace(client)),
    ]
    if found[-1].state == "wrong":
        return found, None
    versions: list[Version] = []
    # A server that refuses this refuses it for each queue too, which is shown below.
    with suppress(RPCError, TimeoutError):
        versions = await asyncio.wait_for(versions_in_use(client, PURPOSES), PATIENCE_SECONDS)
    rest = [
        _guarded("server", ATTRIBUTES, _attributes(client)),
        *(_guarded("workers", name, _queue(client, name, versions)) for name in PURPOSES),
    ]
    return [*found, *await asyncio.gather(*rest), *map(version_check, versions)], client


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


async def _version(client: Client) -> Check:
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    version = f", Temporal {info.server_version}" if info.server_version else ""
    return Check("server", "server", "ok", f"answers at {connection.address()}{version}")


async def _namespace(client: Client) -> Check:
    name = connection.namespace()
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
    return attributes_check(await telemetry.search_attributes(client))


async def _queue(client: Client, name: str, versions: Sequence[Version]) -> Check:
    lacks = any(each.status == "current" and name in each.unserved for each in versions)
    if not lacks and not await unserved(client, (name,)):
        return Check("workers", name, "ok", f"a worker is polling it ({PURPOSES[name]})")
    of = " of the current version" if lacks else ""
    said = f'No worker{of} is polling task queue "{name}" ({PURPOSES[name]}).'
    start = f"Start `mull-worker --queues {name.removeprefix('mull-')}`"
    if name not in REQUIRED:
        return Check("workers", name, "warning", said, (f"{start} to train a reflector.",))
    return Check("workers", name, "wrong", said, (f"{start}, or `mull dev`.",))


async def starts_check(client: Client) -> Check:
    """Count, for a few seconds, the newest open runs that wait for a key, by the key's id."""
    waiting, where = Counter[str](), f"ExecutionStatus = 'Running' AND TaskQueue = '{TASK_QUEUE}'"

    async def look(run: WorkflowExecution) -> None:
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        seen = await handle.describe()
        tries = seen.raw_description.pending_workflow_task.attempt
        if tries > FEW_TRIES and seen.history_length < TAKEN_EVENTS:
            first = await anext(handle.fetch_history_events(page_size=1))
            for one in first.workflow_execution_started_event_attributes.input.payloads[:1]:
                if KEY_ID in one.metadata:
                    waiting[one.metadata[KEY_ID].decode("utf-8", "replace")] += 1

    with suppress(RPCError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            runs = [look(run) async for run in client.list_workflows(where, limit=MOST_RUNS)]
            await asyncio.gather(*runs)
    keys = ", ".join(f"{count} for {key}" for key, count in waiting.items())
    said = f"{waiting.total()} of the newest {MOST_RUNS} open runs wait for a key"
    if not waiting:
        return Check("encryption", "starts", "ok", said)
    do = f"Give the workers on {TASK_QUEUE} the key, or end these runs."
    return Check("encryption", "starts", "warning", f"{said}: {keys}", (do,))


def version_check(version: Version) -> Check:
    """Say on which queues a version has no worker, so that its runs wait."""
    build_id, status, lacking = version
    if not lacking:
        return Check("workers", f"version {build_id}", "ok", f"{status}, each queue is served")
    said = f"Version {build_id} ({status}) has no worker on {', '.join(lacking)}: its runs wait."
    only = ",".join(queue.removeprefix("mull-") for queue in lacking)
    do = f"Start `mull-worker --queues {only} --build-id {build_id}`."
    state: State = "warning" if set(REQUIRED).isdisjoint(lacking) else "wrong"
    return Check("workers", f"version {build_id}", state, said, (do,))


def attributes_check(known: Mapping[str, str]) -> Check:
    """Compare the server's search attributes, by name and type, with Mull's."""
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
    said = [
        f"{name} is registered as {known[name]}; expected {kind}."
        for name, kind in SEARCH_ATTRIBUTES.items()
        if known.get(name, kind) != kind
    ]
    do = "Remove it, then register it again with `mull register`."
    if missing:
        count = f"{len(missing)} of {len(SEARCH_ATTRIBUTES)} search attributes"
        runs = "Runs still work, but can't be filtered by them."
        said.insert(0, f"{count} are not registered ({', '.join(missing)}). {runs}")
        do = "Register them with the command below."
    if not said:
        return Check("server", ATTRIBUTES, "ok", f"all {len(SEARCH_ATTRIBUTES)} are registered")
    commands = ("mull register",) if missing else ()
    return Check("server", ATTRIBUTES, "warning", " ".join(said), (do,), commands)


def temporal_command() -> str:
    """Return the `temporal` command: its name if it is on PATH, otherwise its full path."""
    beside = shutil.which("temporal", path=str(Path(sys.executable).parent))
    return "temporal" if shutil.which("temporal") or beside is None else shlex.quote(beside)
