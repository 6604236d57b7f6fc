"""What a run of reflection looks up and checks by rules, as quick local activities.

Not in workflow code: rules change, and a run under way must not notice. History has what they said.
"""

import asyncio

from temporalio import activity

from reflection.critique.complexity import complexity
from reflection.critique.criteria import Criterion
from reflection.critique.guardrails import Checked, Report, check, known_guardrails
from reflection.critique.request import ReflectOnResultRequest
from reflection.request import Record


class Prepared(Record):
    """What a run is held to for as long as it lasts.

    `complexity` is the query's, 0 to 1, as given or estimated. `unknown` are the guardrails that
    the request names and this worker does not have.
    """

    complexity: float
    criteria: tuple[Criterion, ...]
    unknown: tuple[str, ...] = ()


class CheckTask(Record):
    """A draft with all that guardrails may look at, and which of them shall."""

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
