"""The port through which `doctor` asks a worker for its configuration."""

import os
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Literal, NamedTuple

from pydantic import FailFast, Field, StringConstraints
from temporalio import activity
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    DescribeWorkerDeploymentVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from mull.connection import chosen_codec, pollers
from mull.keys import CLEAR, CODEC
from mull.request import Record, Request

# The worker deployment that all of Mull's versions belong to.
DEPLOYMENT = "mull"
QueueName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
State = Literal["ok", "warning", "wrong"]
IN_USE = {
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT: "current",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING: "ramping",
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING: "draining",
}


class Check(NamedTuple):
    """One check: its area and name, the finding, and lines that say what to do.

    `commands` can be copied to fix the problem.
    """

    area: str
    name: str
    state: State
    said: str
    do: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class DoctorRequest(Request):
    """The queues whose workers to examine; `offline` leaves out the calls of models."""

    queues: Annotated[tuple[QueueName, ...], FailFast()] = Field(("mull",), max_length=20)
    offline: bool = False


class DoctorResult(Record):
    """The findings of the workers, each in its own environment; keys are named, never shown."""

    checks: tuple[Check, ...]


COMMAND_LINE = "command line"


def encryption_check(where: str) -> Check:
    """Say whether this process encrypts payloads, and by which keys."""
    said = "off: the server stores all texts unencrypted"
    if codec := chosen_codec():
        said = f"on: {getattr(codec, 'described', f'by the codec of {CODEC}')}"
        clear = CLEAR in os.environ and where != COMMAND_LINE
        said += f"; {CLEAR}: it also accepts unencrypted payloads" if clear else ""
    return Check("encryption", where, "ok", said)


class Version(NamedTuple):
    """A current, ramping or draining version; its calls on the queues `unserved` wait."""

    build_id: str
    status: str
    unserved: list[str]


async def versions_in_use(client: Client, queues: Collection[str]) -> list[Version]:
    """List the versions that are current, ramping or draining; empty if workers are not versioned.

    Once a version's workers have polled a queue, only they take the version's calls on it. Calls on
    another queue go to the current version there, or to workers without one. A queue without
    pollers that the versions in use never had is left out. Raises RPCError.
    """
    server, space = client.workflow_service, client.namespace
    try:
        asked = DescribeWorkerDeploymentRequest(namespace=space, deployment_name=DEPLOYMENT)
        found = (await server.describe_worker_deployment(asked)).worker_deployment_info
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return []
        raise
    used, current = {}, found.routing_config.current_deployment_version.build_id
    for each in found.version_summaries:
        if status := IN_USE.get(each.status):
            about = DescribeWorkerDeploymentVersionRequest(
                namespace=space, deployment_version=each.deployment_version
            )
            told = await server.describe_worker_deployment_version(about)
            own = {queue.name for queue in told.version_task_queues}
            used[each.deployment_version.build_id] = status, own
    polled = {queue: {by for _, by in await pollers(client, queue)} for queue in queues if used}
    known = {queue for queue, by in polled.items() if by}.union(*(own for _, own in used.values()))

    def waits(build_id: str, own: set[str], queue: str) -> bool:
        serving = {build_id} if queue in own else {build_id, current, ""}
        return queue in known and polled[queue].isdisjoint(serving)

    return [
        Version(build_id, status, [queue for queue in queues if waits(build_id, own, queue)])
        for build_id, (status, own) in used.items()
    ]


Checks = Callable[[], Awaitable[list[Check]]]


class Examination:
    """Makes the checks of a queue's worker; `calls` are those that call models."""

    def __init__(self, checks: Checks, calls: Checks | None = None) -> None:
        self._checks, self._calls = checks, calls

    @activity.defn
    async def examine(self, request: DoctorRequest) -> list[Check]:
        """Make the checks of this worker, in its own process."""
        called = [] if request.offline or self._calls is None else await self._calls()
        encryption = encryption_check(activity.info().task_queue)
        return [*called, *await self._checks(), encryption]
