"""Problems of HumanEval, each with its own solution and with a broken one.

Every fourth is tried: `bench.human_eval` has all.
"""

import ast
import asyncio

import pytest

from activities.sandbox.port import Sandbox
from reflection.multipath.extraction import examples
from reflection.multipath.request import Limits
from reflection.multipath.suite import Suite, TestReport
from tests.activities.code_tests.problems import BREAKINGS, PROBLEMS, Problem, broken
from tests.activities.code_tests.suites import file, tried

# Their prompts give a value that their own solutions, and their own tests, contradict.
WRONG_PROMPTS = {"HumanEval/47", "HumanEval/116", "HumanEval/148"}
SUM_PRODUCT = PROBLEMS[8]
SOME = [each for each in PROBLEMS[::4] if each.name not in WRONG_PROMPTS]
FIRST = "assert candidate([]) == (0, 1)"
SECOND = "assert candidate([1, 1, 1]) == (3, 1)"
# What is wrong, what is said of it, and the test that it shows in.
WAYS = [
    ("another type", "AssertionError: ('broken', (0, 1)) == (0, 1) is false", FIRST),
    ("another operator", "AssertionError: (-3, 4) == (3, 1) is false", SECOND),
    ("off by one", "AssertionError: (1, 2) == (0, 1) is false", FIRST),
    ("nothing returned", "AssertionError: None == (0, 1) is false", FIRST),
    ("printed, not returned", "AssertionError: None == (0, 1) is false", FIRST),
    ("an exception", "ValueError: broken", FIRST),
    ("an assertion of its own", "AssertionError: broken", FIRST),
    ("no implementation", "NotImplementedError", FIRST),
    ("a missing import", "NameError: name 'nowhere' is not defined", FIRST),
    ("a module that is not there", "ModuleNotFoundError: No module named", None),
    ("no Python", "line 4: SyntaxError", None),
    ("bad indentation", "line 20: IndentationError", None),
    ("another name", "NameError: name 'sum_product' is not defined", "check(sum_product)"),
    ("no parameter", "TypeError: sum_product() takes 0 positional arguments", FIRST),
    ("a generator", "AssertionError: <generator object", FIRST),
    ("a coroutine", "AssertionError: <coroutine object", FIRST),
    ("endless recursion", "RecursionError: maximum recursion depth exceeded", FIRST),
    ("an endless loop", "the code ran for 2 s and was stopped", FIRST),
    ("an endless wait", "the code ran for 2 s and was stopped", FIRST),
    ("reading input", "EOFError: EOF when reading a line", FIRST),
    ("exit(0)", "SystemExit: 0", FIRST),
    ("sys.exit(0)", "SystemExit: 0", FIRST),
    ("os._exit(0)", "the code ended the process before its tests were over", FIRST),
    ("os._exit(0) on import", "the code ended the process before its tests", None),
    ("sys.exit(0) on import", "SystemExit: 0", None),
    ("a signal", "the code was ended by the signal 9", FIRST),
    ("memory without end", "MemoryError", FIRST),
    ("output without end", "the code printed more than 1,000,000 bytes", FIRST),
    ("nothing at all", "NameError: name 'sum_product' is not defined", "check(sum_product)"),
]


async def of_all(sandbox: Sandbox, *, whole: bool) -> dict[str, TestReport]:
    """Hold each solution to its problem's tests, as many at once as the sandbox takes."""

    async def report(problem: Problem) -> TestReport:
        code = problem.solution if whole else broken(problem.solution, problem.entry)
        return await tried(sandbox, code, file("human_eval.py", problem.check, problem.entry))

    reports = await asyncio.gather(*map(report, SOME))
    return {each.name: found for each, found in zip(SOME, reports, strict=True)}


async def test_every_solution_passes(sandbox: Sandbox) -> None:
    """The tests of a problem hold for the solution that comes with it."""
    reports = await of_all(sandbox, whole=True)

    assert {name: each.error for name, each in reports.items() if each.error} == {}
    assert all(each.passed > 0 and each.total == each.passed for each in reports.values())


async def test_every_broken_solution_fails_for_the_right_reason(sandbox: Sandbox) -> None:
    """E of each is an assertion of the problem's own that compared a wrong value, or raised."""
    reports = await of_all(sandbox, whole=False)

    for name, each in reports.items():
        assert each.error is not None, name
        assert each.status == "ok", name
        assert _is_an_assertion(each.error.test or ""), name
        raised = each.error.message.startswith("TypeError: ")
        assert raised or "broken" in (each.error.got or ""), name
    raising = [each for each in reports.values() if each.error and each.error.got is None]
    assert len(raising) < 3


def _is_an_assertion(text: str) -> bool:
    return isinstance(ast.parse(text).body[0], ast.Assert)


async def test_the_examples_of_the_prompts_hold(sandbox: Sandbox) -> None:
    """What is read as an example in a prompt is one, but where the prompt itself is wrong."""
    wrong = [each for each in PROBLEMS if each.name in WRONG_PROMPTS]
    found = {each.name: examples(each.prompt, None) for each in PROBLEMS}
    tested = [each for each in (*SOME, *wrong) if found[each.name]]

    async def holds(problem: Problem) -> bool:
        suite = Suite(origin="prompt", kind="cases", cases=found[problem.name])
        report = await tried(sandbox, problem.solution, suite)
        assert all(problem.entry in each.test for each in report.outcomes)
        return report.error is None

    held = await asyncio.gather(*map(holds, tested))

    verdicts = {each.name: right for each, right in zip(tested, held, strict=True)}
    assert {name for name, right in verdicts.items() if not right} == WRONG_PROMPTS
    assert sum(bool(cases) for cases in found.values()) == 133


@pytest.mark.parametrize(("kind", "message", "test"), WAYS)
async def test_however_it_is_broken_e_says_how(
    sandbox: Sandbox, kind: str, message: str, test: str | None
) -> None:
    """No way to break a solution passes, and each has its own words and its test, if one began."""
    code = BREAKINGS[kind](SUM_PRODUCT.solution, SUM_PRODUCT.entry)
    given = SUM_PRODUCT.script
    limits = Limits(wall_seconds=2, memory_mb=128)

    report = await tried(sandbox, code, file(given.name, given.text), limits=limits)

    assert report.error is not None
    assert message in report.error.message
    assert report.error.test == test


def test_every_way_of_breaking_is_tried() -> None:
    """The table above has each of them."""
    assert [kind for kind, _, _ in WAYS] == list(BREAKINGS)
