"""Problems of HumanEval through the agent: each is written wrongly first, and then repaired."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from temporalio import activity
from temporalio.client import Client

import worker
from activities.language_model.port import ModelCall, ModelReply
from activities.sandbox.port import Sandbox
from adapters import QUEUES
from mull.multipath.result import MultiPathResult
from mull.multipath.suite import Failure, TestFile
from tests.activities.code_tests.problems import BREAKINGS, Problem
from tests.scripted import ScriptedModel, code, routed, written_tests

AT_ONCE = 8
TESTS: dict[str, Callable[[Problem], TestFile | None]] = {
    "script": lambda problem: problem.script,
    "pytest": lambda problem: problem.pytest_file,
    "prompt": lambda _: None,
}


class Run(NamedTuple):
    """A problem with what came of it, and in how many seconds."""

    problem: Problem
    result: MultiPathResult
    seconds: float

    @property
    def first(self) -> Failure | None:
        """E of the first draft."""
        return self.result.drafts[0].error

    @property
    def repaired(self) -> bool:
        """Whether it took exactly two drafts, the first one wrong, and ended as passed."""
        result = self.result
        ended = (result.stop_reason, result.error, result.revisions, result.kept)
        return ended == ("passed", None, 2, 1) and self.first is not None


class Repairing(ScriptedModel):
    """A model for many runs at once, each with a script of its own by the workflow's id."""

    def __init__(self) -> None:
        self._scripts: dict[str, ScriptedModel] = {}
        super().__init__(each=self._said)

    def begin(self, problem: Problem, broken: str) -> str:
        """Return the id of a run in which this problem is written wrongly, and then rightly."""
        run = f"human-eval-{problem.name.rpartition('/')[2]}-{uuid.uuid4().hex[:8]}"
        self._scripts[run] = ScriptedModel(
            route=[routed("code")],
            write_tests=[[written_tests(problem.entry, problem.cases)] * 2],
            generate_code=[code(broken), *[code(problem.solution)] * 4],
        )
        return run

    async def _said(self, call: ModelCall) -> ModelReply:
        return await self._scripts[activity.info().workflow_id or ""].complete(call)


async def solve(client: Client, model: Repairing, problem: Problem, tests: str, kind: str) -> Run:
    started = time.perf_counter()
    file = TESTS[tests](problem)
    request: dict[str, Any] = {"prompt": problem.prompt}
    if file is not None:
        request["tests"] = file.model_dump()
    broken = BREAKINGS[kind](problem.solution, problem.entry)
    result = await client.execute_workflow(
        "MultiPathWorkflow", request, id=model.begin(problem, broken), task_queue="mull"
    )
    return Run(problem, MultiPathResult.model_validate(result), time.perf_counter() - started)


async def solve_all(
    client: Client,
    sandbox: Sandbox,
    problems: Sequence[Problem],
    tests: str,
    kind: str,
    at_once: int = AT_ONCE,
    **workflow_options: Any,
) -> list[Run]:
    model, room = Repairing(), asyncio.Semaphore(at_once)

    async def solved(problem: Problem) -> Run:
        async with room:
            return await solve(client, model, problem, tests, kind)

    async with worker.running(
        worker.build(client, QUEUES, model, sandbox=sandbox, **workflow_options)
    ):
        return await asyncio.gather(*map(solved, problems))
