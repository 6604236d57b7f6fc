"""The examples in a prompt, and what it asks for, read in a quick local activity.

Not in workflow code: the reading changes, and a run under way must not notice.
"""

import asyncio

from temporalio import activity

from reflection.multipath.cases import entry_in, entry_of, entry_tested
from reflection.multipath.extraction import examples
from reflection.multipath.suite import Case
from reflection.request import Record


class ExamplesTask(Record):
    """A prompt, the function that it asks for, where the request names one, and a user's tests."""

    prompt: str
    entry: str | None
    tests: str | None = None


class Examples(Record):
    """The calls that the prompt gives with their values, and the function that is asked for."""

    cases: tuple[Case, ...]
    entry: str | None = None


@activity.defn
async def read_examples(task: ExamplesTask) -> Examples:
    """Read the examples that a prompt gives; none where the user has tests.

    The entry is the request's, or what the prompt leaves to be written, or what all its examples,
    or the user's tests, call.
    """
    return await asyncio.to_thread(_read, task)


def _read(task: ExamplesTask) -> Examples:
    entry = task.entry or entry_in(task.prompt)
    if task.tests is not None:
        return Examples(cases=(), entry=entry or entry_tested(task.tests))
    cases = examples(task.prompt, entry)
    return Examples(cases=cases, entry=entry or entry_of(cases))
