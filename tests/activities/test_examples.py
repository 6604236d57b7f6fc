"""What is read of a prompt before any code is written."""

import pytest
from temporalio.testing import ActivityEnvironment

from activities.checks import ExamplesTask, read_examples
from tests.activities.code_tests.problems import PROBLEMS

TESTS = "from solution import f\n\ndef test_f():\n    assert f(2) == 4\n"


@pytest.mark.parametrize(
    ("prompt", "entry", "tests", "found", "calls"),
    [
        ("Double a number.\n>>> f(2)\n4", None, None, "f", ["f(2)"]),
        ("f(2) == 4\ng(2) == 5", "g", None, "g", ["g(2)"]),
        ("def g(x): ...\n", None, None, "g", []),
        ("Double a number.", "g", None, "g", []),
        ("Double a number.", None, None, None, []),
        ("Double a number.", None, TESTS, None, []),
        ("f(2) == 4", "g", TESTS, "g", []),
        ("def g(x): ...\n", None, TESTS, "g", []),
    ],
)
async def test_the_entry_is_found(
    prompt: str, entry: str | None, tests: str | None, found: str | None, calls: list[str]
) -> None:
    """It is the request's, the prompt's, the examples' or the tests' own, in this order."""
    task = ExamplesTask(prompt=prompt, entry=entry, tests=tests)

    read = await ActivityEnvironment().run(read_examples, task)

    assert (read.entry, [each.call for each in read.cases]) == (found, calls)


async def test_the_entry_of_every_problem_is_found() -> None:
    """Each prompt of HumanEval leaves one function to be written, some beside others."""
    environment = ActivityEnvironment()

    for each in PROBLEMS:
        read = await environment.run(read_examples, ExamplesTask(prompt=each.prompt, entry=None))
        assert read.entry == each.entry
