"""The examples in a prompt, read in a quick local activity.

Not in workflow code: the reading changes, and a run under way must not notice.
"""

import asyncio

from temporalio import activity

from reflection.multipath.coding.examples import examples
from reflection.multipath.coding.suite import Case
from reflection.request import Record


class ExamplesTask(Record):
    """A prompt, and the function that it asks for, where the request names one."""

    prompt: str
    entry: str | None


class Examples(Record):
    """The calls that the prompt gives with their values."""

    cases: tuple[Case, ...]


@activity.defn
async def read_examples(task: ExamplesTask) -> Examples:
    """Read the examples that a prompt gives."""
    return Examples(cases=await asyncio.to_thread(examples, task.prompt, task.entry))
