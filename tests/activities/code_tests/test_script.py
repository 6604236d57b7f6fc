"""A user's script of tests, run in a real sandbox beside the code."""

import pytest

from activities.sandbox.port import Sandbox
from mull.multipath.request import Limits
from tests.activities.code_tests.suites import failed, file, tried

DOUBLE = "def f(x):\n    return x + x\n"
CHECK = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n"


UNITS = """\
import unittest
from solution import f


class Doubling(unittest.TestCase):
    def test_two(self):
        self.assertEqual(f(2), 4)

    def test_three(self):
        self.assertEqual(f(3), 6)

"""
ENDINGS = ["", "unittest.main()\n", "if __name__ == '__main__':\n    unittest.main()\n"]
ENDINGS += ["unittest.TextTestRunner().run(unittest.TestSuite())\n"]


PASSING = [
    ("from solution import f\nassert f(2) == 4\n", 1),
    ("assert f(2) == 4\n", 1),
    ("import solution\nfor n in range(5):\n    assert solution.f(n) == 2 * n, n\n", 5),
    ("def g(n):\n    assert f(n)\n    return n\n\nassert g(1) < g(2) < g(3)\n", 4),
    ("assert not f(0)\nassert f('a') is not None\nassert 2 in f([2])\n", 3),
    ("if __name__ == '__main__':\n    assert f(1) == 2\n", 1),
    ("try:\n    assert f(1) == 3\nexcept AssertionError:\n    assert True\n", 1),
    ("assert f(1) == 2\nraise SystemExit\n", 1),
    ("if f(1) != 2:\n    raise SystemExit(1)\n", 0),
    ("import sys\nif f(1) != 2:\n    sys.exit(1)\n", 0),
    ("if f(1) != 2:\n    exit('no')\n", 0),
    ("import unittest\ncase = unittest.TestCase()\ncase.assertEqual(f(1), 2)\n", 0),
    ("import pytest\nwith pytest.raises(TypeError):\n    f(None)\n", 0),
    ("from numpy.testing import assert_allclose\nassert_allclose(f(1), 2)\n", 0),
    ("def check(candidate):\n    if candidate(1) != 2: raise ValueError\n", 0),
    ("from unittest import mock\nassert f(mock.sentinel.x and 2) == 4\n", 1),
    (CHECK, 2),
    (f"{CHECK}\ncheck(f)\n", 2),
    # It may begin with a docstring and imports of the future, and have loops in loops.
    ('"""What f does."""\nfrom __future__ import annotations\nassert f(2) == 4\n', 1),
    (
        "".join(f"{'  ' * n}for _ in [{n}]:\n" for n in range(15)) + f"{'  ' * 15}assert f(2) == 4",
        1,
    ),
]
NAMED = [
    *(("checks.py", *row, None) for row in PASSING),
    # Tests of unittest are run one by one, whether the script runs them itself or not.
    ("checks.py", UNITS + ENDINGS[0], 2, None),
    ("solution.py", UNITS + ENDINGS[1], 2, None),
    ("json.py", UNITS + ENDINGS[2], 2, None),
    ("checks", UNITS + ENDINGS[3], 2, None),
    # A file named as the code, or as a module of Python's own, takes the place of neither, and may
    # import the function from a module of the function's name.
    ("main.py", "from f import f\nassert f(2) == 4\n", 1, "f"),
    ("solution.py", "import json\nassert f(2) == 4\n", 1, "f"),
    ("json.py", "import json\nassert f(2) == 4\n", 1, "f"),
    ("checks", "import json\nassert f(2) == 4\n", 1, "f"),
    ("mull_inside", "assert f(2) == 4\n", 1, "f"),
]


@pytest.mark.parametrize(("name", "text", "passed", "entry"), NAMED)
async def test_code_that_is_right_passes(
    sandbox: Sandbox, name: str, text: str, passed: int, entry: str | None
) -> None:
    """Assertions that hold are counted as often as they ran, and the verdict could be forged."""
    report = await tried(sandbox, DOUBLE, file(name, text, entry))

    assert report.error is None
    assert (report.passed, report.total) == (passed, passed)
    assert report.forgeable


@pytest.mark.parametrize(
    ("assertion", "expected", "got", "message"),
    [
        ("assert f(2) == 4", "4", "5", "AssertionError: 5 == 4 is false"),
        ("assert 4 == f(2), 'no'", "4", "5", "AssertionError: no: 5 == 4 is false"),
        ("assert f(-1) is None", "None", "-1", "AssertionError: -1 is None is false"),
        ("assert f(2) < 5", None, "5", "AssertionError: 5 < 5 is false"),
        ("assert f(2) not in {5}", None, "5", "AssertionError: 5 not in {5} is false"),
        ("assert not f(2)", None, "5", "AssertionError: 5 is not false"),
        ("assert f(-0.5)", None, "0.0", "AssertionError: 0.0 is not true"),
        ("assert 1 < f(0) < 2", None, "False", "AssertionError: False is not true"),
        ("f('a')", None, None, "TypeError: can only concatenate str"),
        ("assert f('a') == 'aa'", None, None, "TypeError: can only concatenate str"),
        ("assert (\n    f(2)\n    == 4\n)", "4", "5", "AssertionError: 5 == 4 is false"),
        ("assert f(2) == object", "<class 'object'>", "5", "AssertionError: 5 == <class 'object'>"),
        ("raise SystemExit(3)", None, None, "SystemExit: 3"),
    ],
)
async def test_code_that_is_wrong_fails(
    sandbox: Sandbox, assertion: str, expected: str | None, got: str | None, message: str
) -> None:
    """E quotes the test that failed, with what it compared, and counts those before it."""
    text = f"assert f(0) == 1\n{assertion}\nassert False\n"

    report, error = await failed(sandbox, "def f(x): return x + x + 1\n", file("checks.py", text))

    assert (error.test, error.expected, error.got) == (assertion, expected, got)
    assert message in error.message
    assert (report.passed, report.total) == (1, None)


async def test_a_traceback_has_the_script_and_the_code(sandbox: Sandbox) -> None:
    """E leads from the line of the script to the line of the code."""
    code = "def f(x):\n    return {}[x]\n"

    _, error = await failed(sandbox, code, file("checks.py", "\nassert f(2) == 4\n"))

    assert (error.traceback or "").splitlines() == [
        'File "checks.py", line 2, in <module>',
        "    assert f(2) == 4",
        'File "solution.py", line 2, in f',
        "    return {}[x]",
        "KeyError: 2",
    ]


@pytest.mark.parametrize(
    ("code", "entry", "message"),
    [
        (DOUBLE, "f", None),
        (f"{DOUBLE}\n\ndef g(x):\n    return x\n", "f", None),
        (f"{DOUBLE}\n\ndef g(x):\n    return x\n", "g", "2 == 4 is false"),
        (f"{DOUBLE}\n\ndef _g(x):\n    return x\n", None, None),
        (DOUBLE, "g", "the code defines no g"),
        (f"{DOUBLE}\n\ndef g(x):\n    return x\n", None, "name it as the entry"),
        ("x = 1\n", None, "name it as the entry"),
    ],
)
async def test_a_check_is_called_with_the_entry(
    sandbox: Sandbox, code: str, entry: str | None, message: str | None
) -> None:
    """A script that defines check(candidate), and does not call it, is not passed unchecked."""
    report = await tried(sandbox, code, file("checks.py", CHECK, entry))

    assert (report.error is None) is (message is None)
    assert message is None or message in (report.error.message if report.error else "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def check(\n", "the tests can't be read: SyntaxError"),
        ("x = '\x00'\n", "null bytes"),
        ("import os\nos._exit(0)\n", "the code ended the process before its tests were over"),
        ("while True: pass\n", "the code ran for 1 s and was stopped"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("assert False\n", "False is not true"),
        ("from solution import f\nprint(f(2))\n", "the script checks nothing: write what must"),
        ("x = f(2)\n", "the script checks nothing"),
        ("def check(candidate):\n    candidate(2)\n", "the script checks nothing"),
        ("def check(candidate):\n    candidate(2)\ncheck(f)\n", "the script checks nothing"),
        ("import unittest\nprint(f(2))\n", "the script checks nothing"),
        ("import doctest, solution\ndoctest.testmod(solution)\n", "the script checks nothing"),
        ("def test_f():\n    assert f(2) == 4\n", "none of the script's assertions ran"),
        ("raise SystemExit\nassert f(2) == 4\n", "none of the script's assertions ran"),
    ],
)
async def test_a_script_that_is_broken_fails(sandbox: Sandbox, text: str, message: str) -> None:
    """Whatever a script does, its end without a verdict is no pass."""
    limits = Limits(wall_seconds=1)

    _, error = await failed(sandbox, DOUBLE, file("checks.py", text), limits=limits)

    assert message in error.message


@pytest.mark.parametrize(
    ("imported", "base", "ending"),
    [
        ("import unittest", "unittest.TestCase", ENDINGS[0]),
        ("import unittest as u", "u.TestCase", ENDINGS[1]),
        ("from unittest import TestCase as T", "T", ENDINGS[2]),
        ("import unittest", "unittest.TestCase", ENDINGS[3]),
    ],
)
async def test_a_script_of_unittest_names_what_fails(
    sandbox: Sandbox, imported: str, base: str, ending: str
) -> None:
    """E says which of its tests failed, and why."""
    text = f"import unittest\n{imported}\n{UNITS}{ending}".replace("unittest.TestCase", base)

    report, error = await failed(sandbox, "def f(x): return x * x\n", file("checks.py", text))

    assert error.test == "test_checks.py::Doubling::test_three"
    assert error.message == "AssertionError: 9 != 6"
    assert (report.passed, report.total) == (1, 2)


@pytest.mark.parametrize(
    ("code", "test", "passed", "status"),
    [
        ("while x: pass", "assert f(2) == 4", 1, "timeout"),
        ("if x: __import__('os')._exit(0)", "assert f(2) == 4", 1, "exited_early"),
        ("if x: __import__('os').kill(0, 9)", "assert f(2) == 4", 1, "killed_by_signal"),
        ("while x == 3: pass", "found = [\n    f(3) for _ in range(2)]", 2, "timeout"),
        ("while x == 4: pass", "for n in range(4, f(4)):", 2, "timeout"),
        ("while x == 5: pass", "return f(5)", 2, "timeout"),
    ],
)
async def test_code_that_never_returns_has_a_test_too(
    sandbox: Sandbox, code: str, test: str, passed: int, status: str
) -> None:
    """E names the statement that the program ended in, and what held before is counted."""
    text = (
        "def g():\n    return f(5)\n\nassert f(0) == 0\nassert f(2) == 4\n"
        "found = [\n    f(3) for _ in range(2)]\nfor n in range(4, f(4)):\n    g()\n"
    )

    limits = Limits(wall_seconds=1)
    code = f"def f(x):\n    {code}\n    return x + x\n"

    report, error = await failed(sandbox, code, file("checks.py", text), limits=limits)

    assert (error.test, error.status) == (test, status)
    assert report.passed == passed


async def test_no_test_is_named_rather_than_a_wrong_one(sandbox: Sandbox) -> None:
    """Of a script that does very much the statement that the program ended in is not known."""
    text = "n = 0\nwhile True:\n    n += f(1)\n    n -= f(0)\n    assert f(n) == 2 * n\n"

    limits = Limits(wall_seconds=1, output_bytes=1_000)

    _, error = await failed(sandbox, DOUBLE, file("checks.py", text), limits=limits)

    assert (error.test, error.status) == (None, "timeout")


async def test_a_long_script_is_read_in_time(sandbox: Sandbox) -> None:
    """Thousands of assertions leave the code nearly all of its time."""
    text = "".join(f"assert f({each}) == {2 * each}\n" for each in range(3_000))

    report = await tried(sandbox, DOUBLE, file("checks.py", text), limits=Limits(cpu_seconds=5))

    assert (report.error, report.passed) == (None, 3_000)
