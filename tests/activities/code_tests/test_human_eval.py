"""Problems of HumanEval, each with its own solution and with a broken one.

Every fourth is tried: `bench.human_eval` has all.
"""

import ast
import asyncio

from temporalio.testing import ActivityEnvironment

from activities.checks import ExamplesTask, read_examples
from activities.sandbox.port import Sandbox
from mull.multipath.extraction import examples
from mull.multipath.suite import Suite, TestReport
from tests.activities.code_tests.problems import PROBLEMS, Problem, broken
from tests.activities.code_tests.suites import file, tried

# Their prompts give a value that their own solutions, and their own tests, contradict.
WRONG_PROMPTS = {"HumanEval/47", "HumanEval/116", "HumanEval/148"}
SOME = [each for each in PROBLEMS[::4] if each.name not in WRONG_PROMPTS]


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
        assert isinstance(ast.parse(each.error.test or "").body[0], ast.Assert), name
        raised = each.error.message.startswith("TypeError: ")
        assert raised or "broken" in (each.error.got or ""), name
    raising = [each for each in reports.values() if each.error and each.error.got is None]
    assert len(raising) < 3


async def test_the_entry_of_every_problem_is_found() -> None:
    """Each prompt leaves one function to be written, some beside others."""
    for each in PROBLEMS:
        task = ExamplesTask(prompt=each.prompt, entry=None)
        assert (await ActivityEnvironment().run(read_examples, task)).entry == each.entry


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
