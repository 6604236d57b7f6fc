"""Run a user's pytest file beside the code, and print the outcome of each test."""

import builtins
import unittest
from pathlib import Path
from typing import Any

import pytest

from .harness import FOLDER, SOLUTION, Channel, also_named, asked, frames, load, public, said, shown

LINES = 1_000
DETAILS = 20


class Outcomes:
    """A plugin that prints the outcome of each test when it ends, and the counts at the end."""

    def __init__(self, channel: Channel, path: str) -> None:
        self._channel = channel
        self._paths = {path, SOLUTION}
        self._compared: dict[str, str] = {}
        self._failure: dict[str, str] | None = None
        self._skipped = False
        self.passed = self.failed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Print the number of tests."""
        self._channel.say(collected=len(session.items))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Print the test that begins, and forget the one before."""
        if self.passed + self.failed < LINES:
            self._channel.say(started=nodeid)
        self._compared, self._failure, self._skipped = {}, None, False

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """Keep the values that a failing assertion compared."""
        if op in {"==", "is"}:
            self._compared = {"got": shown(left), "expected": shown(right)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notice a test that is skipped or that fails in any of its phases."""
        self._skipped = self._skipped or report.skipped
        if report.failed and self._failure is None:
            self._failure = {"message": report.longreprtext[-1_500:]}

    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]
    ) -> None:
        """Keep the error that a test, or the collection of tests, raised."""
        error = call.excinfo.value if call.excinfo else None
        if error is None:
            return
        cause = error.__cause__ if isinstance(error, pytest.Collector.CollectError) else None
        raised = cause or error
        failure = {"message": said(raised), "traceback": frames(raised, self._paths)}
        if isinstance(node, pytest.Collector):
            self.failed += 1
            self._channel.say(test=node.nodeid, passed=False, **failure)
        else:
            compared = self._compared if isinstance(error, AssertionError) else {}
            self._failure = {**failure, **compared}

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Print the outcome of a test; a skipped one does not count."""
        if self._failure is None and self._skipped:
            return
        passed = self._failure is None
        self.passed, self.failed = self.passed + passed, self.failed + (not passed)
        details = self._failure if self._failure and self.failed <= DETAILS else {}
        if self.passed + self.failed <= LINES:
            self._channel.say(test=nodeid, passed=passed, **details)


def main() -> None:
    """Import the code, and let pytest run the file."""
    task = asked()
    channel = Channel(task["nonce"])
    solution = load(channel)
    if solution is None:
        return
    # As in a script, the code's names are defined; and test_fib.py may import them from fib.
    stem = Path(task["file"]).stem
    also_named(solution, stem.removeprefix("test_").removesuffix("_test"), task["entry"])
    vars(builtins).update({**public(solution), **vars(builtins)})
    # A file that runs its tests itself would end pytest.
    vars(unittest)["main"] = lambda *_, **__: None
    path = str(FOLDER / task["file"])
    outcomes = Outcomes(channel, path)
    options = ["-p", "no:cacheprovider", "-q", "--no-header", "--tb=no", "--noconftest", path]
    pytest.main(options, plugins=[outcomes])
    channel.say(end=True, passed=outcomes.passed, failed=outcomes.failed)
