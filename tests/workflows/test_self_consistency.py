"""A whole run through a real server, with a scripted model and every task replayed."""

from datetime import timedelta

import pytest
from temporalio.client import Client

from activities.language_model.port import (
    NotYetError,
    SampleError,
    TransientModelError,
)
from mull.run import Spending
from tests.conftest import ask, begin, failure, served
from tests.scripted import Said, ScriptedModel

SUM = "What is the sum of the first 10 prime numbers?"


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
    assert result.responses[0].error == "the reply contains no answer"


async def test_a_sample_that_fails_for_good_is_no_vote(client: Client) -> None:
    """A content filter and exhausted retries cost their sample and not the run."""
    overloaded = TransientModelError("overloaded", "InternalServerError", 500)
    broken: list[Said] = [overloaded, overloaded]
    filtered = SampleError("content filter", "ContentPolicyViolationError", 400)
    model = ScriptedModel(["129", filtered, broken, "129", "129", "129", "129"])

    result = await ask(client, model, max_attempts=2)

    assert (result.final_answer, result.valid_responses, result.total_responses) == ("129", 5, 7)
    assert result.responses[1].error == "ContentPolicyViolationError: content filter"
    assert result.responses[2].error == "InternalServerError: overloaded (2 calls)"
    assert result.usage.parts["retried"].calls == 2


LIMITED = TransientModelError("slow down", "RateLimitError", 429, retry_after=0.0)
NOT_YET = NotYetError(0.0)
OVERLOADED = TransientModelError("overloaded", "InternalServerError", 500, retry_after=0.0)
EMPTY = SampleError("the reply is empty", "EmptyReply", spending=Spending(calls=1))


@pytest.mark.parametrize(
    ("said", "error", "attempts"),
    [
        ([LIMITED, OVERLOADED, LIMITED, "129"], None, 4),
        ([NOT_YET, NOT_YET, LIMITED, "129"], None, 2),
        ([LIMITED, OVERLOADED, NOT_YET, OVERLOADED],
         "InternalServerError: overloaded (3 calls)", 3),
        ([EMPTY, "129"], None, 2),
    ],
    ids=["429s", "not yet", "used up", "empty once"],
)  # fmt: skip
async def test_only_failures_use_up_attempts(
    client: Client, said: list[Said], error: str | None, attempts: int
) -> None:
    """Of two attempts a 429 uses up none, and an attempt that waited made no call."""
    result = await ask(client, ScriptedModel([said, "1"]), max_responses=2, max_attempts=2)

    assert (result.responses[0].error, result.responses[0].attempts) == (error, attempts)
    assert result.usage.parts["retried"].calls == attempts - (error is None)


async def test_an_empty_reply_is_asked_for_twice_more(client: Client) -> None:
    """Then it is named, and it is a reply: the run goes on to its end."""
    result = await ask(client, ScriptedModel([[EMPTY] * 3]), max_responses=1)

    assert (result.stop_reason, result.responses[0].attempts) == ("no_consensus", 3)
    assert result.responses[0].error == "EmptyReply: the reply is empty"


async def test_no_reply_ever_fails_the_run(client: Client) -> None:
    """Where no call was answered there is no result: the last error says why, and how often."""
    script: list[Said | list[Said]] = [[OVERLOADED, OVERLOADED]] * 2
    async with served(client, ScriptedModel(script)):
        asked = {"question": SUM, "max_responses": 2, "max_attempts": 2}
        error = await failure(await begin(client, asked))

    assert error.type == "InternalServerError"
    assert error.message == (
        "no reply ever came (2 samples, 4 calls); the last error: overloaded (2 calls)"
    )


@pytest.mark.parametrize("kind", ["Refusal", "ContentPolicyViolationError"])
async def test_a_refusal_is_a_reply(client: Client, kind: str) -> None:
    """A run that every sample was refused to has a result, without an answer."""
    refused = SampleError("no", kind)

    result = await ask(client, ScriptedModel([refused, refused]), max_responses=2)

    assert (result.final_answer, result.total_responses) == (None, 2)


async def test_no_reply_by_the_deadline_fails_the_run(client: Client) -> None:
    """A run whose every call was cut short says that nothing came."""
    async with served(client, ScriptedModel(["1"] * 5, delays=[60] * 5)):
        error = await failure(await begin(client, {"question": SUM, "budget_seconds": 1}))

    assert (error.type, error.message) == (
        "NoReply", "no reply came to 5 calls: the time budget of 1 seconds is used up"
    )  # fmt: skip


def test_the_time_outs_nest() -> None:
    """A client's time-out is under the attempt's, and that under the whole, with every wait."""
    from workflows.times import call_times

    times = call_times(120, 5)

    attempt, whole = times["start_to_close_timeout"], times["schedule_to_close_timeout"]
    assert timedelta(seconds=120) < attempt < whole
    assert whole >= 5 * (attempt + timedelta(seconds=60))


def test_the_time_outs_of_a_lost_worker_nest() -> None:
    """A lost worker costs 8 s at most, where it may be silent for 5."""
    from worker import STICKY
    from workflows.times import call_times

    times = call_times(120, 5)

    silence, backoff = times["heartbeat_timeout"], times["retry_policy"].initial_interval
    assert silence == timedelta(seconds=5)
    assert STICKY < silence < times["start_to_close_timeout"]
    assert silence + backoff + STICKY <= timedelta(seconds=8)


def test_a_call_that_is_made_once_is_not_given_up_in_haste() -> None:
    """Nobody makes it again, so that a busy worker has 10 s for a heartbeat."""
    from workflows.times import bounded_times, call_times

    for times in (call_times(120, 1), bounded_times(60, 1)):
        assert times["heartbeat_timeout"] == timedelta(seconds=10)
