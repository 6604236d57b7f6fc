"""The kind `llm`: a model says which answers mean the same, and a run can still be ended."""

import asyncio
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import CancelledError

from activities.language_model.port import TransientModelError
from reflection.sampling.result import SelfConsistencyResult
from tests.conftest import ask, begin, served, until_asked
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


async def test_a_comparison_that_is_repeated_is_counted(client: Client) -> None:
    """A comparison that failed in passing is a retried call."""
    busy = TransientModelError("busy", "RateLimitError", 429, retry_after=0.1)
    model = ScriptedModel(["a", "b"], same=lambda *_: False, judging=[busy])

    result = await ask(client, model, answers="llm", max_responses=2)

    assert result.usage.parts["evaluating"].calls == 1
    assert result.usage.parts["retried"].calls == 1


async def test_a_comparison_that_fails_for_good_counts_as_different(client: Client) -> None:
    """The answers stay apart, and the result says that they could not be compared."""
    busy = TransientModelError("busy", "OverloadedError", 529, retry_after=0.1)
    model = ScriptedModel(["a", "b"], same=lambda *_: True, judging=[busy, busy])

    result = await ask(client, model, answers="llm", max_responses=2, max_attempts=2)

    assert result.answer_distribution == {"a": 0.5, "b": 0.5}
    assert result.warnings == (
        "two answers could not be compared: OverloadedError: busy (2 calls)",
    )


async def comparing(
    client: Client, model: ScriptedModel, **fields: Any
) -> WorkflowHandle[Any, Any]:
    request = {"question": SUM, "answers": "llm", "max_responses": 3, **fields}
    handle = await begin(client, request)
    await until_asked(model, 4)
    return handle


async def test_cancelling_ends_a_run_that_compares(client: Client) -> None:
    """A cancel during a comparison is a cancel, and no answer about it."""
    model = ScriptedModel(["a", "b", "c"], same=lambda *_: True, judging_delay=60)

    async with served(client, model):
        handle = await comparing(client, model)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), 15)

    assert isinstance(caught.value.cause, CancelledError)


@pytest.mark.parametrize("bound", [{}, {"budget_seconds": 3}])
async def test_a_run_that_ends_waits_for_no_comparison(
    client: Client, bound: dict[str, int]
) -> None:
    """Finished by a person or by its deadline: what is not compared counts as different."""
    model = ScriptedModel(["a", "b", "c"], same=lambda *_: True, judging_delay=60)

    async with served(client, model):
        handle = await comparing(client, model, **bound)
        if not bound:
            await handle.execute_update("finish_now")
        result = SelfConsistencyResult.model_validate(await asyncio.wait_for(handle.result(), 15))

    assert result.total_responses == 3
    assert "the run ended before every answer was compared" in result.warnings
    assert result.usage.parts["cancelled"].calls == 1
