"""The verdict on code: comparing values, E from the sandbox's report, and quarantined tests."""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AnySet
from typing import TypeVar

from mull.multipath.cases import read_literal
from mull.multipath.request import Limits
from mull.multipath.result import Draft
from mull.multipath.suite import (
    OUTCOME_BYTES,
    Case,
    Disputed,
    Failure,
    Suite,
    TestOutcome,
    TestReport,
)
from mull.request import Record
from mull.text import cut_encoded, encoded_size, terminal_safe, well_formed

# Together with the names of the fields E takes at most 8 kB.
FAILURE_BYTES = {
    "message": 1_500,
    "test": 1_200,
    "expected": 1_200,
    "got": 1_200,
    "traceback": 2_200,
    "status": 60,
}
MOST_OUTCOMES = 50
ALL_BYTES = 16_000
IN_WORDS = 100

STOPPED = {
    "timeout": "the code ran for {limits.wall_seconds:g} s and was stopped",
    "cpu_limit": "the code used {limits.cpu_seconds:g} s of CPU time and was stopped",
    "memory_limit": "the code needed more than {limits.memory_mb:,} MB of memory and was stopped",
    "output_limit": "the code printed more than {limits.output_bytes:,} bytes and was stopped",
    "disk_limit": "the code wrote more than {limits.disk_mb:,} MB and was stopped",
    "killed_by_signal": "the code was ended by the signal {signal}",
    "exited_early": "the code ended the process before its tests were over",
    "error": "the code ended the process with the exit code {exit_code}",
}
SILENT = "the code gave no result: it ended the process, or closed or corrupted its output"

# How many drafts, at the least, must have failed a test that is set aside.
DRAFTS = 2

Numeric = int | float | complex
Cut = TypeVar("Cut", Failure, TestOutcome)


class Answer(Record):
    """The result of a call: its value as a Python expression, or why there is none."""

    value: str | None = None
    message: str | None = None
    traceback: str | None = None


class ProgramEnd(Record):
    """How the program ended, in the sandbox's words, and the limits that held."""

    status: str
    exit_code: int | None
    signal: int | None
    limits: Limits


def judge(cases: Sequence[Case], answers: Mapping[int, Answer]) -> tuple[TestOutcome, ...]:
    """Compare the answers with what is expected; a case that gave no answer has no outcome."""
    return tuple(_outcome(case, answers[n]) for n, case in enumerate(cases) if n in answers)


def _outcome(case: Case, answer: Answer) -> TestOutcome:
    what = answer.message or "gives no result"
    if answer.value is not None:
        try:
            if same(read_literal(case.expected), read_literal(answer.value)):
                return TestOutcome(test=case.call, passed=True, expected=case.expected)
        except ValueError:
            what = "returns a value that can't be compared"
        else:
            got, wanted = (terminal_safe(text, IN_WORDS) for text in (answer.value, case.expected))
            what = f"gives {got}, expected {wanted}"
    return TestOutcome(
        test=case.call,
        passed=False,
        expected=case.expected,
        got=answer.value,
        message=f"{terminal_safe(case.call, IN_WORDS)} {what}",
        traceback=answer.traceback,
    )


def first_failure(outcomes: Sequence[TestOutcome]) -> Failure | None:
    """Return E by the first outcome that failed; None where none did."""
    failed = next((outcome for outcome in outcomes if not outcome.passed), None)
    if failed is None:
        return None
    known = failed.model_dump(exclude={"passed"})
    return bounded(Failure.model_validate(known | {"message": failed.message or "the test fails"}))


def stopped(ending: ProgramEnd, test: str | None = None) -> Failure:
    """Return E for a program that did not give all results; `test` is what it ran at the end."""
    words = STOPPED.get(ending.status, SILENT)
    message = words.format(limits=ending.limits, signal=ending.signal, exit_code=ending.exit_code)
    return bounded(Failure(message=message, test=test, status=_status(ending.status)))


def bounded(failure: Failure) -> Failure:
    """Cut the parts of E, so that it takes at most 8 kB as JSON."""
    return _cut(failure, FAILURE_BYTES)


def brief(outcomes: Sequence[TestOutcome]) -> tuple[TestOutcome, ...]:
    """Keep at most MOST_OUTCOMES in their order, failed ones first of all, cut for a history.

    Once they take ALL_BYTES, only the tests and whether they passed are kept.
    """
    chosen = sorted(range(len(outcomes)), key=lambda n: (outcomes[n].passed, n))[:MOST_OUTCOMES]
    kept, left = [], ALL_BYTES
    for number in sorted(chosen):
        outcome = _cut(outcomes[number], OUTCOME_BYTES)
        left -= encoded_size(outcome.model_dump_json())
        bare = TestOutcome(test=outcome.test, passed=outcome.passed)
        kept.append(outcome if left > 0 else bare)
    return tuple(kept)


def _status(status: str) -> str | None:
    return None if status in {"ok", "error"} else status


def _cut(record: Cut, sizes: Mapping[str, int]) -> Cut:
    known: dict[str, str | None] = {}
    for name, size in sizes.items():
        text = well_formed(getattr(record, name) or "")
        if encoded_size(text) > size and name == "traceback":
            # The end of a traceback matters most; of other texts, the beginning.
            text = f"…{cut_encoded(text[::-1], size)[::-1]}"
        elif encoded_size(text) > size:
            text = f"{cut_encoded(text, size)}…"
        known[name] = text or None
    return record.model_copy(update=known)


def same(expected: object, got: object) -> bool:
    """Tell whether a plain value is the expected one.

    Values are compared as by `==`, except that where a float or complex is expected, numbers may
    differ by a relative 1e-9, or an absolute 1e-12 from 0; nan equals nan, and a boolean is not a
    number. Members of sets and keys of dicts are compared without tolerance.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        wanted, found = ({_key(key): key for key in values} for values in (expected, got))
        pairs = ((expected[wanted[key]], got[found[key]]) for key in wanted if key in found)
        return wanted.keys() == found.keys() and all(same(*pair) for pair in pairs)
    if isinstance(expected, list | tuple) and type(expected) is type(got):
        return len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, Numeric) and isinstance(got, Numeric):
        return _key(expected) == _key(got) or _close(expected, got)
    return _key(expected) == _key(got)


def _close(expected: Numeric, got: Numeric) -> bool:
    if isinstance(expected, int) or isinstance(got, bool):
        return False
    try:
        wanted, found = complex(expected), complex(got)
    except OverflowError:
        # An integer too large for a float.
        return False
    return all(
        math.isclose(one, other, rel_tol=1e-9, abs_tol=0 if one else 1e-12)
        or (math.isnan(one) and math.isnan(other))
        for one, other in ((wanted.real, found.real), (wanted.imag, found.imag))
    )


def _key(value: object) -> object:
    """Make a key that is the same for the same values: True is not 1, and nan is nan."""
    if isinstance(value, float) and math.isnan(value):
        return "nan", None
    if isinstance(value, tuple):
        return "tuple", tuple(_key(part) for part in value)
    if isinstance(value, AnySet):
        return "set", frozenset(_key(member) for member in value)
    return isinstance(value, bool), value


def quarantine(drafts: Sequence[Draft], suite: Suite, *, last: bool) -> tuple[Disputed, ...]:
    """Return the tests that are disputed, with what each draft gave.

    That is a case written by the model, once the `last` draft is made, that every draft ran and
    failed, two at least. If all cases would be set aside, none is: then the drafts are wrong.
    """
    if not last or suite.origin != "model" or suite.kind != "cases":
        return ()
    doubted = []
    for case in suite.cases:
        told = [
            (draft, outcome)
            for draft in drafts
            for outcome in (draft.report.outcomes if draft.report else ())
            if outcome.test == case.call
        ]
        enough = len(told) >= max(DRAFTS, len(drafts))
        if enough and not any(outcome.passed for _, outcome in told):
            given = tuple(f"draft {draft.index + 1} {_gave(outcome)}" for draft, outcome in told)
            doubted.append(Disputed(**dict(told[-1][1]), given=given))
    return tuple(doubted) if len(doubted) < len(suite.cases) else ()


def _gave(outcome: TestOutcome) -> str:
    if outcome.got is not None:
        return f"gave {terminal_safe(outcome.got, IN_WORDS)}"
    call = f"{terminal_safe(outcome.test, IN_WORDS)} "
    return terminal_safe((outcome.message or "failed").removeprefix(call), IN_WORDS)


def believed(report: TestReport, quarantined: Sequence[TestOutcome]) -> Failure | None:
    """Return E without the quarantined tests: None if only those fail.

    A program that did not give all its results keeps its error.
    """
    doubted = {outcome.test for outcome in quarantined}
    if report.error is None or report.error.test not in doubted or report.error.status:
        return report.error
    failure = first_failure([found for found in report.outcomes if found.test not in doubted])
    whole = report.total is not None and len(report.outcomes) >= report.total
    if failure or whole:
        return failure
    message = "the program ended before all tests gave a result"
    return Failure(message=message, status=_status(report.status))
