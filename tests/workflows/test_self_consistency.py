"""Whole runs of self-consistency: votes, waves, comparisons, and what they are asked with."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from activities.language_model.port import NotYetError, SampleError, TransientModelError
from mull.request import Framing
from mull.run import Spending
from mull.sampling.result import SelfConsistencyResult
from tests.conftest import ask, begin, failure, reflect, served, until_asked
from tests.patience import PATIENCE
from tests.scripted import Said, ScriptedModel, reply, same

SUM = "What is the sum of the first 10 prime numbers?"


async def test_the_source_s_first_table_ends_with_five_calls(client: Client) -> None:
    model = ScriptedModel(sample=["129", "129", "129", "128", "129"])

    result = await ask(client, model)

    assert result.reply == "Final Answer: 129 (Confidence: 0.80, Uncertainty: low)"
    assert (result.stop_reason, result.waves, result.total_responses) == ("rule", (5,), 5)
    assert result.answer_distribution == {"129": 0.8, "128": 0.2}
    assert result.early_stopping
    assert result.consensus_type == "strong"
    assert result.convergence_analysis.confidence_evolution == (1.0, 1.0, 1.0, 0.75, 0.8)
    assert len(model.calls) == 5


async def test_votes_count_by_index_and_not_by_arrival(client: Client) -> None:
    model = ScriptedModel(sample=["a", "b", "b", "a", "c"], delays=[0.5, 0.4, 0.3, 0.2, 0.1])

    result = await ask(client, model, max_responses=5)

    assert [each.vote for each in result.decisions] == ["a", "b", "b", "a", "c"]
    assert [each.index for each in result.decisions] == [0, 1, 2, 3, 4]
    assert (result.final_answer, result.tied) == ("a", True)


async def test_unreadable_answers_never_vote(client: Client) -> None:
    model = ScriptedModel(sample=[None, None, None, None, "129", None, None, None, None, None])

    result = await ask(client, model, quorum=2)

    assert (result.stop_reason, result.total_responses) == ("no_consensus", 10)
    assert (result.valid_responses, result.quorum_met) == (1, False)
    assert result.consensus_confidence == 1.0
    assert result.responses[0].error == "the reply contains no answer"


async def test_a_sample_that_fails_for_good_is_no_vote(client: Client) -> None:
    overloaded = TransientModelError("overloaded", "InternalServerError", 500)
    broken: list[Said] = [overloaded, overloaded]
    filtered = SampleError("content filter", "ContentPolicyViolationError", 400)
    model = ScriptedModel(sample=["129", filtered, broken, "129", "129", "129", "129"])

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
    result = await ask(client, ScriptedModel(sample=[said, "1"]), max_responses=2, max_attempts=2)

    assert (result.responses[0].error, result.responses[0].attempts) == (error, attempts)
    assert result.usage.parts["retried"].calls == attempts - (error is None)


async def test_an_empty_reply_is_asked_for_twice_more(client: Client) -> None:
    """Then it is named, and it is a reply: the run goes on to its end."""
    result = await ask(client, ScriptedModel(sample=[[EMPTY] * 3]), max_responses=1)

    assert (result.stop_reason, result.responses[0].attempts) == ("no_consensus", 3)
    assert (result.doubt, result.max_responses) == ("there is no readable answer in 1 call", 1)
    assert result.responses[0].error == "EmptyReply: the reply is empty"


async def test_no_reply_ever_fails_the_run(client: Client) -> None:
    script: list[Said | list[Said]] = [[OVERLOADED, OVERLOADED]] * 2
    async with served(client, ScriptedModel(sample=script)):
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

    result = await ask(client, ScriptedModel(sample=[refused, refused]), max_responses=2)

    assert (result.final_answer, result.total_responses) == (None, 2)
    assert result.doubt == "there is no readable answer in 2 calls"


async def test_no_reply_by_the_deadline_fails_the_run(client: Client) -> None:
    async with served(client, ScriptedModel(sample=["1"] * 5, delays=[60] * 5)):
        error = await failure(await begin(client, {"question": SUM, "budget_seconds": 1}))

    assert (error.type, error.message) == (
        "NoReply", "no reply came to 5 calls: the time budget of 1 s is used up"
    )  # fmt: skip


def test_the_time_outs_nest() -> None:
    from workflows.calls import call_times

    times = call_times(120, 5)

    attempt, whole = times["start_to_close_timeout"], times["schedule_to_close_timeout"]
    assert timedelta(seconds=120) < attempt < whole
    assert whole >= 5 * (attempt + timedelta(seconds=60))


def test_the_time_outs_of_a_lost_worker_nest() -> None:
    """A lost worker costs 8 s at most, where it may be silent for 5."""
    from worker import STICKY
    from workflows.calls import call_times

    times = call_times(120, 5)

    silence, backoff = times["heartbeat_timeout"], times["retry_policy"].initial_interval
    assert silence == timedelta(seconds=5)
    assert STICKY < silence < times["start_to_close_timeout"]
    assert silence + backoff + STICKY <= timedelta(seconds=8)


def test_a_call_that_is_made_once_is_not_given_up_in_haste() -> None:
    """Nobody makes it again, so that a busy worker has 10 s for a heartbeat."""
    from workflows.calls import bounded_times, call_times

    for times in (call_times(120, 1), bounded_times(60, 1)):
        assert times["heartbeat_timeout"] == timedelta(seconds=10)


async def test_answers_that_mean_the_same_are_one(client: Client) -> None:
    answers = ["Exercise", "Rest", "Exercise and stretching", "exercise.", "Rest a while"]
    model = ScriptedModel(
        sample=answers, compare=same(lambda earlier, new: new.startswith(earlier))
    )

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
    busy = TransientModelError("busy", "OverloadedError", 529, retry_after=0.1)
    model = ScriptedModel(sample=["a", "b"], compare=[*[busy] * failures, True])

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
    model = ScriptedModel(sample=["a", "b", "c"], compare=[], delays={("compare", None): 60})
    request: dict[str, Any] = {"question": SUM, "answers": "llm", "max_responses": 3}
    bound = {"budget_seconds": 3} if end == "deadline" else {}

    async with served(client, model):
        handle = await begin(client, {**request, **bound})
        await until_asked(model, 4)
        if end == "cancelled":
            await handle.cancel()
            await failure(handle, CancelledError)
            return
        if end == "finished":
            await handle.execute_update("finish_now")
        result = SelfConsistencyResult.model_validate(
            await asyncio.wait_for(handle.result(), PATIENCE)
        )

    assert result.total_responses == 3
    assert "the run ended before every answer was compared" in result.warnings
    assert result.usage.parts["cancelled"].calls == 1


SLOW = 30.0


@pytest.mark.parametrize(
    ("fields", "delays", "counted", "cancelled", "reason"),
    [
        ({"rule": "predictive"}, [0.1] * 3 + [SLOW] * 7, 3, 7, "rule"),
        ({"rule": "predictive"}, [0.6] + [0.0] * 9, 3, 0, "rule"),
        ({"rule": "fixed"}, [SLOW] * 4 + [0.1] * 6, 6, 4, "decided"),
        ({"rule": "fixed", "answers": "llm"}, [0.3] + [0.0] * 9, 6, 0, "decided"),
    ],
    ids=["the first decide", "the others came first", "fixed", "compared by a model"],
)
async def test_what_is_under_way_is_cancelled_once_the_answer_is_decided(
    client: Client,
    fields: dict[str, Any],
    delays: list[float],
    counted: int,
    cancelled: int,
    reason: str,
) -> None:
    model = ScriptedModel(
        sample=["7"] * 10, delays=delays, compare=same(lambda one, other: one == other)
    )

    result = await ask(client, model, **fields, hurry=10)

    assert (result.final_answer, result.stop_reason) == ("7", reason)
    assert (result.waves, result.total_responses, result.valid_responses) == (
        (10,),
        counted,
        counted,
    )
    parts = result.usage.parts
    assert (parts["cancelled"].calls, parts["generating"].calls) == (cancelled, 10 - cancelled)
    assert len(model.cancelled) == cancelled


WHOLE: dict[str, Any] = {
    "system": "Be kind.",
    "context": ["It is due in May."],
    "messages": [{"role": "user", "content": "Hi"}],
    "options": {"top_p": 0.9, "stop": ["END"]},
}
FRAMING = Framing.model_validate(WHOLE)


async def test_every_sample_is_asked_with_it(client: Client) -> None:
    """The prompt itself stays what it was."""
    model = ScriptedModel(sample=["a"] * 5)

    result = await ask(client, model, **WHOLE)

    assert (result.final_answer, len(model.calls)) == ("a", 5)
    for call in model.calls:
        assert (call.messages, call.options) == (FRAMING.chat(call.prompt), FRAMING.options)


async def test_a_temperature_that_nobody_asked_for_is_not_missed(client: Client) -> None:
    """A model that takes none has its own; what was asked for and not sent is told."""
    lacking = reply("7").model_copy(update={"left_out": ("temperature",)})
    usual = await ask(client, ScriptedModel(sample=[lacking] * 3), max_responses=3)
    wanted = await ask(
        client, ScriptedModel(sample=[lacking] * 3), max_responses=3, temperature=0.7
    )

    assert usual.warnings == ()
    assert wanted.warnings[0].startswith("temperature was not sent: ")


async def test_whoever_writes_a_draft_is_asked_with_it(client: Client) -> None:
    """A revision like the first draft; a judge sees the material, and has no options."""
    lacking = reply("first").model_copy(update={"left_out": ("top_p",)})
    model = ScriptedModel(write=[lacking, "second"], judge=[0.4, 0.9])

    result = await reflect(client, model, **WHOLE)

    written, judged = model.calls[::2], model.calls[1::2]
    for call in written:
        assert (call.messages, call.options) == (FRAMING.chat(call.prompt), FRAMING.options)
    for call in judged:
        assert (call.messages, call.options) == ((), Framing().options)
        assert '"It is due in May."' in call.prompt
    assert (result.draft, len(written), len(judged)) == ("second", 2, 2)
    assert result.warnings[0].startswith("top_p was not sent: ")


@pytest.mark.parametrize("given", [True, False])
async def test_a_page_of_the_material_may_be_cited(client: Client, given: bool) -> None:
    text = "It is so [1], as https://a.org/b says, and as everybody knows."
    fields = {
        "sources": ["See https://c.org/d."],
        "context": ["See https://a.org/b."],
        "guardrails": ["unknown_citation"],
        **({"draft": text} if given else {}),
    }

    result = await reflect(client, ScriptedModel(write=[text], judge=[0.9]), **fields)

    assert (result.score, result.stop_reason) == (0.9, "passed")
