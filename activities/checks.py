"""What a run looks up, checks by rules and reads in a prompt, as quick local activities.

Not in workflow code: rules change, and a run under way must not notice. History has what they said.
"""

import asyncio

from temporalio import activity

from reflection.critique.criteria import Criterion, complexity
from reflection.critique.guardrails import Checked, Report, check, known_guardrails
from reflection.critique.request import ReflectOnResultRequest
from reflection.multipath.cases import entry_in, entry_of, entry_tested
from reflection.multipath.extraction import examples
from reflection.multipath.suite import Case
from reflection.run import Record


class Prepared(Record):
    """What a run is held to for as long as it lasts.

    `complexity` is the query's, 0 to 1, as given or estimated. `unknown` are the guardrails that
    the request names and this worker does not have.
    """

    complexity: float
    criteria: tuple[Criterion, ...]
    unknown: tuple[str, ...] = ()


class CheckTask(Record):
    """A draft with all that guardrails may look at, and which of them to run."""

    checked: Checked
    guardrails: tuple[str, ...]


@activity.defn
async def prepare_reflection(request: ReflectOnResultRequest) -> Prepared:
    """Estimate the query's complexity, and look up the criteria and the guardrails."""
    known = known_guardrails()
    given = request.complexity
    return Prepared(
        complexity=complexity(request.query) if given is None else given,
        criteria=request.judged_by,
        unknown=tuple(each for each in request.guardrails if each not in known),
    )


@activity.defn
async def check_draft(task: CheckTask) -> Report:
    """Run the named guardrails; one that fails is named in the report."""
    return await asyncio.to_thread(check, task.checked, task.guardrails)


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
