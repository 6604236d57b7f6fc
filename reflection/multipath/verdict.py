"""The verdict on code: comparing values, E from the sandbox's report, and quarantined tests."""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import NamedTuple

from reflection.multipath.cases import NoLiteralError, read_literal
from reflection.multipath.request import Limits
from reflection.multipath.suite import (
    OUTCOME_BYTES,
    Case,
    Failure,
    Suite,
    TestOutcome,
    TestReport,
)
from reflection.run import Record, cut_encoded, encoded_size
from reflection.text import tally_words, terminal_safe, well_formed

RELATIVE = 1e-9
ABSOLUTE = 1e-12

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

# How many different drafts must fail a test before it is quarantined, and how many drafts at
# the end of a run.
DRAFTS = 3
DRAFTS_AT_THE_END = 2

Numeric = int | float | complex


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


class Reported(NamedTuple):
    """The text of a draft, and what the tests say of it, whole."""

    text: str
    report: TestReport


def judge(cases: Sequence[Case], answers: Mapping[int, Answer]) -> tuple[TestOutcome, ...]:
    """Compare the answers with what is expected; a case that gave no answer has no outcome."""
    return tuple(_outcome(case, answers[n]) for n, case in enumerate(cases) if n in answers)


def _outcome(case: Case, answer: Answer) -> TestOutcome:
    what = answer.message or "gives no result"
    if answer.value is not None:
        try:
            said = difference(read_literal(case.expected), read_literal(answer.value))
        except NoLiteralError:
            what = "returns a value that can't be compared"
        else:
            if said is None:
                return TestOutcome(test=case.call, passed=True, expected=case.expected)
            got, wanted = (terminal_safe(text, IN_WORDS) for text in (answer.value, case.expected))
            what = f"gives {got}, expected {wanted} ({said})"
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
    return Failure.model_validate(_cut(failure, FAILURE_BYTES))


def brief(outcomes: Sequence[TestOutcome]) -> tuple[TestOutcome, ...]:
    """Keep at most MOST_OUTCOMES in their order, failed ones first of all, cut for a history.

    Once they take ALL_BYTES, only the tests and whether they passed are kept.
    """
    chosen = sorted(range(len(outcomes)), key=lambda n: (outcomes[n].passed, n))[:MOST_OUTCOMES]
    kept, left = [], ALL_BYTES
    for number in sorted(chosen):
        outcome = TestOutcome.model_validate(_cut(outcomes[number], OUTCOME_BYTES))
        left -= encoded_size(outcome.model_dump_json())
        bare = TestOutcome(test=outcome.test, passed=outcome.passed)
        kept.append(outcome if left > 0 else bare)
    return tuple(kept)


def _status(status: str) -> str | None:
    return None if status in {"ok", "error"} else status


def _cut(record: Record, sizes: Mapping[str, int]) -> dict[str, object]:
    known = record.model_dump()
    for name, size in sizes.items():
        text = well_formed(known[name] or "")
        if encoded_size(text) > size and name == "traceback":
            # The end of a traceback matters most; of other texts, the beginning.
            text = f"…{cut_encoded(text[::-1], size)[::-1]}"
        elif encoded_size(text) > size:
            text = f"{cut_encoded(text, size)}…"
        known[name] = text or None
    return known


def difference(expected: object, got: object, place: str = "") -> str | None:
    """Describe how two plain values differ; None if they are the same.

    Values are compared as by `==`, except that numbers that are not both integers may differ by a
    relative 1e-9 or an absolute 1e-12, nan equals nan, and a boolean is not a number. Members of
    sets and keys of dicts are compared without tolerance. `place` is the position in the whole.
    """
    at = f" at {place}" if place else ""
    if _kind(expected) != _kind(got):
        return f"{_kind(got)}{at}, expected {_kind(expected)}"
    parts: Iterable[tuple[object, object, object]]
    if isinstance(expected, dict) and isinstance(got, dict):
        wanted = {_hashed(key): (key, value) for key, value in expected.items()}
        found = {_hashed(key): value for key, value in got.items()}
        if wanted.keys() != found.keys():
            return f"other keys{at}"
        parts = ((value, found[key], _shown(name)) for key, (name, value) in wanted.items())
    elif isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            return f"{tally_words(len(got), 'item')}{at}, expected {len(expected):,}"
        parts = zip(expected, got, range(len(got)), strict=True)
    else:
        return None if _same(expected, got) else f"another value{at}"
    said = (difference(value, other, f"{place}[{name}]") for value, other, name in parts)
    return next(filter(None, said), None)


def _shown(key: object) -> str:
    try:
        return repr(key)[:40]
    except ValueError:
        # Python refuses to write an integer of more than 4,300 digits.
        return "a very large key"


def _same(expected: object, got: object) -> bool:
    if isinstance(expected, AnySet) and isinstance(got, AnySet):
        return {_hashed(member) for member in expected} == {_hashed(member) for member in got}
    if expected == got:
        return True
    if not isinstance(expected, Numeric) or not isinstance(got, Numeric):
        return False
    if isinstance(expected, int) and isinstance(got, int):
        return False
    try:
        wanted, found = complex(expected), complex(got)
    except OverflowError:
        # An integer too large for a float.
        return False
    return all(
        math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        or (math.isnan(one) and math.isnan(other))
        for one, other in ((wanted.real, found.real), (wanted.imag, found.imag))
    )


def _hashed(value: object) -> object:
    """Make a key that is the same for the same values: True is not 1, and nan is nan."""
    if isinstance(value, float) and math.isnan(value):
        return "nan", None
    if isinstance(value, tuple):
        return "tuple", tuple(_hashed(part) for part in value)
    if isinstance(value, frozenset):
        return "set", frozenset(_hashed(member) for member in value)
    return _kind(value), value


def _kind(value: object) -> str:
    """Name what a value is; all numbers are one kind, and so are all sets."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, Numeric):
        return "a number"
    return "a set" if isinstance(value, AnySet) else f"a {type(value).__name__}"


def quarantine(
    drafts: Sequence[Reported], suite: Suite, *, last: bool = False
) -> tuple[TestOutcome, ...]:
    """Return the last outcome of each test that is probably wrong itself.

    That is a case written by the model that failed with every draft that ran it: at least three
    different texts, or any two drafts once the `last` is made. If all cases would be quarantined,
    none is: then the drafts are wrong.
    """
    if suite.origin != "model" or suite.kind != "cases":
        return ()
    doubted = []
    for case in suite.cases:
        told = [
            (draft.text.strip(), outcome)
            for draft in drafts
            for outcome in draft.report.outcomes
            if outcome.test == case.call
        ]
        # Identical drafts count once: a repeated draft is no further evidence.
        different = len({text for text, _ in told})
        enough = len(told) >= DRAFTS_AT_THE_END if last else different >= DRAFTS
        if enough and not any(outcome.passed for _, outcome in told):
            doubted.append(told[-1][1])
    return tuple(doubted) if len(doubted) < len(suite.cases) else ()


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
