"""Runs of the agent with fakes of all that is outside: model, documents, sandbox."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.code_tests.activity import TestTask
from activities.documents.retrieval import Retrieval, Retriever
from activities.language_model.port import LanguageModel
from activities.sandbox.port import TASK_QUEUE
from mull.multipath.parts import Passage
from mull.multipath.result import MultiPathResult
from mull.multipath.suite import Failure, TestOutcome, TestReport
from tests import conftest
from tests.conftest import Handle, begin
from tests.scripted import ScriptedModel, ScriptedRetriever, code, reflection, routed, written_tests

Tested = TestReport | ApplicationError

PROMPT = "Which harbour has the highest tide?"
TASK = "Write the function double(n) that doubles a number."
CASES = {"double(1)": "2", "double(2)": "4", "double(0)": "0"}
FINE = "The highest tide is at Burntcoat Head [1]."
WRONG = "The tide is high."
GOOD = "def double(n):\n    return 2 * n"
BAD = "def double(n):\n    return n + 2"


def passage(number: int = 1, text: str = "Burntcoat Head has the highest tide.") -> Passage:
    return Passage(
        id=f"p{number}",
        source=f"tides-{number}.md",
        first_line=3,
        last_line=5,
        score=9.0 - number,
        text=text,
    )


def report(*passed: bool, calls: Sequence[str] = tuple(CASES)) -> TestReport:
    outcomes = tuple(
        TestOutcome(test=call, passed=held, expected="2", got="3")
        for call, held in zip(calls, passed, strict=False)
    )
    failed = next((each for each in outcomes if not each.passed), None)
    error = failed and Failure(
        message="it returned another value", test=failed.test, expected="2", got="3"
    )
    return TestReport(
        outcomes=outcomes,
        passed=sum(passed),
        total=len(outcomes),
        error=error,
        forgeable=False,
        status="ok",
        backend="scripted",
    )


def finding(*passages: Passage, delay: float = 0) -> ScriptedRetriever:
    """A folder in which these passages are found, once, and one file that is no text."""
    found = Retrieval(passages=passages, files=2, searched=1, left_out=("a.bin: no text",))
    return ScriptedRetriever([found], delay=delay)


class ScriptedTester:
    """Say of draft i what stands at place i, and fail loudly where nothing does."""

    def __init__(self, *script: Tested, delay: float = 0) -> None:
        self._script = script
        self._delay = delay
        self.tasks: list[TestTask] = []

    @activity.defn
    async def test_code(self, task: TestTask) -> TestReport:
        self.tasks.append(task)
        for _ in range(round(self._delay * 10)):
            activity.heartbeat()
            await asyncio.sleep(0.1)
        if task.index >= len(self._script):
            raise ApplicationError("nothing to test", type="ScriptExhausted", non_retryable=True)
        said = self._script[task.index]
        if isinstance(said, ApplicationError):
            raise said
        return said

    def worker(self, client: Client) -> Worker:
        return Worker(client, task_queue=TASK_QUEUE, activities=[self.test_code])


def researching(*reports: str, **turns: Any) -> ScriptedModel:
    """A model that writes these reports, and finds something wrong in all but the last."""
    said = [reflection(f"mend {number}") for number in range(1, len(reports))]
    script = {
        "route": [routed("research")],
        "generate_report": list(reports),
        "reflect_on_report": [*said, reflection()],
    }
    return ScriptedModel(**{**script, **turns})


def coding(*drafts: str, **turns: Any) -> ScriptedModel:
    """A model that writes the tests of `CASES`, and then this code."""
    script = {
        "route": [routed("code")],
        "write_tests": [written_tests("double", CASES)],
        "generate_code": [code(each) for each in drafts],
    }
    return ScriptedModel(**{**script, **turns})


def served(
    client: Client,
    model: LanguageModel,
    tester: ScriptedTester | None = None,
    retriever: Retriever | None = None,
    **options: Any,
) -> AbstractAsyncContextManager[None]:
    more = [] if tester is None else [tester.worker(client)]
    options = {"retriever": retriever} | options
    return conftest.served(client, model, ["mull", "llm"], *more, **options)


async def start(client: Client, **fields: Any) -> Handle:
    return await begin(client, {"prompt": PROMPT, **fields}, "MultiPathWorkflow")


async def ended(handle: Handle) -> MultiPathResult:
    return MultiPathResult.model_validate(await conftest.ended(handle))


async def run(
    client: Client,
    model: LanguageModel,
    tester: ScriptedTester | None = None,
    retriever: Retriever | None = None,
    /,
    **fields: Any,
) -> MultiPathResult:
    async with served(client, model, tester, retriever):
        return await ended(await start(client, **fields))


async def research(
    client: Client, model: LanguageModel, /, *passages: Passage, **fields: Any
) -> MultiPathResult:
    """Run once over documents that hold these passages; over none, without documents."""
    known = {"docs": "tides", **fields} if passages else fields
    return await run(client, model, None, finding(*passages), **known)


async def write_code(
    client: Client, model: LanguageModel, /, *reports: Tested, **fields: Any
) -> MultiPathResult:
    """Run the task to double a number once, with what the tests say of each draft."""
    return await run(client, model, ScriptedTester(*reports), **{"prompt": TASK, **fields})
