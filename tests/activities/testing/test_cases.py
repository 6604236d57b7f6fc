"""Calls of the code, evaluated in a real sandbox and compared outside."""

import pytest

from activities.sandbox.port import Sandbox
from reflection.multipath.request import Limits
from reflection.multipath.suite import Case, Suite
from tests.activities.testing.trying import cases, tried

DOUBLES = cases(_2="4", _0="0", _3="6")


async def test_code_that_is_right_passes(sandbox: Sandbox) -> None:
    """All tests pass, nothing is forgeable, and the report says by which sandbox."""
    report = await tried(sandbox, "def f(x):\n    print('hello')\n    return 2 * x\n", DOUBLES)

    assert report.error is None
    assert (report.passed, report.total, report.status) == (3, 3, "ok")
    assert [each.test for each in report.outcomes] == ["f(2)", "f(0)", "f(3)"]
    assert not report.forgeable
    assert report.output == "hello\n" * 3
    assert report.backend == sandbox.name


async def test_code_that_is_wrong_fails(sandbox: Sandbox) -> None:
    """E says which test fails first, what is expected, and what came."""
    report = await tried(sandbox, "def f(x): return x * x\n", DOUBLES)

    assert report.error is not None
    assert report.error.test == "f(3)"
    assert (report.error.expected, report.error.got) == ("6", "9")
    assert report.error.message == "f(3) gives 9, and 6 is expected (another value)"
    assert (report.passed, report.total) == (2, 3)


async def test_a_traceback_has_the_frames_of_the_code_alone(sandbox: Sandbox) -> None:
    """What is between the code and the sandbox is left out, and what the library does inside."""
    code = "import json\n\n\ndef f(x):\n    return g(x)\n\n\ndef g(x):\n    return json.loads('')\n"

    report = await tried(sandbox, code, DOUBLES)

    assert report.error is not None
    assert (report.error.traceback or "").splitlines() == [
        'File "solution.py", line 5, in f',
        "    return g(x)",
        'File "solution.py", line 9, in g',
        "    return json.loads('')",
        "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ]
    assert report.error.message == (
        "f(2) raises JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    )


@pytest.mark.parametrize(
    ("code", "message", "traceback"),
    [
        (
            "def f(x):\n    return (\n",
            "line 2: SyntaxError: '(' was never closed",
            'File "solution.py", line 2',
        ),
        ("import nothing\n", "ModuleNotFoundError: No module named 'nothing'", "import nothing"),
        ("raise SystemExit(0)\n", "SystemExit: 0", "line 1, in <module>"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero", "line 1, in <module>"),
        ("x = '\x00'\n", "source code string cannot contain null bytes", ""),
        ("", "f(2) raises NameError: name 'f' is not defined", ""),
    ],
)
async def test_code_that_can_not_be_imported(
    sandbox: Sandbox, code: str, message: str, traceback: str
) -> None:
    """E is what importing it raised, a syntax error with its line, and no test passes."""
    report = await tried(sandbox, code, DOUBLES)

    assert report.error is not None
    assert message in report.error.message
    assert traceback in (report.error.traceback or "")
    assert (report.passed, report.total) == (0, 3)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("(each for each in [4])", "a value of the type generator, which is no plain data"),
        ("type('AlwaysEq', (), {'__eq__': lambda *_: True})()", "a value of the type AlwaysEq"),
        ("type('Four', (int,), {'__eq__': lambda *_: True})(5)", "a value of the type Four"),
        ("__import__('numpy').float64(4)", "a value of the type float64"),
        ("list(range(100_000))", "a value of more than 2,000 items"),
        ("'a' * 100_000", "a text of 100,000 characters"),
        ("1 << 100_000", "an integer of 100,001 bits"),
        ("(lambda a: a.append(a) or a)([])", "a value nested more than 50 deep"),
    ],
)
async def test_only_plain_data_is_compared(sandbox: Sandbox, value: str, said: str) -> None:
    """What is no exact builtin type, or too much, is never equal to anything."""
    report = await tried(sandbox, f"def f(x): return {value}\n", cases(_2="4"))

    assert report.error is not None
    assert f"f(2) returns {said}" in report.error.message


@pytest.mark.parametrize(
    "value",
    ["None", "True", "-4", "0.1", "'針\\n\\ud800'", "b'\\x00'", "(1,)", "()", "[[], {}]", "1j",
     "{'a': {1, 2}}", "set()", "frozenset({1})", "float('nan')", "float('-inf')", "10**1000"],
)  # fmt: skip
async def test_plain_data_comes_out_as_it_is(sandbox: Sandbox, value: str) -> None:
    """Every exact builtin type, and what has no literal of its own, is read as the same value."""
    expected = "1" + "0" * 1000 if value == "10**1000" else value
    suite = Suite(origin="user", kind="cases", cases=(Case(call="f(2)", expected=expected),))

    report = await tried(sandbox, f"def f(x): return {value}\n", suite)

    assert report.error is None


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("def f(x):\n    while x == 0: pass\n    return 2 * x\n", "timeout", "ran for 1 s"),
        ("def f(x):\n    return 2 * x if x else [0] * 10**9\n", "ok", "raises MemoryError"),
        ("def f(x):\n    while x == 0: print('a' * 9_000)\n    return 2 * x\n",
         "output_limit", "printed more than 1,000,000 bytes"),
        ("import os\ndef f(x):\n    return 2 * x if x else os.kill(os.getpid(), 9)\n",
         "killed_by_signal", "the signal 9"),
    ],
)  # fmt: skip
async def test_a_program_that_does_not_end_by_itself(
    sandbox: Sandbox, code: str, status: str, message: str
) -> None:
    """The tests before it count, and E names the limit and the test that ran."""
    report = await tried(sandbox, code, DOUBLES, limits=Limits(wall_seconds=1))

    assert report.error is not None
    assert report.error.test == "f(0)"
    assert report.status == status
    assert message in report.error.message
    assert report.outcomes[0].passed
