"""The activity that runs code against its tests in a sandbox.

It builds a program from them, without the expected values, and reads a report of the tests from
the program's untrusted output.
"""

import ast
import asyncio
import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from temporalio import activity

from activities.sandbox.port import Program, Result, Sandbox, run
from mull.multipath import verdict
from mull.multipath.cases import parsed, read_literal, steps
from mull.multipath.request import Limits, PackageName
from mull.multipath.suite import Failure, Suite, SuiteKind, TestFile, TestOutcome, TestReport
from mull.request import Record, explain
from mull.text import cut_encoded, well_formed

KEPT_BYTES = 500_000
RESULT_BYTES = 100_000
OUTPUT_BYTES = 2_000
MOST = 1_000_000_000
# How often tests that run apart may ask for calls that follow from what earlier ones returned.
ROUNDS = 50
TOO_MANY_ROUNDS = f"its calls follow from one another over more than {ROUNDS} rounds"
SOLUTION = "solution.py"

# The work folder comes last, so that a user's file can't hide one of Python's own modules.
START = """\
import os
import sys

here = os.getcwd()
sys.path[:] = [*(path for path in sys.path if path not in ("", here)), here]
from {package}.{program} import main

main()
"""
PACKAGE = "mull_inside"
PROGRAMS: dict[SuiteKind, str] = {"cases": "harness", "script": "script", "pytest": "pytest_file"}
INSIDE = {
    f"{PACKAGE}/{file.name}": file.read_text(encoding="utf-8")
    for file in sorted((Path(__file__).parent / "inside").glob("*.py"))
}
UNITTEST = "unittest"
CASES = {"TestCase", "IsolatedAsyncioTestCase"}
STEM = 90
NO_TEST = (
    "pytest found no test to run, or skipped all of them (a file that is not named test_*.py or "
    "*_test.py runs as a script)"
)
# A program that gave all its results may end in any of these ways.
HARMLESS = {"ok", "error", "exited_early"}
ANSWER = ("value", "iterates", "changed")

Line = dict[str, object]


class TestTask(Record):
    """A draft of the code, and the tests to run it against.

    `index` counts drafts from 0, for readers of a history; verdicts do not depend on it.
    """

    __test__ = False

    code: str
    suite: Suite
    language: Literal["python"] = "python"
    packages: tuple[PackageName, ...] = ()
    limits: Limits = Limits()
    index: int = 0


class TestingActivities:
    """The activity that tests code; the sandbox's own ceiling limits every run."""

    __test__ = False

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @activity.defn
    async def test_code(self, task: TestTask) -> TestReport:
        """Run code against its tests and report their outcomes, whatever the code does.

        Raises an ApplicationError if the sandbox itself fails: of type `sandbox_error`, or,
        non-retryable, `PackageError`.
        """
        suite = await asyncio.to_thread(by_pytest, task.suite)
        return (await self._run(task, suite))[0]

    async def test_apart(self, task: TestTask, above: str) -> TestReport | None:
        """Run a script of tests apart from the code: send its calls to the code, and values back.

        `above` is the code that the script knows beside the tested function. Returns None if it
        can't be run apart, which shows before the code has run. If the code changes arguments, the
        script is run again with these, and has to pass: a pass with these alone could be forged.
        """
        script, answers = task.model_copy(update={"code": above}), list[Line]()
        changing = held = False
        for _ in range(ROUNDS):
            given = [one if changing else {**one, "changed": "[]"} for one in answers]
            report, lines = await self._run(script, task.suite, apart=given)
            asked = [call for line in lines if (call := text_in(line, "asked"))]
            changed = any("changed" in one for one in answers)
            if changed and not (asked or changing):
                changing, held = True, report.error is None
                continue
            if not asked or count_in(only(lines, "asking") or {}, "asking") != len(asked):
                # The code's values may have made the script run for ever, or ask for too much.
                forgeable = changing and not held and report.error is None
                return report.model_copy(update={"forgeable": forgeable}) if answers else None
            calls = [str(call) for call in (*(one["call"] for one in answers), *asked)]
            known = task.suite.model_copy(update={"kind": "cases", "file": None})
            steps = [[call, "apart"] for call in calls]
            report, lines = await self._run(task, known, apart=[], calls=steps)
            found = await asyncio.to_thread(_answers, calls, lines)
            if report.error or len(found) < len(calls):
                failure = report.error or Failure(message=verdict.SILENT)
                return report.model_copy(update={"error": failure})
            # Keep the answers of earlier rounds, so that each round settles at least one call.
            answers += found[len(answers) :]
        # Do not run tests with endless calls beside the code, which may have led them there.
        return report.model_copy(update={"error": Failure(message=TOO_MANY_ROUNDS)})

    async def _run(
        self, task: TestTask, suite: Suite, **more: object
    ) -> tuple[TestReport, list[Line]]:
        nonce = secrets.token_hex(16)
        try:
            program = build_program(task.code, suite, task.packages, task.limits, nonce, **more)
        except ValidationError as error:
            report = TestReport(
                outcomes=(),
                passed=0,
                total=len(suite.cases) or None,
                error=verdict.bounded(Failure(message=f"the code can't be run: {explain(error)}")),
                forgeable=suite.forgeable,
                status="error",
                backend=self._sandbox.name,
            )
            return report, []
        result = await run(self._sandbox, program)
        lines = result_lines(result, nonce)
        outcomes, passed, total, failure = _verdict(suite, result, lines)
        report = TestReport(
            outcomes=verdict.brief(outcomes),
            passed=passed,
            total=total,
            error=failure,
            forgeable=suite.forgeable,
            status=result.status,
            backend=result.backend,
            output=cut_encoded(well_formed(result.stderr.text)[::-1], OUTPUT_BYTES)[::-1],
            wall_seconds=result.wall_seconds,
            cpu_seconds=result.cpu_seconds,
            peak_memory_bytes=result.peak_memory_bytes,
            attempts=activity.info().attempt,
            warnings=lowered(task.limits, result.limits),
        )
        return report, lines


def _answers(calls: list[str], lines: list[Line]) -> list[Line]:
    """Read the answer of each call, as literals that the worker writes, up to a missing one."""
    answers, given = list[Line](), defaultdict[object, list[Line]](list)
    for line in lines:
        given[count_in(line, "case")].append(line)
    for number, call in enumerate(calls):
        line = only(given[number], "case") or {}
        found = {name: text for name in ANSWER if (text := text_in(line, name))}
        try:
            answer = {name: repr(read_literal(text, KEPT_BYTES)) for name, text in found.items()}
        except ValueError:
            break
        if "value" not in answer:
            if not (message := text_in(line, "message")):
                break
            answer = {"message": message}
        answers.append({"call": call, **answer})
    return answers


def build_program(
    code: str, suite: Suite, packages: tuple[str, ...], limits: Limits, nonce: str, **more: object
) -> Program:
    """Build the program that runs code and tests together. Raises ValidationError.

    The nonce marks the result lines of its output; the program reads it from standard input.
    """
    files, name = {**INSIDE, SOLUTION: well_formed(code)}, None
    if suite.file:
        # A name that replaces no other file, and that pytest can import.
        name = suite.file.name
        if suite.kind == "pytest":
            name = f"{name.removesuffix('.py').replace('.', '_')}.py"
        elif name in {SOLUTION, "main.py", PACKAGE}:
            name = f"tests_{name}"
        files[name] = well_formed(suite.file.text)
    # Make room for the results, which are not the code's output.
    room = max(limits.output_bytes, RESULT_BYTES)
    calls = [steps(case.call, suite.entry) for case in suite.cases]
    task = {"nonce": nonce, "calls": calls, "file": name, "entry": suite.entry}
    # If it is missing, ask for pytest by name, so that the error says what to install.
    lacking = ["pytest"] if suite.kind == "pytest" and find_spec("pytest") is None else []
    return Program(
        code=START.format(package=PACKAGE, program=PROGRAMS[suite.kind]),
        files=files,
        input=json.dumps(task | more),
        packages=(*packages, *lacking),
        limits=limits.model_copy(update={"output_bytes": room}),
        keep_bytes=KEPT_BYTES,
    )


def by_pytest(suite: Suite) -> Suite:
    """Turn a script with classes of unittest into the same tests for pytest."""
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
    """Yield the names of unittest's classes in this file."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [name.asname or name.name for name in names if name.name == UNITTEST]
                yield from (f"{module}.{case}" for module in modules for case in CASES)
            case ast.ImportFrom(module="unittest", names=names):
                yield from (name.asname or name.name for name in names if name.name in CASES)


def lowered(asked: Limits, held: Limits) -> tuple[str, ...]:
    """Warn of each limit that the worker lowered to its own."""
    names = [name for name in Limits.model_fields if getattr(held, name) < getattr(asked, name)]
    return tuple(
        f"the worker allows {name} {getattr(held, name):g}, not the {getattr(asked, name):g} that "
        "were asked for"
        for name in names
    )


def result_lines(result: Result, nonce: str) -> list[Line]:
    """List the objects on the lines that begin with the nonce; ignore other output."""
    found: list[Line] = []
    for text in f"{result.stdout.head}\n{result.stdout.tail}".split("\n"):
        if text.startswith(nonce):
            with suppress(ValueError, RecursionError):
                value = json.loads(text.removeprefix(nonce))
                found += [value] if isinstance(value, dict) else []
    return found


# The outcomes, how many tests passed, how many there are, and why the code is not right yet.
Found = tuple[tuple[TestOutcome, ...], int, int | None, Failure | None]


def _verdict(suite: Suite, result: Result, lines: list[Line]) -> Found:
    """Read the tests' outcomes. Missing, doubled or malformed output counts as a failure."""
    ending = verdict.ProgramEnd.model_validate(result, from_attributes=True)
    for line in lines:
        broken = None
        if "broken" in line:
            message = text_in(line, "broken") or "the code can't be imported"
            broken = Failure(message=message, traceback=text_in(line, "traceback"))
        elif "unreadable" in line:
            broken = Failure(message=f"the tests can't be read: {line['unreadable']}")
        if broken:
            return (), 0, len(suite.cases) or None, verdict.bounded(broken)
    last = only(lines, "end")
    ended = last is not None and last["end"] is True and ending.status in HARMLESS
    match suite.kind:
        case "cases":
            return _of_cases(suite, ending, lines, ended)
        case "script":
            return _of_script(ending, lines, ended)
        case "pytest":
            return _of_pytest(ending, lines, ended)


def _of_cases(suite: Suite, ending: verdict.ProgramEnd, lines: list[Line], ended: bool) -> Found:
    numbered = [(count_in(line, "case"), line) for line in lines if "case" in line]
    often = Counter(number for number, _ in numbered)
    answers = {
        number: verdict.Answer(
            value=text_in(line, "value"),
            message=text_in(line, "message"),
            traceback=text_in(line, "traceback"),
        )
        for number, line in numbered
        if number is not None and often[number] == 1
    }
    outcomes = verdict.judge(suite.cases, answers)
    missing = next((case for n, case in enumerate(suite.cases) if n not in answers), None)
    error = verdict.first_failure(outcomes)
    if error is None and (missing or not ended):
        error = verdict.stopped(ending, missing.call if missing else None)
    return outcomes, _passed(outcomes), len(suite.cases), error


def _of_script(ending: verdict.ProgramEnd, lines: list[Line], ended: bool) -> Found:
    last = only(lines, "passed")
    passed = count_in(last, "passed") if last else None
    if last is None or passed is None:
        started = _started(lines)
        error = verdict.stopped(ending, text_in(started, "started"))
        return (), count_in(started, "held") or 0, None, error
    if last.get("end") is True:
        return (), passed, passed, None if ended else verdict.stopped(ending)
    outcome = _outcome(last, text_in(last, "test") or "the script")
    return (outcome,), passed, None, verdict.first_failure([outcome])


def _of_pytest(ending: verdict.ProgramEnd, lines: list[Line], ended: bool) -> Found:
    named = [(text_in(line, "test"), line) for line in lines if "test" in line]
    outcomes = tuple(_outcome(line, name) for name, line in named if name)
    error = verdict.first_failure(outcomes)
    last = only(lines, "end") or {}
    passed, failed = count_in(last, "passed"), count_in(last, "failed")
    if passed is None or failed is None or not ended:
        collected = count_in(only(lines, "collected") or {}, "collected")
        test = text_in(_started(lines), "started")
        return outcomes, _passed(outcomes), collected, error or verdict.stopped(ending, test)
    if error is None and failed:
        error = Failure(message=f"{failed:,} tests fail")
    if error is None and not passed:
        error = Failure(message=NO_TEST)
    return outcomes, passed, passed + failed, error


def _started(lines: list[Line]) -> Line:
    """Return the last line that names what began, or an empty one."""
    return next((line for line in reversed(lines) if "started" in line), {})


def _passed(outcomes: tuple[TestOutcome, ...]) -> int:
    return sum(outcome.passed for outcome in outcomes)


def _outcome(line: Line, name: str) -> TestOutcome:
    parts = {part: text_in(line, part) for part in ("expected", "got", "message", "traceback")}
    return TestOutcome(test=name, passed=line.get("passed") is True, **parts)


def only(lines: list[Line], name: str) -> Line | None:
    """Return the one line that has this member; None if there are none or several."""
    found = [line for line in lines if name in line]
    return found[0] if len(found) == 1 else None


def text_in(line: Line, name: str) -> str | None:
    """Return the text under a name, or None if there is nothing or something else."""
    value = line.get(name)
    return value if isinstance(value, str) and value else None


def count_in(line: Line, name: str) -> int | None:
    """Return the count under a name, or None if there is none."""
    value = line.get(name)
    return value if type(value) is int and 0 <= value <= MOST else None
