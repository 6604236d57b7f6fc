"""A user's pytest file, run in a real sandbox beside the code."""

import re

import pytest

from activities.code_tests.activity import build_program
from activities.sandbox.port import Sandbox
from mull.multipath.request import Limits
from tests.activities.code_tests.suites import cases, failed, file, tried

TESTS = """\
import pytest
from solution import f

@pytest.mark.parametrize("x", [1, 2])
def test_doubles(x):
    assert f(x) == 2 * x

def test_refuses():
    with pytest.raises(TypeError):
        f(None)

@pytest.mark.skip
def test_nothing():
    pass

@pytest.mark.xfail
def test_later():
    assert f(2) == 5

def test_folder(tmp_path):
    (tmp_path / "a").write_text("a")
"""


async def test_code_that_is_right_passes(sandbox: Sandbox) -> None:
    """Each test that ran is an outcome; what is skipped or expected to fail counts for nothing."""
    report = await tried(sandbox, "def f(x): return x + x\n", file("test_f.py", TESTS))

    assert report.error is None
    assert [each.test for each in report.outcomes] == [
        "test_f.py::test_doubles[1]",
        "test_f.py::test_doubles[2]",
        "test_f.py::test_refuses",
        "test_f.py::test_folder",
    ]
    assert (report.passed, report.total) == (4, 4)
    assert report.forgeable


async def test_code_that_is_wrong_fails(sandbox: Sandbox) -> None:
    """E names the test, what it compared, and the frames of the tests and of the code."""
    code = "def f(x): return x + x if x == 1 else g(x)\ndef g(x): return x\n"

    report, error = await failed(sandbox, code, file("f_test.py", TESTS))

    assert (error.test, error.expected, error.got) == ("f_test.py::test_doubles[2]", "4", "2")
    assert "assert 2 == (2 * 2)" in error.message
    assert 'File "f_test.py", line 6, in test_doubles' in (error.traceback or "")
    assert [each.passed for each in report.outcomes] == [True, False, False, True]
    assert (report.passed, report.total) == (2, 4)


UNNAMED = "cannot import name 'f' from 'solution'"
UNTESTED = "pytest found no test to run, or skipped all of them"
EXITED = "the code ended the process before its tests were over"
STOPPED = "^the code ran for 3 s and was stopped$"
SECOND = "test_f.py::test_doubles[2]"


@pytest.mark.parametrize(
    ("code", "text", "seconds", "test", "said", "passed", "total"),
    [
        ("def g(x): return x\n", TESTS, 20, "test_f.py", UNNAMED, 0, 1),
        ("def f(x): return x\n", "x = 1\n", 20, None, UNTESTED, 0, 0),
        (
            "import os\ndef f(x): return x + x if x == 1 else os._exit(0)\n",
            *(TESTS, 20, SECOND, EXITED, 1, 6),
        ),
        (
            "def f(x):\n    while x == 2: pass\n    return x + x\n",
            *(TESTS, 3, SECOND, STOPPED, 1, 6),
        ),
    ],
    ids=["no collection", "no tests", "an exit", "no end"],
)
async def test_what_was_not_checked_has_not_passed(
    sandbox: Sandbox, code: str, text: str, seconds: int, test: str | None, said: str,
    passed: int, total: int,
) -> None:  # fmt: skip
    """E says why; where the process ended, the tests before it count, and E names the one that ran.

    An exit is told as such.
    """
    limits = Limits(wall_seconds=seconds)

    report, error = await failed(sandbox, code, file("test_f.py", text), limits=limits)

    assert re.search(said, error.message)
    assert error.test == test
    assert (error.status == "exited_early") == ("os._exit" in code)
    assert (report.passed, report.total) == (passed, total)


@pytest.mark.parametrize("name", ["test_f", "test_f.v2.py", "test_solution.py"])
async def test_a_pytest_file_may_have_any_name(sandbox: Sandbox, name: str) -> None:
    """What pytest could not import by its name is renamed."""
    report = await tried(sandbox, "def f(x): return x + x\n", file(name, TESTS))

    assert report.error is None
    assert report.passed == 4


@pytest.mark.parametrize(
    ("name", "entry", "text"),
    [
        ("test_double.py", None, "from double import f\n"),
        ("double_test.py", None, "import double\nf = double.f\n"),
        ("test_it.py", "f", "from f import f\n"),
        ("test_json.py", None, "from json import dumps\nassert dumps(1) == '1'\n"),
        ("test_it.py", None, ""),
    ],
)
async def test_the_code_has_several_names(
    sandbox: Sandbox, name: str, entry: str | None, text: str
) -> None:
    """It is `solution`, what the file is named after, and what is asked for; or just there."""
    tests = f"{text}\n\ndef test_f():\n    assert f(max(1, 2)) == 4\n"
    code = "def f(x): return x + x\n\ndef max(*_): return 5\n"

    report = await tried(sandbox, code, file(name, tests, entry))

    assert (report.error, report.passed) == (None, 1)


async def test_a_fixture_that_fails_fails_its_test(sandbox: Sandbox) -> None:
    """An error in the set-up or the tear-down of a test is a failure of it, once."""
    text = (
        "import pytest\n"
        "@pytest.fixture\ndef before(): raise KeyError('before')\n"
        "@pytest.fixture\ndef after():\n    yield\n    raise KeyError('after')\n"
        "def test_before(before): pass\n"
        "def test_after(after): pass\n"
    )

    report = await tried(sandbox, "", file("test_f.py", text))

    assert [each.message for each in report.outcomes] == ["KeyError: 'before'", "KeyError: 'after'"]
    assert (report.passed, report.total) == (0, 2)


async def test_a_thousand_tests_are_counted(sandbox: Sandbox) -> None:
    """Of very many tests all are counted, and the outcomes stay few."""
    text = (
        "import pytest\nfrom solution import f\n"
        "@pytest.mark.parametrize('x', range(1200))\ndef test_f(x):\n    assert f(x) == x\n"
    )

    report = await tried(sandbox, "def f(x): return x - x // 1199\n", file("test_f.py", text))

    assert (report.passed, report.total) == (1199, 1200)
    assert report.error is not None
    assert len(report.outcomes) <= 50


def test_a_worker_without_pytest_names_what_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for pytest is refused by its name there; other tests run."""
    monkeypatch.setattr("activities.code_tests.activity.find_spec", lambda _: None)

    asked = [
        build_program("", suite, (), Limits(), "nonce").packages
        for suite in (file("test_f.py", TESTS), cases(_2="4"))
    ]

    assert asked == [("pytest",), ()]
