"""The code path: where the tests come from, what is kept, and what is not believed."""

from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.language_model.port import PermanentModelError, SampleError
from reflection.multipath.result import Draft
from reflection.multipath.suite import Case
from tests.conftest import failure
from tests.scripted import AgentTurn, code, written_tests
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
DOWN = PermanentModelError("no such key", "AuthenticationError", 401)
EMPTY = SampleError("the reply is empty", "EmptyReply")
BROKEN = ApplicationError("no namespace", type="sandbox_error")
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


async def test_unreadable_tests_are_asked_for_once_more(client: Client) -> None:
    """The model is shown what was wrong, and its second reply counts."""
    few = written_tests("double", {"double(1)": "2"})
    model = coding(GOOD, write_tests=[[few, written_tests("double", CASES)]])

    result = await write_code(client, model, PASSED)

    assert result.stop_reason == "passed"
    assert "only 1 of its tests can be used" in model.asked("write_tests")[1].prompt


@pytest.mark.parametrize("said", [["no", "no again"], DOWN])
async def test_without_tests_the_first_draft_is_kept_and_open(
    client: Client, said: AgentTurn | list[AgentTurn]
) -> None:
    """Code that nothing can be held against is given back untested, and the reason says so."""
    model = coding(GOOD, write_tests=[said])

    result = await write_code(client, model)

    assert (result.output, result.stop_reason, result.open) == (GOOD + "\n", "test_failed", True)
    assert "no usable tests" in result.stop_explanation
    assert (result.suite, result.revisions) == (None, 1)


async def test_a_reply_without_code_is_asked_for_once_more(client: Client) -> None:
    """The model is told that there was no code, and its second reply counts."""
    model = coding(generate_code=[["I can't do that.", code(GOOD)]])

    result = await write_code(client, model, PASSED)

    assert (result.stop_reason, result.revisions) == ("passed", 1)
    assert "the reply contains no Python code" in model.asked("generate_code")[1].prompt


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["no", "no again"], "the reply contains no Python code"),
        ([EMPTY] * 3, "the reply is empty"),
    ],
)
async def test_no_first_code_is_an_outcome(
    client: Client, said: AgentTurn | list[AgentTurn], why: str
) -> None:
    """A model that writes none leaves a result without output, and the reason says so."""
    result = await write_code(client, coding(generate_code=[said]))

    assert (result.output, result.stop_reason, result.open) == (None, "generation_failed", True)
    assert "no draft could be generated" in result.stop_explanation
    assert why in result.stop_explanation


async def test_a_writer_that_is_down_fails_the_run(client: Client) -> None:
    """Where no call can be made there is nothing to keep: the run fails by the provider's class."""
    async with served(client, coding(generate_code=[DOWN]), ScriptedTester()):
        error = await failure(await start(client, prompt=TASK))

    assert error.type == "AuthenticationError"


@pytest.mark.parametrize("said", [["no", "no again"], DOWN, EMPTY])
async def test_a_repair_that_can_t_be_had_keeps_what_there_is(
    client: Client, said: AgentTurn | list[AgentTurn]
) -> None:
    """The first draft comes back with its error, and the reason names what failed."""
    model = coding(generate_code=[code(BAD), said])

    result = await write_code(client, model, report(False, True, True))

    assert (result.output, result.stop_reason) == (BAD + "\n", "generation_failed")
    assert (result.open, result.error is not None) == (True, True)


@pytest.mark.parametrize(
    ("passed", "kept"),
    [
        ([(True, True, False), (False, True, False), (True, False, False)], 0),
        ([(True, False, False), (True, True, False), (True, False, False)], 1),
        ([(True, True, False), (True, False, False), (False, True, True)], 2),
    ],
)
async def test_the_draft_that_passes_most_is_kept(
    client: Client, passed: list[tuple[bool, ...]], kept: int
) -> None:
    """The best code is the result, the latest among equals, with its own E."""
    drafts = ["a = 1", "a = 2", "a = 3"]
    tests = {"text": "...", "name": "test_a.py"}

    result = await write_code(
        client,
        coding(*drafts),
        *(report(*each) for each in passed),
        max_revisions=3,
        tests=tests,
    )

    assert (result.kept, result.output) == (kept, drafts[kept] + "\n")
    assert result.error == result.drafts[kept].error
    assert (result.stop_reason, result.open) == ("max_revisions", True)


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


async def test_three_drafts_that_fail_a_test_do_not_end_a_run(client: Client) -> None:
    """The writer is asked for the drafts that are left, and the test stays believed."""
    wrong, model = report(True, False, True), coding(GOOD, GOOD, GOOD, GOOD)

    result = await write_code(client, model, wrong, wrong, wrong, PASSED)

    assert (result.stop_reason, result.revisions, result.quarantined) == ("passed", 4, ())


async def test_the_best_code_passes_by_what_is_believed_at_the_end(client: Client) -> None:
    """An earlier draft that fails a disputed test alone is the result, which is open."""
    passed = [(False, True, True), (False, True, False), (False, False, True)]
    drafts = ["a = 1", "a = 2", "a = 3"]

    result = await write_code(
        client, coding(*drafts), *(report(*each) for each in passed), max_revisions=3
    )

    assert (result.stop_reason, result.open, result.error) == ("max_revisions", True, None)
    assert (result.kept, result.output) == (0, "a = 1\n")
    assert [each.error is None for each in result.drafts] == [True, False, False]


async def test_a_user_s_test_is_always_believed(client: Client) -> None:
    """However many drafts fail it, E stays set."""
    wrong = report(True, False, True)

    result = await write_code(client, coding(*[GOOD] * 5), *[wrong] * 5, tests=TESTS)

    assert (result.stop_reason, result.revisions, result.quarantined) == ("max_revisions", 5, ())
    assert result.error is not None


async def test_a_sandbox_that_fails_is_tried_again_and_then_ends_the_run(client: Client) -> None:
    """Untested code is kept and open, and the reason is the sandbox's."""
    tester = ScriptedTester(BROKEN)

    result = await run(client, coding(GOOD), tester, prompt=TASK, max_attempts=2)

    assert len(tester.tasks) == 2
    assert (result.output, result.stop_reason, result.open) == (GOOD + "\n", "test_failed", True)
    assert "sandbox_error: no namespace" in result.stop_explanation


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
