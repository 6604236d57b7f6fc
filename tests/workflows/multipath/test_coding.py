"""The code path: where the tests come from, what is kept, and what is not believed."""

from typing import Any

import pytest
from temporalio.client import Client

from mull.multipath.result import Draft
from mull.multipath.suite import Case
from tests.workflows.multipath.running import (
    BAD,
    CASES,
    GOOD,
    TASK,
    ScriptedTester,
    coding,
    ended,
    report,
    run,
    served,
    start,
    write_code,
)

PASSED = report(True, True, True)
TESTS = {"name": "test_double.py", "text": "def test_two(): ..."}


async def test_code_is_repaired_by_e(client: Client) -> None:
    """The failed test goes back with the code, and the repaired code is the result."""
    model = coding(BAD, GOOD)

    result = await write_code(client, model, report(False, True, False), PASSED)

    asked = model.asked("generate_code")[1].prompt
    assert BAD in asked
    assert "double(1)" in asked
    assert "it returned another value" in asked
    assert (result.output, result.stop_reason, result.open) == (GOOD + "\n", "passed", False)
    assert [each.error is None for each in result.drafts] == [False, True]
    assert [(each.passed, each.total) for each in map(report_of, result.drafts)] == [(1, 3), (3, 3)]


@pytest.mark.parametrize("name", ["test_double.py", "checks.py"])
async def test_a_user_s_tests_come_first(client: Client, name: str) -> None:
    """The user's file is what the code is held to, and nobody is asked for other tests."""
    model, tester = coding(GOOD), ScriptedTester(PASSED)

    result = await run(
        client, model, tester, prompt=f"{TASK}\n>>> double(4)\n8", tests={**TESTS, "name": name}
    )

    suite = tester.tasks[0].suite
    assert (suite.origin, suite.file and suite.file.name) == ("user", name)
    assert suite.kind == ("pytest" if name.startswith("test_") else "script")
    assert result.suite == suite
    assert model.asked("write_tests") == []


async def test_a_prompt_s_examples_come_next(client: Client) -> None:
    """What the prompt shows is what the code is held to, and nobody is asked for tests."""
    model, tester = coding(GOOD), ScriptedTester(PASSED)

    await run(client, model, tester, prompt=f"{TASK}\n>>> double(4)\n8")

    suite = tester.tasks[0].suite
    assert (suite.origin, suite.cases) == ("prompt", (Case(call="double(4)", expected="8"),))
    assert model.asked("write_tests") == []


async def test_the_model_s_tests_are_shown_in_the_result(client: Client) -> None:
    """They are decided before the code, with a seed, and are the same for every draft."""
    model, tester = coding(BAD, GOOD), ScriptedTester(report(False, True, True), PASSED)

    result = await run(client, model, tester, prompt=TASK, entry="double", seed=5)

    assert [each.suite for each in tester.tasks] == [result.suite, result.suite]
    assert result.suite is not None
    assert {each.call: each.expected for each in result.suite.cases} == CASES
    assert [each.seed for each in model.asked("write_tests")] == [5]


async def test_a_test_of_the_model_s_own_that_no_draft_passes_is_not_believed(
    client: Client,
) -> None:
    """It is set aside once all drafts failed it; the result is open, and says what each gave."""
    wrong = report(True, False, True)

    drafts = [f"{GOOD}# {number}" for number in range(5)]

    result = await write_code(client, coding(*drafts), *[wrong] * 5)

    assert (result.stop_reason, result.open, result.error) == ("max_revisions", True, None)
    (disputed,) = result.quarantined
    assert disputed.test == "double(2)"
    assert disputed.given == tuple(f"draft {number} gave 3" for number in range(1, 6))
    assert "except 1 test written by the model" in result.stop_explanation


async def test_limits_and_packages_reach_the_tests(client: Client) -> None:
    """Each run of the code has the bounds and the packages of the request."""
    tester = ScriptedTester(PASSED)
    limits: dict[str, Any] = {"wall_seconds": 3, "memory_mb": 64}

    async with served(client, coding(GOOD), tester):
        asked = {"prompt": TASK, "limits": limits, "packages": ["numpy"]}
        await ended(await start(client, **asked))

    (task,) = tester.tasks
    assert (task.limits.wall_seconds, task.limits.memory_mb) == (3, 64)
    assert (task.packages, task.code) == (("numpy",), GOOD + "\n")


def report_of(draft: Draft) -> Any:
    assert draft.report is not None
    return draft.report
