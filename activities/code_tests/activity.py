"""The activity that runs code against its tests in a sandbox, and the program it makes of them.

No expected value is in the program.
"""

import ast
import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from temporalio import activity

from activities.code_tests.reports import build_report, lowered, refused
from activities.sandbox.port import Program, Sandbox, run
from activities.server import CODE_HEARTBEAT_SECONDS, heartbeating
from reflection.multipath.cases import parsed
from reflection.multipath.request import Limits, PackageName
from reflection.multipath.suite import Suite, SuiteKind, TestFile, TestReport
from reflection.run import Record, explain
from reflection.text import well_formed

KEPT_BYTES = 500_000
RESULT_BYTES = 100_000
SOLUTION = "solution.py"

# Behind everything else, so that no file of a user's hides a module of Python's own.
START = """\
import os
import sys

here = os.getcwd()
sys.path[:] = [*(path for path in sys.path if path not in ("", here)), here]
from {package}.{program} import main

main()
"""
PACKAGE = "mull_inside"
PROGRAMS: dict[SuiteKind, str] = {"cases": "cases", "script": "script", "pytest": "pytest_file"}
INSIDE = {
    f"{PACKAGE}/{file.name}": file.read_text(encoding="utf-8")
    for file in sorted((Path(__file__).parent / "inside").glob("*.py"))
}
UNITTEST = "unittest"
CASES = {"TestCase", "IsolatedAsyncioTestCase"}
STEM = 90


class TestTask(Record):
    """A draft of the code, and the tests to run it against.

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
        warnings = lowered(task.limits, result.limits)
        known = {"attempts": activity.info().attempt, "warnings": warnings}
        return build_report(suite, result, nonce).model_copy(update=known)


def build_program(
    code: str, suite: Suite, packages: tuple[str, ...], limits: Limits, nonce: str
) -> Program:
    """Put code, tests and the program that runs them together. Raises ValidationError.

    The nonce marks the lines of the program that are results, and comes by the standard input.
    """
    files = {**INSIDE, SOLUTION: well_formed(code)}
    name = _name(suite)
    if suite.file and name:
        files[name] = well_formed(suite.file.text)
    # Room for the results, which are not the code's output.
    room = max(limits.output_bytes, RESULT_BYTES)
    calls = [case.call for case in suite.cases]
    return Program(
        code=START.format(package=PACKAGE, program=PROGRAMS[suite.kind]),
        files=files,
        input=json.dumps({"nonce": nonce, "calls": calls, "file": name, "entry": suite.entry}),
        packages=packages,
        limits=limits.model_copy(update={"output_bytes": room}),
        keep_bytes=KEPT_BYTES,
    )


def _name(suite: Suite) -> str | None:
    """Name the user's file so that it takes nothing's place, and that pytest can import it."""
    if suite.file is None:
        return None
    if suite.kind == "pytest":
        return f"{suite.file.name.removesuffix('.py').replace('.', '_')}.py"
    taken = suite.file.name in {SOLUTION, "main.py", PACKAGE}
    return f"tests_{suite.file.name}" if taken else suite.file.name


def by_pytest(suite: Suite) -> Suite:
    """Return the same tests for pytest, where they are a script that has classes of unittest."""
    given = suite.file
    if suite.kind != "script" or given is None or UNITTEST not in given.text:
        return suite
    tree = parsed(given.text, "exec")
    if tree is None:
        return suite
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    bases = {ast.unparse(base) for node in classes for base in node.bases}
    if bases.isdisjoint(_unittest_names(tree)):
        return suite
    name = f"test_{given.name.removesuffix('.py')[:STEM]}.py"
    return suite.model_copy(update={"kind": "pytest", "file": TestFile(name=name, text=given.text)})


def _unittest_names(tree: ast.AST) -> Iterator[str]:
    """Name unittest's classes as this file does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [name.asname or name.name for name in names if name.name == UNITTEST]
                yield from (f"{module}.{case}" for module in modules for case in CASES)
            case ast.ImportFrom(module="unittest", names=names):
                yield from (name.asname or name.name for name in names if name.name in CASES)
