import signal
from typing import Any

import pytest

from activities.sandbox.limits import Ending, classify, parse_ending
from activities.sandbox.port import Status
from reflection.multipath.request import Limits

LIMITS = Limits(cpu_seconds=2)
DONE: dict[str, Any] = {"exit_code": 0, "mark": "done"}


@pytest.mark.parametrize(
    ("fired", "ending", "cpu_seconds", "expected"),
    [
        (None, DONE, 0.1, "ok"),
        (None, {"exit_code": 0, "mark": "executed"}, 0.1, "ok"),
        (None, {"exit_code": 3, "mark": "executed"}, 0.1, "error"),
        (None, {"exit_code": 0, "mark": "running"}, 0.1, "exited_early"),
        (None, {"exit_code": 3, "mark": "running"}, 0.1, "error"),
        (None, {**DONE, "exit_code": 1, "code": 1}, 0.1, "error"),
        # The kernel cuts 256 to 0, and Python says 120 where it could not write its output.
        (None, {**DONE, "exit_code": 0, "code": 256}, 0.1, "error"),
        (None, {**DONE, "exit_code": 120, "code": 0}, 0.1, "error"),
        (None, {**DONE, "exit_code": 1, "code": 1, "cause": "memory"}, 0.1, "memory_limit"),
        (None, {**DONE, "exit_code": 1, "code": 1, "cause": "full"}, 0.1, "disk_limit"),
        (None, {"exit_code": 1, "mark": "full", "cause": "full"}, 0.1, "disk_limit"),
        (None, {"signal": signal.SIGSEGV, "mark": "running"}, 0.1, "killed_by_signal"),
        (None, {"signal": signal.SIGSEGV, "mark": "done"}, 0.1, "killed_by_signal"),
        (None, {"signal": signal.SIGKILL, "mark": "running"}, 0.1, "killed_by_signal"),
        (None, {"signal": signal.SIGKILL, "mark": "running"}, 2.0, "cpu_limit"),
        (None, {"signal": signal.SIGXCPU, "mark": "running"}, 0.0, "cpu_limit"),
        (None, {"signal": signal.SIGXFSZ, "mark": "executed"}, 0.1, "disk_limit"),
        ("timeout", DONE, 9.0, "timeout"),
        ("output_limit", DONE, 0.1, "output_limit"),
        ("memory_limit", {"signal": signal.SIGKILL}, 9.0, "memory_limit"),
    ],
)
def test_status(
    fired: Status | None, ending: dict[str, Any], cpu_seconds: float, expected: Status
) -> None:
    """What the sandbox ended a program for goes first, then a signal, a limit, the exit code."""
    end = Ending(**ending)

    status = classify(fired, end, cpu_seconds, LIMITS)

    assert status == expected


def test_report_of_a_finished_program() -> None:
    """A report carries the exit code that the program asked for, beside the kernel's."""
    mark = b"done 256 memory".hex()

    ending = parse_ending(["0", "0", "0.250000", "9000", mark])

    assert ending == Ending(
        exit_code=0,
        cpu_seconds=0.25,
        memory_bytes=9_216_000,
        mark="done",
        code=256,
        cause="memory",
        detail="256 memory",
    )


def test_report_of_a_killed_program() -> None:
    """A program that a signal ended has no exit code."""
    ending = parse_ending(["-1", "9", "0.000000", "0", b"running ".hex()])

    assert (ending.exit_code, ending.signal, ending.mark) == (None, 9, "running")


@pytest.mark.parametrize("words", [[], ["0"], ["0", "0", "x", "0", "-"], ["0", "0", "0", "0", "q"]])
def test_report_that_is_none(words: list[str]) -> None:
    """What is no report is refused, so that nothing is made up from it."""
    with pytest.raises(ValueError, match=r"."):
        parse_ending(words)
