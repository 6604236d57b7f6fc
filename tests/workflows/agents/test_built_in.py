"""Whole runs in built-in environments, on a real server and with a real sandbox."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from temporalio.client import Client

import worker
from activities.documents.folder import FolderRetriever
from activities.documents.roots import Roots
from activities.environments.code import code_tasks
from activities.environments.documents import document_tasks
from activities.environments.port import Named
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.sandbox import ProcessSandbox
from activities.tools.activity import ToolActivities
from adapters import QUEUES
from mull.agents.result import ReflexionResult
from mull.multipath.request import Limits
from tests.activities.code_tests.problems import PROBLEMS
from tests.conftest import STRICT
from tests.patience import PATIENCE
from tests.workflows.agents.running import ScriptedAgent, start

EXAMPLES = Path(__file__).parents[3] / "examples"
PROBLEM = PROBLEMS[2]
TEST = "A number in between.\ntest\n```python\nassert truncate_number(1.25) == 0.25\n```"
WRONG = "[answer]\n```python\ndef truncate_number(number):\n    return number // 1\n```"
RIGHT = f"[answer]\n```python\n{PROBLEM.solution}```"


async def run(client: Client, request: dict[str, str], **served: Any) -> tuple[Any, bytes]:
    async with AsyncExitStack() as stack:
        built = worker.build(client, QUEUES, called=ToolActivities({}), **served, **STRICT)
        for one in built:
            await stack.enter_async_context(one)
        handle = await start(client, request)
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        events = (await handle.fetch_history()).events
        whole = b"".join(event.SerializeToString() for event in events)
        return ReflexionResult.model_validate(result), whole


async def test_the_hidden_test_is_in_no_prompt_and_no_payload(client: Client) -> None:
    """A second episode solves a problem of HumanEval by its own tests; then its test passes."""
    model = ScriptedAgent([TEST, WRONG, TEST, RIGHT], ["I rounded down. Next time I subtract."])
    sandbox = ProcessSandbox(Bubblewrap.find(), Limits(), at_once=4)
    environments = [Named("code", code_tasks(sandbox, {}))]

    result, history = await run(
        client,
        {"environment": "code", "task": PROBLEM.name},
        model=model,
        sandbox=sandbox,
        environments=environments,
    )

    assert (result.status, len(result.episodes)) == ("solved", 2)
    assert (result.hidden_passed, result.verified_by) == (True, "cases")
    assert [one.verified_by for one in result.episodes] == ["cases", "cases"]
    assert "expected 0.25, got 1.0" in model.prompts("reflect")[0]
    assert "candidate(1.33)" in PROBLEM.check
    assert b"truncate_number(1.25)" in history
    # Seconds of a time may be 11.33.
    assert re.search(rb"(?<!\d)1\.33(?!\d)", history) is None
    assert "1.33" not in "".join(call.prompt for call in model.calls)


async def test_a_question_is_answered_from_documents(client: Client, tmp_path: Path) -> None:
    """A search, a look and the right answer, whose return is its F1."""
    variables = {"MULL_TASKS": str(EXAMPLES), "MULL_DOCUMENTS": str(EXAMPLES)}
    retriever = FolderRetriever(Roots([str(EXAMPLES)]), tmp_path)
    model = ScriptedAgent(["Search[grant fund]", "Lookup[fund]", "Finish [answer] 30 June"])
    environments = [Named("documents", document_tasks(retriever, variables))]
    task = {"task": "fund", "tasks": "heating-questions.jsonl", "docs": "documents"}

    result, _ = await run(
        client, {"environment": "documents", **task}, model=model, environments=environments
    )
    retriever.close()

    assert (result.status, result.answer) == ("solved", "30 June")
    assert result.episodes[0].episode_return == 1
