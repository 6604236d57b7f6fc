"""From what a program in the sandbox printed, which is untrusted, to a report of the tests."""

import json
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from activities.sandbox.port import Result
from reflection.multipath.request import Limits
from reflection.multipath.suite import Failure, Suite, TestOutcome, TestReport
from reflection.multipath.verdict import (
    Answer,
    ProgramEnd,
    bounded,
    brief,
    first_failure,
    judge,
    stopped,
)
from reflection.run import cut_encoded
from reflection.text import well_formed

Line = dict[str, object]
MOST = 1_000_000_000
OUTPUT_BYTES = 2_000
NO_TEST = (
    "pytest found no test to run, or skipped all of them (a file that is not named test_*.py, nor "
    "*_test.py, is run as a script)"
)
# A program that gave all its results may end in any of these ways.
HARMLESS = {"ok", "error", "exited_early"}


class _Verdict(NamedTuple):
    outcomes: tuple[TestOutcome, ...]
    passed: int
    total: int | None
    error: Failure | None


def build_report(suite: Suite, result: Result, nonce: str) -> TestReport:
    """Read what came of the tests. Output that is missing, doubled or malformed is a failure."""
    verdict = _verdict(suite, result, result_lines(result, nonce))
    return TestReport(
        outcomes=brief(verdict.outcomes),
        passed=verdict.passed,
        total=verdict.total,
        error=verdict.error,
        forgeable=suite.forgeable,
        status=result.status,
        backend=result.backend,
        output=cut_encoded(well_formed(result.stderr.text)[::-1], OUTPUT_BYTES)[::-1],
        wall_seconds=result.wall_seconds,
        cpu_seconds=result.cpu_seconds,
        peak_memory_bytes=result.peak_memory_bytes,
    )


def refused(suite: Suite, message: str, backend: str) -> TestReport:
    """Report code that could not even be brought into the sandbox."""
    return TestReport(
        outcomes=(),
        passed=0,
        total=len(suite.cases) or None,
        error=bounded(Failure(message=message)),
        forgeable=suite.forgeable,
        status="error",
        backend=backend,
    )


def lowered(asked: Limits, held: Limits) -> tuple[str, ...]:
    """Say which limits were asked for and are beyond what the worker allows."""
    names = [name for name in Limits.model_fields if getattr(held, name) < getattr(asked, name)]
    return tuple(
        f"the worker allows {name} {getattr(held, name):g}, not the {getattr(asked, name):g} that "
        "were asked for"
        for name in names
    )


def _verdict(suite: Suite, result: Result, lines: list[Line]) -> _Verdict:
    ending = ProgramEnd.model_validate(result.model_dump(include=set(ProgramEnd.model_fields)))
    for line in lines:
        broken = None
        if "broken" in line:
            message = text_in(line, "broken") or "the code can't be imported"
            broken = Failure(message=message, traceback=text_in(line, "traceback"))
        elif "unreadable" in line:
            broken = Failure(message=f"the tests can't be read: {line['unreadable']}")
        if broken:
            return _Verdict((), 0, len(suite.cases) or None, bounded(broken))
    match suite.kind:
        case "cases":
            return _of_cases(suite, ending, lines)
        case "script":
            return _of_script(ending, lines)
        case "pytest":
            return _of_pytest(ending, lines)


def _of_cases(suite: Suite, ending: ProgramEnd, lines: list[Line]) -> _Verdict:
    numbered = [(count_in(line, "case"), line) for line in lines if "case" in line]
    often = Counter(number for number, _ in numbered)
    answers = {
        number: Answer(
            value=text_in(line, "value"),
            message=text_in(line, "message"),
            traceback=text_in(line, "traceback"),
        )
        for number, line in numbered
        if number is not None and often[number] == 1
    }
    outcomes = judge(suite.cases, answers)
    missing = next((case for n, case in enumerate(suite.cases) if n not in answers), None)
    error = first_failure(outcomes)
    if error is None and (missing or not _ended(ending, lines)):
        error = stopped(ending, missing.call if missing else None)
    return _Verdict(outcomes, _passed(outcomes), len(suite.cases), error)


def _of_script(ending: ProgramEnd, lines: list[Line]) -> _Verdict:
    last = only(lines, "passed")
    passed = count_in(last, "passed") if last else None
    if last is None or passed is None:
        started = _started(lines)
        error = stopped(ending, text_in(started, "started"))
        return _Verdict((), count_in(started, "held") or 0, None, error)
    if last.get("end") is True:
        return _Verdict((), passed, passed, None if _ended(ending, lines) else stopped(ending))
    outcome = _outcome(last, text_in(last, "test") or "the script")
    return _Verdict((outcome,), passed, None, first_failure([outcome]))


def _of_pytest(ending: ProgramEnd, lines: list[Line]) -> _Verdict:
    named = [(text_in(line, "test"), line) for line in lines if "test" in line]
    outcomes = tuple(_outcome(line, name) for name, line in named if name)
    error = first_failure(outcomes)
    last = only(lines, "end")
    passed, failed = (count_in(last or {}, name) for name in ("passed", "failed"))
    if passed is None or failed is None or not _ended(ending, lines):
        collected = count_in(only(lines, "collected") or {}, "collected")
        test = text_in(_started(lines), "started")
        return _Verdict(outcomes, _passed(outcomes), collected, error or stopped(ending, test))
    if error is None and failed:
        error = Failure(message=f"{failed:,} tests fail")
    if error is None and not passed:
        error = Failure(message=NO_TEST)
    return _Verdict(outcomes, passed, passed + failed, error)


def _started(lines: list[Line]) -> Line:
    """Return what was begun last; nothing where that is not known."""
    return next((line for line in reversed(lines) if "started" in line), {})


def _ended(ending: ProgramEnd, lines: list[Line]) -> bool:
    last = only(lines, "end")
    return last is not None and last["end"] is True and ending.status in HARMLESS


def _passed(outcomes: tuple[TestOutcome, ...]) -> int:
    return sum(outcome.passed for outcome in outcomes)


def _outcome(line: Line, name: str) -> TestOutcome:
    parts = {part: text_in(line, part) for part in ("expected", "got", "message", "traceback")}
    return TestOutcome(test=name, passed=line.get("passed") is True, **parts)


def result_lines(result: Result, nonce: str) -> list[Line]:
    """List the objects on the lines that begin with the nonce; whatever else there is, is left."""
    found: list[Line] = []
    for text in f"{result.stdout.head}\n{result.stdout.tail}".split("\n"):
        if text.startswith(nonce):
            with suppress(ValueError, RecursionError):
                value = json.loads(text.removeprefix(nonce))
                found += [value] if isinstance(value, dict) else []
    return found


def only(lines: list[Line], name: str) -> Line | None:
    """Return the one line that has a member of this name; None where there are none or several."""
    found = [line for line in lines if name in line]
    return found[0] if len(found) == 1 else None


def text_in(line: Line, name: str) -> str | None:
    """Return a text under a name, or None where there is nothing, or no text."""
    value = line.get(name)
    return value if isinstance(value, str) and value else None


def count_in(line: Line, name: str) -> int | None:
    """Return a count under a name, or None where there is none."""
    value = line.get(name)
    return value if type(value) is int and 0 <= value <= MOST else None
