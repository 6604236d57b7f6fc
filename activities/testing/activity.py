"""The activity that holds code to its tests, in a sandbox."""

import asyncio
import secrets
from typing import Literal

from pydantic import ValidationError
from temporalio import activity

from activities.heartbeat import CODE_HEARTBEAT_SECONDS, heartbeating
from activities.sandbox.activity import run
from activities.sandbox.port import Sandbox
from activities.testing.programs import build_program
from activities.testing.reports import build_report, lowered, refused
from activities.testing.unittests import by_pytest
from reflection.multipath.coding.suite import Suite, TestReport
from reflection.multipath.request import Limits, PackageName
from reflection.run import Record, explain


class TestTask(Record):
    """A draft of the code, and the tests that it is held to.

    `index` counts drafts from 0, for whoever reads a history: no verdict depends on it.
    """

    __test__ = False

    code: str
    suite: Suite
    language: Literal["python"] = "python"
    packages: tuple[PackageName, ...] = ()
    limits: Limits = Limits()
    index: int = 0


class TestingActivities:
    """What a run asks of a sandbox about its code; the sandbox's own ceiling bounds every run."""

    __test__ = False

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @activity.defn
    async def test_code(self, task: TestTask) -> TestReport:
        """Run code against its tests, and return what came of them, whatever the code does.

        Raises an ApplicationError where the sandbox itself fails: of type `sandbox_error`, or,
        non-retryable, `PackageError`.
        """
        nonce = secrets.token_hex(16)
        suite = await asyncio.to_thread(by_pytest, task.suite)
        try:
            program = build_program(task.code, suite, task.packages, task.limits, nonce)
        except ValidationError as error:
            return refused(suite, f"the code can't be run: {explain(error)}", self._sandbox.name)
        async with heartbeating(CODE_HEARTBEAT_SECONDS):
            result = await run(self._sandbox, program)
        report = build_report(suite, result, nonce)
        known = {
            "attempts": activity.info().attempt,
            "warnings": lowered(task.limits, result.limits),
        }
        return report.model_copy(update=known)
