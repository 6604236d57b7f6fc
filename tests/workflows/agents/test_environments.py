"""Whole runs in environments: the built-in ones, and wrong ones, which end their run in words."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from activities.documents.folder import FolderRetriever
from activities.documents.roots import Roots
from activities.environments import activity
from activities.environments.code import code_tasks
from activities.environments.documents import document_tasks
from activities.environments.port import Evaluation, Named, StepResult
from activities.sandbox.bubblewrap import Bubblewrap
from activities.sandbox.sandbox import ProcessSandbox
from activities.tools.activity import ToolActivities
from adapters import QUEUES
from mull.agents.result import ReflexionResult
from mull.multipath.request import Limits
from tests import conftest
from tests.activities.code_tests.problems import PROBLEMS
from tests.conftest import payloads_of, until_asked
from tests.scripted import ScriptedModel
from tests.workflows.agents.running import Counting, ended, run, served, start

EXAMPLES = Path(__file__).parents[3] / "examples"
PROBLEM = PROBLEMS[2]
TEST = "A number in between.\ntest\n```python\nassert truncate_number(1.25) == 0.25\n```"
WRONG_CODE = "[answer]\n```python\ndef truncate_number(number):\n    return number // 1\n```"
RIGHT_CODE = f"[answer]\n```python\n{PROBLEM.solution}```"


async def run_whole(client: Client, request: dict[str, str], **served: Any) -> tuple[Any, bytes]:
    async with conftest.served(client, queues=QUEUES, called=ToolActivities({}), **served):
        handle = await start(client, request)
        result, events = await ended(handle), (await handle.fetch_history()).events
        return result, b"".join(event.SerializeToString() for event in events)


async def test_the_hidden_test_is_in_no_prompt_and_no_payload(client: Client) -> None:
    """A second episode solves a problem of HumanEval by its own tests; then its test passes."""
    model = ScriptedModel(
        plan=[TEST, WRONG_CODE, TEST, RIGHT_CODE], reflect=["I rounded down. Next time I subtract."]
    )
    sandbox = ProcessSandbox(Bubblewrap.find(), Limits(), at_once=4)
    environments = [Named("code", code_tasks(sandbox, {}))]

    result, history = await run_whole(
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
    variables = {"MULL_TASKS": str(EXAMPLES), "MULL_DOCUMENTS": str(EXAMPLES)}
    retriever = FolderRetriever(Roots([str(EXAMPLES)]), tmp_path)
    model = ScriptedModel(plan=["Search[grant fund]", "Lookup[fund]", "Finish [answer] 30 June"])
    environments = [Named("documents", document_tasks(retriever, variables))]
    task = {"task": "fund", "tasks": "heating-questions.jsonl", "docs": "documents"}

    result, _ = await run_whole(
        client, {"environment": "documents", **task}, model=model, environments=environments
    )
    retriever.close()

    assert (result.status, result.answer) == ("solved", "30 June")
    assert result.episodes[0].episode_return == 1


WRONG = Evaluation(reward=0, correct=False)


class Odd(Counting):
    """What a test makes odd of the counting environment."""

    name = "odd"


async def played(client: Client, odd: type[Odd], *plans: str, **request: Any) -> ReflexionResult:
    known = {"environment": "odd", "episode_limit": 1, **request}
    async with served(
        client, ScriptedModel(plan=plans or ["[answer] 7"], reflect=["Lesson."]), odd
    ):
        return await run(client, known)


@pytest.mark.parametrize(
    "found",
    [
        True,
        None,
        {"reward": 1, "correct": True},
        WRONG.model_copy(update={"reward": float("nan")}),
        WRONG.model_copy(update={"reward": 1.7e308}),
        WRONG.model_copy(update={"correct": None}),
        WRONG.model_copy(update={"metrics": {str(number): 0.5 for number in range(40_000)}}),
    ],
    ids=["bool", "nothing", "dict", "nan", "huge", "unknown", "metrics"],
)
async def test_a_wrong_evaluation_ends_the_run_in_words(client: Client, found: Any) -> None:
    """It is read where it comes from, so that no workflow has to read what can't be."""

    class Wrong(Odd):
        def evaluate(self, answer: str | None) -> Evaluation:
            del answer
            return found  # type: ignore[no-any-return]

    result = await played(client, Wrong)

    assert result.stop_reason == "environment_failed"
    assert "the environment returned" in result.stop_explanation
    assert result.answer == "7"


async def test_a_wrong_verdict_is_a_warning(client: Client) -> None:
    class Wrong(Odd):
        def verify(self, answer: str) -> bool:
            return answer == "7"

    result = await played(client, Wrong)

    assert (result.status, result.hidden_passed) == ("solved", None)
    assert any("returned bool, not Verdict" in warning for warning in result.warnings)


async def test_what_a_hidden_test_raises_is_not_told(client: Client) -> None:
    """Its words may be the test's own: they are in no result and no history."""

    class Telling(Odd):
        def verify(self, answer: str) -> bool:
            raise AssertionError(f"SECRET: expected 42, not {answer}")

    async with served(client, ScriptedModel(plan=["[answer] 7"]), Telling):
        handle = await start(client, {"environment": "odd"})
        result = ReflexionResult.model_validate(await handle.result())
        history = await handle.fetch_history()

    said = b"".join(payload.data for event in history.events for payload in payloads_of(event))
    assert b"SECRET" not in said + str(history.events).encode()
    assert any("AssertionError" in warning for warning in result.warnings)


async def test_an_iterator_that_ends_is_an_error_like_others(client: Client) -> None:
    """A bare next() raises what no future takes: the step would hang until its time is over."""

    class Ending(Odd):
        def step(self, action: str) -> StepResult:
            del action
            return next(iter(()))

    result = await played(client, Ending, "add[1]")

    assert "StopIteration" in result.stop_explanation


async def test_a_close_that_hangs_loses_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before counts."""
    monkeypatch.setattr(activity, "CLOSING_SECONDS", 0.1)

    class Staying(Odd):
        async def close(self) -> None:
            await asyncio.sleep(1_000)

    result = await played(client, Staying)

    assert result.status == "solved"


async def test_one_that_hangs_holds_up_no_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(activity, "THREADS", 1)

    class Hanging(Odd):
        def step(self, action: str) -> StepResult:
            asyncio.run_coroutine_threadsafe(held.wait(), loop).result()
            return super().step(action)

    model = ScriptedModel(plan=["add[7]", "[answer] 7"])
    async with served(client, model, Hanging, Counting):
        stuck = await start(client, {"environment": "odd"})
        await until_asked(model, 1)
        other = await run(client, {"step_timeout_seconds": 5})
        held.set()
        await stuck.cancel()

    assert other.status == "solved"
