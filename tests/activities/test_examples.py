"""What is read of a prompt before any code is written."""

from temporalio.testing import ActivityEnvironment

from activities.checks import ExamplesTask, read_examples
from tests.activities.code_tests.problems import PROBLEMS


async def test_the_entry_of_every_problem_is_found() -> None:
    """Each prompt of HumanEval leaves one function to be written, some beside others."""
    environment = ActivityEnvironment()

    for each in PROBLEMS:
        read = await environment.run(read_examples, ExamplesTask(prompt=each.prompt, entry=None))
        assert read.entry == each.entry
