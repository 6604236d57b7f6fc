"""From a command to the server and back: connecting, errors in one line, exit codes."""

import asyncio
import inspect
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import typer

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.service import RPCError

# A poll lasts at most a minute, so a live worker has polled within this time.
POLLED_WITHIN = timedelta(seconds=70)
NEAR = {"localhost", "127.0.0.1", "::1"}


class Exit(IntEnum):
    """The exit codes that scripts rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    BELOW_BAR = 4
    CANCELLED = 5
    DETACHED = 130


def fail(message: str, code: int) -> NoReturn:
    """Print an error to standard error and exit with this code."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code)


def wrong_usage(error: typer.TyperException) -> int:
    """Print a usage error on one line, with the command for help; return the exit code."""
    said = error.format_message().rstrip(".?").replace("Value error, ", "")
    # Without arguments Typer has already printed the help.
    if said:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "mull"
        typer.echo(f"Error: {said}. See `{command} --help`.", err=True)
    return error.exit_code


def end_process(code: int) -> NoReturn:
    """Flush the output, then exit at once with this code.

    The interpreter's own shutdown sometimes crashes while the SDK's threads are ending.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def with_client(action: Callable[["Client"], Awaitable[Exit]]) -> NoReturn:
    """Connect, run the action and exit with its code; an error is printed on one line."""
    from pydantic import ValidationError
    from temporalio.service import RPCError

    import telemetry
    from connection import ConfigurationError, NoServerError, connect

    async def session() -> Exit:
        telemetry.set_up(None)
        return await action(await connect(quiet=True))

    try:
        code = asyncio.run(session())
    except NoServerError as error:
        hint = "Start one with `mull dev`, or set TEMPORAL_ADDRESS."
        fail(f"{error}.\n{hint}", Exit.UNREACHABLE)
    except ConfigurationError as error:
        fail(f"{error}.", Exit.USAGE)
    except RPCError as error:
        fail(*_refused(error))
    except ValidationError:
        fail("This workflow was not started by Mull.", Exit.USAGE)
    except KeyboardInterrupt:
        raise typer.Exit(Exit.DETACHED) from None
    raise typer.Exit(code)


def connected(command: Callable[..., Awaitable[Exit]]) -> Callable[..., None]:
    """Make a command of a coroutine whose first argument is a client."""

    @wraps(command)
    def called(**given: Any) -> None:
        with_client(lambda client: command(client, **given))

    own = inspect.signature(command)
    kept = list(own.parameters.values())[1:]
    called.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
    return called


def _refused(error: "RPCError") -> tuple[str, Exit]:
    from temporalio.service import RPCStatusCode

    said = error.message.rstrip(".")
    if error.status is RPCStatusCode.NOT_FOUND and "amespace" in said:
        return f"{said}. Set TEMPORAL_NAMESPACE to another namespace.", Exit.USAGE
    if error.status is RPCStatusCode.NOT_FOUND:
        return "no run has this id. List the runs with `mull list`.", Exit.USAGE
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return f"the Temporal server refused: {said}.", Exit.USAGE
    if error.status is RPCStatusCode.UNAVAILABLE:
        return "lost the Temporal server. Runs continue once it is back.", Exit.UNREACHABLE
    return f"the Temporal server refused: {said}.", Exit.FAILED


async def unserved(client: "Client", queues: tuple[str, ...]) -> list[str]:
    """List the task queues that no worker has polled recently."""
    return [queue for queue in queues if not await _polled(client, queue)]


def say_unserved(queues: list[str], what: str, *, waits: bool) -> None:
    """Name the queues without a worker and how to start one; exit unless `what` can wait."""
    names = " and ".join(f'"{queue}"' for queue in queues)
    said = f"no worker is polling task queue{'s' if len(queues) > 1 else ''} {names}"
    if not waits:
        only = ",".join(queue.removeprefix("mull-") for queue in queues)
        start = "mull-worker" if "mull" in queues else f"mull-worker --queues {only}"
        hint = f"Start one with `{start}`, or an embedded one with `mull dev`."
        fail(f"{said}.\n{hint}", Exit.UNREACHABLE)
    typer.echo(f"Note: {said}; the {what} waits for a worker.", err=True)


async def _polled(client: "Client", queue: str) -> bool:
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    kinds = (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
    since = datetime.now(UTC) - POLLED_WITHIN
    for kind in kinds:
        answer = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
            )
        )
        if any(poller.last_access_time.ToDatetime(UTC) > since for poller in answer.pollers):
            return True
    return False


def run_page(workflow_id: str, run_id: str | None) -> str | None:
    """Return the address of a run in the Web UI, or None if no Web UI is known.

    MULL_WEB_UI sets it. Otherwise a development server's Web UI is looked for 1,000 ports above
    the server's own.
    """
    from connection import address, namespace

    base = os.environ.get("MULL_WEB_UI") or _beside(address())
    if not base:
        return None
    place = f"{base.rstrip('/')}/namespaces/{quote(namespace())}/workflows"
    return f"{place}/{quote(workflow_id, safe='')}/{run_id}/history" if run_id else place


def _beside(server: str) -> str | None:
    host, _, port = server.rpartition(":")
    if host not in NEAR or not port.isdigit() or int(port) + 1_000 > 65_535:
        return None
    beside = int(port) + 1_000
    try:
        with socket.create_connection((host, beside), timeout=0.3):
            return f"http://{host}:{beside}"
    except OSError:
        return None
