"""Quick local activities: look up settings, check drafts by rules, and read a prompt's examples.

They are not workflow code, so that rules can change while a run is open: history keeps the results.
"""

from importlib import import_module

from temporalio import activity

from activities.readers import read_apart
from reflection.critique.complexity import complexity
from reflection.critique.criteria import Criterion
from reflection.critique.guardrails import (
    Checked,
    Report,
    check,
    known_guardrails,
    modules_of,
    named_guardrails,
)
from reflection.critique.request import ReflectOnResultRequest
from reflection.multipath.cases import entry_in, entry_of
from reflection.multipath.extraction import examples
from reflection.multipath.suite import Case
from reflection.request import Record
from reflection.text import terminal_safe


class Prepared(Record):
    """The criteria and guardrails of a run, fixed when it starts.

    `complexity` is the query's, 0 to 1, as given or estimated. `unknown` are the guardrails that
    the request names but this worker does not have, `guardrails` the others, each by its own name.
    """

    complexity: float
    criteria: tuple[Criterion, ...]
    unknown: tuple[str, ...] = ()
    guardrails: tuple[str, ...] = ()


class CheckTask(Record):
    """A draft with everything that guardrails may read, and the guardrails to run."""

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
        unknown=tuple(name for name in request.guardrails if name not in known),
        guardrails=named_guardrails(request.guardrails),
    )


@activity.defn
async def check_draft(task: CheckTask) -> Report:
    """Run the named guardrails in a process that is ended after five seconds; report what fails."""
    modules = modules_of(task.guardrails)
    try:
        return await read_apart(_check, modules, task.checked, task.guardrails)
    except RuntimeError as error:
        apart = "they run in a process of their own, without the worker's variables"
        said = f"the guardrails could not be run: {terminal_safe(str(error), 200)}; {apart}"
        return Report(failures=(said,))


def _check(modules: tuple[str, ...], checked: Checked, names: tuple[str, ...]) -> Report:
    for module in modules:
        import_module(module)
    return check(checked, names)


class ExamplesTask(Record):
    """A prompt, the function it asks for if the request names one, and the user's tests."""

    prompt: str
    entry: str | None
    tests: str | None = None


class Examples(Record):
    """The calls in the prompt with their values, and the function it asks for."""

    cases: tuple[Case, ...]
    entry: str | None = None


@activity.defn
async def read_examples(task: ExamplesTask) -> Examples:
    """Read the examples in a prompt; there are none if the user has tests.

    The entry is the request's, or else the function that the prompt leaves to be written, or else
    the one that all its examples call.
    """
    return await read_apart(_read, task)


def _read(task: ExamplesTask) -> Examples:
    entry = task.entry or entry_in(task.prompt)
    if task.tests is not None:
        return Examples(cases=(), entry=entry)
    cases = examples(task.prompt, entry)
    return Examples(cases=cases, entry=entry or entry_of(cases))
