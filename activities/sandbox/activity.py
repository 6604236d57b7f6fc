"""The activity that runs a program in the worker's sandbox."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.heartbeat import CODE_HEARTBEAT_SECONDS, heartbeating
from activities.sandbox.port import PackageError, Program, Result, Sandbox, SandboxError


class SandboxActivities:
    """What a run asks of a sandbox, whose own ceiling bounds what any program may take."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @activity.defn
    async def run_code(self, program: Program) -> Result:
        """Run a program, and return what came of it, whatever it did.

        Raises an ApplicationError where the sandbox itself fails: of type `sandbox_error`, or,
        non-retryable, `PackageError`.
        """
        async with heartbeating(CODE_HEARTBEAT_SECONDS):
            return await run(self._sandbox, program)


async def run(sandbox: Sandbox, program: Program) -> Result:
    """Run a program from within an activity, with the sandbox's errors in Temporal's terms."""
    try:
        return await sandbox.run(program)
    except PackageError as error:
        raise ApplicationError(str(error), type="PackageError", non_retryable=True) from None
    except SandboxError as error:
        raise ApplicationError(str(error), type="sandbox_error") from None
