"""The kind `llm`: a model says which answers mean the same, and a run can still be ended."""

import asyncio
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
)
from temporalio.exceptions import CancelledError

from activities.language_model.port import TransientModelError
from mull.sampling.result import SelfConsistencyResult
from tests.conftest import ask, begin, served, until_asked
from tests.patience import PATIENCE
from tests.scripted import ScriptedModel

SUM = "What is the sum of the first 10 prime numbers?"


async def test_answers_that_mean_the_same_are_one(client: Client) -> None:
    """The kind `llm` asks in index order, joins the first match, and never merges clusters."""
    answers = ["Exercise", "Rest", "Exercise and stretching", "exercise.", "Rest a while"]
    model = ScriptedModel(answers, same=lambda earlier, new: new.startswith(earlier))

    result = await ask(client, model, answers="llm", max_responses=5)

    assert result.answer_distribution == {"Exercise": 0.6, "Rest": 0.4}
    assert [each.vote for each in result.responses] == [
        "Exercise", "Rest", "Exercise", "Exercise", "Rest",
    ]  # fmt: skip
    assert result.usage.parts["evaluating"].calls == 4
    assert result.usage.calls == 9


@pytest.mark.parametrize(("failures", "apart", "evaluating"), [(1, False, 1), (2, True, 0)])
async def test_a_comparison_that_fails_is_a_call_that_was_retried(
    client: Client, failures: int, apart: bool, evaluating: int
) -> None:
    """Where it fails for good the answers count as different, and the result says so."""
    busy = TransientModelError("busy", "OverloadedError", 529, retry_after=0.1)
    model = ScriptedModel(["a", "b"], same=lambda *_: True, judging=[busy] * failures)

    result = await ask(client, model, answers="llm", max_responses=2, max_attempts=2)

    assert result.answer_distribution == ({"a": 0.5, "b": 0.5} if apart else {"a": 1.0})
    assert result.warnings == (
        ("two answers could not be compared: OverloadedError: busy (2 calls)",) if apart else ()
    )
    parts = result.usage.parts
    assert (parts["evaluating"].calls, parts["retried"].calls) == (evaluating, failures)


@pytest.mark.parametrize("end", ["finished", "deadline", "cancelled"])
async def test_a_run_that_ends_waits_for_no_comparison(client: Client, end: str) -> None:
    """What is not compared counts as different, and a cancel is a cancel, and no answer."""
    model = ScriptedModel(["a", "b", "c"], same=lambda *_: True, judging_delay=60)
    request: dict[str, Any] = {"question": SUM, "answers": "llm", "max_responses": 3}
    bound = {"budget_seconds": 3} if end == "deadline" else {}

    async with served(client, model):
        handle = await begin(client, {**request, **bound})
        await until_asked(model, 4)
        if end == "cancelled":
            await handle.cancel()
            with pytest.raises(WorkflowFailureError) as caught:
                await asyncio.wait_for(handle.result(), PATIENCE)
            assert isinstance(caught.value.cause, CancelledError)
            return
        if end == "finished":
            await handle.execute_update("finish_now")
        result = SelfConsistencyResult.model_validate(
            await asyncio.wait_for(handle.result(), PATIENCE)
        )

    assert result.total_responses == 3
    assert "the run ended before every answer was compared" in result.warnings
    assert result.usage.parts["cancelled"].calls == 1
