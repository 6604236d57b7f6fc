"""The activity `run_code`: results whatever a program does, failures where the sandbox fails."""

import asyncio
from collections.abc import Callable

import pytest
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from activities.sandbox.activity import SandboxActivities
from activities.sandbox.port import PackageError, Program, SandboxError
from activities.sandbox.running.sandbox import ProcessSandbox
from tests.scripted import ScriptedSandbox


async def test_result(sandbox: ProcessSandbox) -> None:
    """What the program did is the activity's result, a failure of its own too."""
    activities = SandboxActivities(sandbox)

    result = await ActivityEnvironment().run(activities.run_code, Program(code="1/0"))

    assert (result.status, result.backend) == ("error", sandbox.name)


@pytest.mark.parametrize(
    ("fault", "kind", "non_retryable"),
    [
        (SandboxError("no namespace"), "sandbox_error", False),
        (PackageError("x is not installed on this worker"), "PackageError", True),
    ],
)
async def test_fault(fault: SandboxError, kind: str, non_retryable: bool) -> None:
    """A fault of the sandbox is a failure, retried unless no try like it can work."""
    activities = SandboxActivities(ScriptedSandbox([fault]))

    with pytest.raises(ApplicationError, match=str(fault)) as caught:
        await ActivityEnvironment().run(activities.run_code, Program(code="1"))

    assert (caught.value.type, caught.value.non_retryable) == (kind, non_retryable)


async def test_cancelled(sandbox: ProcessSandbox, orphans: Callable[[], set[int]]) -> None:
    """A cancelled activity ends its program first."""
    environment = ActivityEnvironment()
    running = asyncio.ensure_future(
        environment.run(SandboxActivities(sandbox).run_code, Program(code="while True: 0"))
    )
    while not orphans():
        await asyncio.sleep(0.01)

    environment.cancel()

    with pytest.raises((CancelledError, asyncio.CancelledError)):
        await asyncio.wait_for(running, 5)
    assert orphans() == set()
