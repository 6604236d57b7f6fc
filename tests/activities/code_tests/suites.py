"""Holding code to tests in a real sandbox, as the workflow does."""

from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.code_tests.activity import TestingActivities, TestTask
from activities.sandbox.port import Sandbox
from mull.multipath.suite import Case, Failure, Suite, TestFile, TestReport


def cases(**expected: str) -> Suite:
    """Make tests of f with an integer: `_2="4"` says that f(2) is 4."""
    made = tuple(Case(call=f"f({name[1:]})", expected=each) for name, each in expected.items())
    return Suite(origin="model", kind="cases", cases=made, entry="f")


def file(name: str, text: str, entry: str | None = None) -> Suite:
    """Make tests of a user's file."""
    given = TestFile(name=name, text=text)
    return Suite(origin="user", kind=given.kind, file=given, entry=entry)


async def tried(sandbox: Sandbox, code: str, suite: Suite, **fields: Any) -> TestReport:
    """Run the activity on its own."""
    activities = TestingActivities(sandbox)
    task = TestTask(code=code, suite=suite, **fields)
    return await ActivityEnvironment().run(activities.test_code, task)


async def failed(
    sandbox: Sandbox, code: str, suite: Suite, **fields: Any
) -> tuple[TestReport, Failure]:
    """Run the activity on its own on code that fails, and return why it does, too."""
    report = await tried(sandbox, code, suite, **fields)
    assert report.error is not None
    return report, report.error
