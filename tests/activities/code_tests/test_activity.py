"""What is made of a sandbox's results, by a scripted sandbox."""

import json
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.sandbox.port import PackageError, Program, SandboxError, Status
from mull.multipath.request import Limits
from mull.multipath.suite import Suite
from tests.activities.code_tests.suites import cases, file, tried
from tests.scripted import ScriptedSandbox, answering, finished

RIGHT: list[dict[str, Any]] = [{"case": 0, "value": "4"}, {"case": 1, "value": "0"}, {"end": True}]
OVER: dict[str, object] = {"end": True, "passed": 0, "failed": 0}
SUITE = cases(_2="4", _0="0")


async def test_no_expected_value_is_in_the_program() -> None:
    """The program has the calls, and none of what they should return."""
    sandbox = ScriptedSandbox([answering(*RIGHT)])

    await tried(sandbox, "def f(x): ...", cases(_2="'zanzibar'", _0="0"))

    (program,) = sandbox.programs
    assert "f(2)" in program.input
    assert "zanzibar" not in program.model_dump_json()


async def test_each_program_has_a_nonce_of_its_own() -> None:
    """What one program prints is no result of another."""
    sandbox = ScriptedSandbox([answering(*RIGHT), answering(*RIGHT)])

    for _ in range(2):
        await tried(sandbox, "", SUITE)

    first, second = (json.loads(each.input)["nonce"] for each in sandbox.programs)
    assert first != second
    assert len(first) == 32


@pytest.mark.parametrize("status", ["ok", "error", "exited_early"])
async def test_all_right_values_pass(status: Status) -> None:
    """A program that gave all values and came to its end passes, whatever it prints besides."""
    reply = answering(
        *RIGHT, status=status, before='{"case": 0, "value": "5"}\n{"broken": "it"}\n', after="noise"
    )

    report = await tried(ScriptedSandbox([reply]), "", SUITE)

    assert report.error is None
    assert (report.passed, report.total, report.attempts) == (2, 2, 1)


SAID: list[tuple[list[dict[str, Any]], Status]] = [
    ([], "ok"),
    (RIGHT[:2], "ok"),
    (RIGHT[1:], "ok"),
    ([*RIGHT, RIGHT[0]], "ok"),
    ([*RIGHT, RIGHT[2]], "ok"),
    ([{"case": "0", "value": "4"}, *RIGHT[1:]], "ok"),
    ([{"case": 0, "value": 4}, *RIGHT[1:]], "ok"),
    ([{"case": 0, "value": None}, *RIGHT[1:]], "ok"),
    ([{"case": 0, "value": "5"}, *RIGHT[1:]], "ok"),
    ([{"case": 0, "too_long": 1}, *RIGHT[1:]], "ok"),
    ([{"too_long": 1}, *RIGHT[1:]], "ok"),
    ([{"case": 0, "value": "\ud800"}, *RIGHT[1:]], "ok"),
    ([{"case": 0, "message": "\ud800", "traceback": "\ud800"}, *RIGHT[1:]], "ok"),
    ([*RIGHT, {"broken": "\ud800"}], "ok"),
    ([*RIGHT, {"unreadable": "\ud800"}], "ok"),
    ([*RIGHT[:2], {"end": 1}], "ok"),
    ([*RIGHT, {"broken": "it broke"}], "ok"),
    ([*RIGHT, {"broken": None}], "ok"),
    (RIGHT, "timeout"),
    (RIGHT, "memory_limit"),
    (RIGHT, "killed_by_signal"),
]
SAID_OF_FILES: list[tuple[Suite, list[dict[str, Any]]]] = [
    (file("t.py", "x"), [{"passed": 2, "end": True}, {"passed": 2, "end": True}]),
    (file("t.py", "x"), [{"passed": -1, "end": True}]),
    (file("t.py", "x"), [{"passed": True, "end": True}]),
    (file("t.py", "x"), [{"passed": 2}]),
    (file("t.py", "x"), [{"end": True}]),
    (file("test_t.py", "x"), [{"passed": 2, "failed": 1, "end": True}]),
    (file("test_t.py", "x"), [{"passed": 2, "end": True}]),
    (file("test_t.py", "x"), [{"test": "a", "passed": 1}, {**OVER, "passed": 1}]),
    (file("test_t.py", "x"), [OVER]),
    (file("test_t.py", "x"), [{"test": "\ud800", "message": "\udfff"}, {**OVER, "passed": 1}]),
    (file("t.py", "x"), [{"passed": 2, "test": "\ud800", "got": "\udfff"}]),
    (file("t.py", "x"), [{"started": "\ud800", "held": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("suite", "said", "status", "total"),
    [
        *((SUITE, said, status, 2) for said, status in SAID),
        *((suite, said, "ok", None) for suite, said in SAID_OF_FILES),
    ],
)
async def test_anything_else_is_a_failure(
    suite: Suite, said: list[dict[str, object]], status: Status, total: int | None
) -> None:
    """Missing, doubled or malformed lines, and an end by a limit, are failures of the code.

    So are counts that are none, and verdicts that contradict each other.
    """
    report = await tried(ScriptedSandbox([answering(*said, status=status)]), "", suite)

    assert report.error is not None
    assert total is None or report.total == total


async def test_a_program_is_what_the_task_asks_for() -> None:
    """Its limits with room for the results, its packages, and code that UTF-8 can hold."""
    sandbox = ScriptedSandbox([answering(*RIGHT)])
    limits = Limits(wall_seconds=60, memory_mb=64, output_bytes=1_000)

    await tried(sandbox, "x = '\ud800'", SUITE, limits=limits, packages=("pydantic",))

    [program] = sandbox.programs
    assert program.limits == limits.model_copy(update={"output_bytes": 100_000})
    assert program.packages == ("pydantic",)
    assert program.files["solution.py"] == "x = '\ufffd'"


async def test_limits_that_the_worker_lowered_are_told() -> None:
    """What is below what was asked for is a warning, and a limit that held is none."""
    held = Limits(wall_seconds=2, memory_mb=512)
    reply = finished(Program(code="", limits=held), status="timeout")

    report = await tried(ScriptedSandbox([reply]), "", SUITE, limits=Limits(wall_seconds=30))

    assert report.warnings == ("the worker allows wall_seconds 2, not the 30 that were asked for",)


async def test_code_that_is_too_large_fails() -> None:
    """What the sandbox can't take is a failure of the code, with its size."""
    report = await tried(ScriptedSandbox([]), "x" * 1_000_001, SUITE)

    assert report.error is not None
    assert "more than 1,000,000" in report.error.message


@pytest.mark.parametrize(
    ("error", "kind", "lasting"),
    [
        (SandboxError("no room"), "sandbox_error", False),
        (PackageError("no such package"), "PackageError", True),
    ],
)
async def test_the_sandbox_s_own_failure_is_no_verdict(
    error: SandboxError, kind: str, lasting: bool
) -> None:
    """Temporal tries again where the sandbox failed, unless no try like it can work."""
    with pytest.raises(ApplicationError) as caught:
        await tried(ScriptedSandbox([error]), "", SUITE)

    assert (caught.value.type, caught.value.non_retryable) == (kind, lasting)
