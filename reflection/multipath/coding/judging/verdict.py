"""From what came out of the sandbox to E: which test failed, and how."""

from collections.abc import Mapping, Sequence

from reflection.multipath.coding.judging.comparing import difference
from reflection.multipath.coding.reading.literals import NoLiteralError, read_literal
from reflection.multipath.coding.suite import Case, Failure, TestOutcome
from reflection.multipath.request import Limits
from reflection.run import Record, cut_encoded, encoded_size
from reflection.text import terminal_safe, well_formed

# Together with the names of the fields E takes at most 8 kB.
FAILURE_BYTES = {
    "message": 1_500,
    "test": 1_200,
    "expected": 1_200,
    "got": 1_200,
    "traceback": 2_200,
    "status": 60,
}
OUTCOME_BYTES = {"test": 600, "expected": 300, "got": 300, "message": 300, "traceback": 500}
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
SILENT = "the code gave no result: it ended the process, or closed or garbled what is read of it"


class Answer(Record):
    """What a call gave: its value as a Python expression, or why there is none."""

    value: str | None = None
    message: str | None = None
    traceback: str | None = None


class Ending(Record):
    """How the program ended, in the sandbox's words, and the limits that held."""

    status: str
    exit_code: int | None
    signal: int | None
    limits: Limits


def judge(cases: Sequence[Case], answers: Mapping[int, Answer]) -> tuple[TestOutcome, ...]:
    """Compare the answers with what is expected; a case that gave no answer has no outcome."""
    return tuple(_outcome(case, answers[n]) for n, case in enumerate(cases) if n in answers)


def first_failure(outcomes: Sequence[TestOutcome]) -> Failure | None:
    """Return E by the first outcome that failed; None where none did."""
    failed = next((each for each in outcomes if not each.passed), None)
    if failed is None:
        return None
    return bounded(
        Failure(
            message=failed.message or "the test fails",
            test=failed.test,
            expected=failed.expected,
            got=failed.got,
            traceback=failed.traceback,
        )
    )


def stopped(ending: Ending, test: str | None = None) -> Failure:
    """Return E for a program that did not give all results; `test` is what it ran at the end."""
    words = STOPPED.get(ending.status, SILENT)
    message = words.format(limits=ending.limits, signal=ending.signal, exit_code=ending.exit_code)
    status = None if ending.status in {"ok", "error"} else ending.status
    return bounded(Failure(message=message, test=test, status=status))


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
        each = TestOutcome.model_validate(_cut(outcomes[number], OUTCOME_BYTES))
        left -= encoded_size(each.model_dump_json())
        kept.append(each if left > 0 else TestOutcome(test=each.test, passed=each.passed))
    return tuple(kept)


def _outcome(case: Case, answer: Answer) -> TestOutcome:
    if answer.value is None:
        failed = _failed(case, None, answer.message or "gives no result")
        return failed.model_copy(update={"traceback": answer.traceback})
    try:
        said = difference(read_literal(case.expected), read_literal(answer.value))
    except NoLiteralError:
        return _failed(case, answer.value, "returns what can't be compared")
    if said is None:
        return TestOutcome(test=case.call, passed=True, expected=case.expected)
    got, expected = terminal_safe(answer.value, IN_WORDS), terminal_safe(case.expected, IN_WORDS)
    return _failed(case, answer.value, f"gives {got}, and {expected} is expected ({said})")


def _failed(case: Case, got: str | None, what: str) -> TestOutcome:
    return TestOutcome(
        test=case.call,
        passed=False,
        expected=case.expected,
        got=got,
        message=f"{terminal_safe(case.call, IN_WORDS)} {what}",
    )


def _cut(record: Record, sizes: Mapping[str, int]) -> dict[str, object]:
    known = record.model_dump()
    for name, size in sizes.items():
        known[name] = _shortened(known[name], size, ends_well=name == "traceback")
    return known


def _shortened(text: str | None, size: int, *, ends_well: bool) -> str | None:
    """Keep the beginning of a text, or its end where that says most."""
    whole = well_formed(text or "")
    if encoded_size(whole) <= size:
        return whole or None
    kept = cut_encoded(whole[::-1], size)[::-1] if ends_well else cut_encoded(whole, size)
    return f"…{kept}" if ends_well else f"{kept}…"
