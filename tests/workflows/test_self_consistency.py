"""A whole run through a real server, with a scripted model and every task replayed."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError, CancelledError

from activities.language_model import PermanentModelError, SampleError, TransientModelError
from activities.scripted_model import Said, ScriptedModel
from reflection.convergence.result import Decision, Progress, SelfConsistencyResult
from reflection.usage import Spending
from tests.conftest import begin, served, until_asked

SUM = "What is the sum of the first 10 prime numbers?"


async def ask(client: Client, model: ScriptedModel, **fields: Any) -> SelfConsistencyResult:
    async with served(client, model):
        handle = await begin(client, {"question": SUM, **fields})
        return SelfConsistencyResult.model_validate(await handle.result())


async def failure(handle: WorkflowHandle[Any, Any]) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), 20)
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


async def test_the_source_s_first_table_ends_with_five_calls(client: Client) -> None:
    """Four of five equal answers stop the default rule at its minimum, in one wave."""
    model = ScriptedModel(["129", "129", "129", "128", "129"])

    result = await ask(client, model)

    assert result.reply == "Final Answer: 129 (Confidence: 0.80, Uncertainty: low)"
    assert (result.stop_reason, result.waves, result.total_responses) == ("rule", (5,), 5)
    assert result.answer_distribution == {"129": 0.8, "128": 0.2}
    assert result.early_stopping
    assert result.consensus_type == "strong"
    assert result.convergence_analysis.confidence_evolution == (1.0, 1.0, 1.0, 0.75, 0.8)
    assert len(model.calls) == 5


async def test_a_thrifty_run_ends_with_three_agreeing_answers(client: Client) -> None:
    """The preset `thrifty` first stops at 3-0."""
    model = ScriptedModel(["129", "129", "129"])

    result = await ask(client, model, preset="thrifty")

    assert (result.stop_reason, result.waves, len(model.calls)) == ("rule", (3,), 3)


async def test_votes_count_by_index_and_not_by_arrival(client: Client) -> None:
    """Replies that arrive in reverse order are counted in the order of asking."""
    model = ScriptedModel(["a", "b", "b", "a", "c"], delays=[0.5, 0.4, 0.3, 0.2, 0.1])

    result = await ask(client, model, max_responses=5)

    assert [each.vote for each in result.decisions] == ["a", "b", "b", "a", "c"]
    assert [each.index for each in result.decisions] == [0, 1, 2, 3, 4]
    assert (result.final_answer, result.tied) == ("a", True)


async def test_unreadable_answers_never_vote(client: Client) -> None:
    """Four unreadable answers and one vote are not certain: the run goes on to the maximum."""
    model = ScriptedModel([None, None, None, None, "129", None, None, None, None, None])

    result = await ask(client, model, quorum=2)

    assert (result.stop_reason, result.total_responses) == ("no_consensus", 10)
    assert (result.valid_responses, result.quorum_met) == (1, False)
    assert result.consensus_confidence == 1.0
    assert result.responses[0].error == "the reply has no answer in it"


async def test_a_sample_that_fails_for_good_is_no_vote(client: Client) -> None:
    """A content filter and exhausted retries cost their sample and not the run."""
    overloaded = TransientModelError("overloaded", "InternalServerError", 500)
    broken: list[Said] = [overloaded, overloaded]
    filtered = SampleError("content filter", "ContentPolicyViolationError", 400)
    model = ScriptedModel(["129", filtered, broken, "129", "129", "129", "129"])

    result = await ask(client, model, max_attempts=2)

    assert (result.final_answer, result.valid_responses, result.total_responses) == ("129", 5, 7)
    assert result.responses[1].error == "ContentPolicyViolationError: content filter"
    assert result.responses[2].error == "InternalServerError: overloaded"
    assert result.usage.parts["retried"].calls == 2


async def test_a_permanent_error_fails_the_run_at_once(client: Client) -> None:
    """What holds for every call ends the run as failed, by the provider's class name."""
    model = ScriptedModel([PermanentModelError("no such key", "AuthenticationError", 401)] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        error = await failure(handle)

    assert (error.type, error.message) == ("AuthenticationError", "no such key")
    assert len(model.calls) <= 5


async def test_a_retry_waits_as_long_as_the_server_asks(client: Client) -> None:
    """Retry-After is the delay before the next attempt, and the first call counts as retried."""
    limited = TransientModelError("slow down", "RateLimitError", 429, retry_after=2.0)
    model = ScriptedModel([[limited, "129"]])
    started = time.monotonic()

    result = await ask(client, model, max_responses=1)

    assert time.monotonic() - started >= 2.0
    assert result.responses[0].attempts == 2
    assert result.usage.parts["retried"].calls == 1
    assert result.usage.calls == 1


async def test_a_token_budget_is_never_overrun(client: Client) -> None:
    """Samples of 100 tokens fit three times into 350, whatever the rule still wants."""
    model = ScriptedModel(["1", "2", "3", "4", "5"])

    result = await ask(client, model, budget_tokens=350)

    assert (result.stop_reason, len(model.calls), result.waves) == ("budget", 3, (1, 2))
    assert result.decisions[-1].index is None
    assert "300 of 350 tokens are spent" in result.stop_explanation


async def test_a_dollar_budget_needs_a_price(client: Client) -> None:
    """Where the model has no price, a budget in dollars ends the run after the first call."""
    unpriced = Spending(calls=1, input_tokens=80, output_tokens=20)
    model = ScriptedModel(["1"] * 5, spending=unpriced)

    result = await ask(client, model, budget_usd=1.0)

    assert (result.stop_reason, len(model.calls)) == ("budget", 1)
    assert "does not report US dollars" in result.stop_explanation
    assert result.usage.cost_usd is None


async def test_a_deadline_keeps_what_came_and_cancels_the_rest(client: Client) -> None:
    """At the deadline the answers that are in are counted, and the slow calls cancelled."""
    model = ScriptedModel(["129", "129", "7", "129", "129"], delays=[0, 0, 60, 0, 60])

    result = await ask(client, model, budget_seconds=3)

    assert (result.stop_reason, result.final_answer) == ("deadline", "129")
    assert [each.index for each in result.responses] == [0, 1, 3]
    assert result.usage.parts["cancelled"].calls == 2


async def test_a_person_s_answer_votes_after_the_wave_in_flight(client: Client) -> None:
    """An answer that is put in takes the next index, has its author, and costs no call."""
    model = ScriptedModel(["1", "2", "1", "2", "1"], delays=[1.5] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "max_responses": 6, "answers": "number"})
        await until_asked(model, 5)
        index = await handle.execute_update("add_answer", {"answer": "1.0", "author": "ann"})
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert index == 5
    assert (result.responses[5].author, result.responses[5].vote) == ("ann", "1")
    assert (result.total_responses, result.usage.calls, result.waves) == (6, 5, (5,))


async def test_wrong_updates_are_refused_and_change_nothing(client: Client) -> None:
    """An unreadable answer, an unknown field and an update after the end are all refused."""
    model = ScriptedModel(["1", "1", "1"], delays=[1.5] * 3)

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "preset": "thrifty", "answers": "number"})
        for wrong in ({"answer": "soon"}, {"answer": ""}, {"answr": "1"}):
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update("add_answer", wrong)
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert (result.total_responses, result.stop_reason) == (3, "rule")


async def test_a_person_can_finish_with_what_there_is(client: Client) -> None:
    """`finish_now` counts what is in, cancels the calls in flight, and names who said so."""
    model = ScriptedModel(["1", "2", "2", "2", "1"], delays=[0, 60, 0, 60, 60])

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await asyncio.sleep(1)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = SelfConsistencyResult.model_validate(await handle.result())
        async with asyncio.timeout(15):
            while len(model.cancelled) < 3:
                await asyncio.sleep(0.1)

    assert (result.stop_reason, result.total_responses) == ("finished_by_person", 2)
    assert result.decisions[-1].author == "ann"
    assert result.usage.parts["cancelled"].calls == 3
    assert sorted(model.cancelled) == [1, 3, 4]


async def test_cancelling_ends_the_calls_in_flight(client: Client) -> None:
    """Temporal's own cancel ends the run as cancelled, and its calls soon after."""
    model = ScriptedModel(["1"] * 5, delays=[60] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await until_asked(model, 5)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        async with asyncio.timeout(15):
            while len(model.cancelled) < 5:
                await asyncio.sleep(0.1)

    assert isinstance(caught.value.cause, CancelledError)


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


async def test_queries_tell_where_a_run_stands(client: Client) -> None:
    """`progress` and `decisions` answer while the run goes on and after it."""
    model = ScriptedModel(["1", "2", "1", "2", "1", "1"], delays=[0] * 5 + [2.0])

    async with served(client, model):
        handle = await begin(client, {"question": SUM, "max_responses": 6})
        await until_asked(model, 6)
        during = await handle.query("progress", result_type=Progress)
        await handle.result()
        after = await handle.query("decisions", result_type=list[Decision])

    assert (during.total_responses, during.in_flight, during.waves) == (5, 1, (5, 1))
    assert during.leader == "1"
    assert [each.stop for each in after] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"question": "secret-7", "colour": "secret-8"}, "colour: no such field"),
        ({}, "question: missing"),
        ({"question": "  "}, "question: "),
        ({"question": "secret-7", "entropy_mode": "secret-8"}, "entropy_mode: should be"),
        (
            {"question": "secret-7", "min_responses": 6, "max_responses": 5},
            "min_responses (6) is above max_responses (5)",
        ),
        ({"question": "secret-7", "confidence_threshold": 1.5}, "confidence_threshold: "),
        ({"question": "secret-7" * 100_000}, "question: "),
        ("secret-7", "SelfConsistencyRequest"),
    ],
)
async def test_a_malformed_request_fails_at_once(
    client: Client, request_: object, said: str
) -> None:
    """The failure names the field and never quotes the input."""
    async with served(client, ScriptedModel([])):
        error = await failure(await begin(client, request_))

    assert error.type == "InvalidRequest"
    assert said in error.message
    assert "secret" not in error.message


async def test_a_start_without_a_request_fails_at_once(client: Client) -> None:
    """No input at all is told what to give."""
    async with served(client, ScriptedModel([])):
        handle = await client.start_workflow(
            "SelfConsistencyWorkflow", id=f"test-none-{time.time_ns()}", task_queue="mull"
        )
        error = await failure(handle)

    assert '{"question": "..."}' in error.message


async def test_what_temporal_shows_of_a_run(client: Client) -> None:
    """Search attributes, memo and activity summaries carry the outcome, and no prompt text."""
    model = ScriptedModel(["129"] * 5)

    async with served(client, model):
        handle = await begin(client, {"question": SUM})
        await handle.result()
        description = await handle.describe()
        history = await handle.fetch_history()

    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert {name: value for name, value in found.items() if name.startswith("Mull")} == {
        "MullStopReason": "rule",
        "MullConsensus": "strong",
        "MullUncertainty": "low",
        "MullEntropyLevel": "concentrated",
        "MullModel": "scripted/model",
        "MullConfidence": 1.0,
        "MullCostUsd": pytest.approx(0.005),
        "MullSamples": 5,
        "MullTokens": 500,
    }
    assert await description.memo_value("answer") == "129"
    summaries = [
        event.user_metadata.summary.data.decode()
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert summaries == [f'"sample {number} of at most 10"' for number in range(1, 6)]


def test_the_time_outs_nest() -> None:
    """A client's time-out is under the attempt's, and that under the whole, with every wait."""
    from workflows.timeouts import call_times

    times = call_times(120, 5)

    assert timedelta(seconds=120) < times.attempt < times.whole
    assert times.whole >= 5 * (times.attempt + timedelta(seconds=60))
