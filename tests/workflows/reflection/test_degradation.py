"""What goes wrong while a run reflects: the best draft so far comes back, and what happened."""

import asyncio

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from activities.language_model.port import PermanentModelError, SampleError, TransientModelError
from reflection.critique.result import Progress, ReflectOnResultResult
from tests.conftest import begin_reflecting, failure, reflect, served, until_asked
from tests.scripted import Drafted, Judged, ScriptedCritic, reply

DOWN = PermanentModelError("no such key", "AuthenticationError", 401)
BUSY = TransientModelError("busy", "InternalServerError", 500)
EMPTY = SampleError("the reply is empty", "EmptyReply")


@pytest.mark.parametrize("judged", [DOWN, [BUSY, BUSY]])
async def test_a_judge_that_is_down(client: Client, judged: Judged | list[Judged]) -> None:
    """The draft comes back unscored: reflection never fails the task."""
    result = await reflect(client, ScriptedCritic(["first"], [judged]), max_attempts=2)

    assert (result.draft, result.score, result.stop_reason) == ("first", None, "evaluation_failed")
    assert "AuthenticationError" in result.stop_explanation or "busy" in result.stop_explanation


@pytest.mark.parametrize("drafted", [DOWN, [BUSY, BUSY], [EMPTY, EMPTY]])
async def test_a_revision_that_fails(client: Client, drafted: Drafted | list[Drafted]) -> None:
    """The scored draft comes back, and the reason names what failed."""
    model = ScriptedCritic(["first", drafted], [0.4])

    result = await reflect(client, model, max_attempts=2)

    assert (result.draft, result.score, result.stop_reason) == ("first", 0.4, "revision_failed")
    assert "could not be revised" in result.stop_explanation
    assert result.revisions == 0


async def test_a_revision_that_is_worse(client: Client) -> None:
    """The better first draft comes back."""
    result = await reflect(client, ScriptedCritic(["first", "second"], [0.6, 0.1]))

    assert (result.draft, result.score, result.drafts[1].change) == ("first", 0.6, -0.5)


@pytest.mark.parametrize("drafted", [DOWN, [BUSY, BUSY], [EMPTY, EMPTY]])
async def test_no_first_draft_is_no_result(
    client: Client, drafted: Drafted | list[Drafted]
) -> None:
    """Where nothing can be written the run fails, by the provider's own class."""
    async with served(client, ScriptedCritic([drafted])):
        error = await failure(await begin_reflecting(client, max_attempts=2))

    assert error.type in {"AuthenticationError", "InternalServerError", "EmptyReply"}


async def test_a_cut_draft_is_kept_and_capped(client: Client) -> None:
    """A draft that was cut off at its tokens' limit is judged, and can't pass as it is."""
    long = "The table is made from observations, and " * 30
    model = ScriptedCritic([reply(long, finish_reason="length")], [0.95])

    result = await reflect(client, model, max_revisions=0, guardrails=["unfinished"])

    assert result.drafts[0].finish_reason == "length"
    assert (result.score, result.stop_reason) == (0.5, "max_revisions")


async def test_the_deadline_during_a_revision(client: Client) -> None:
    """The call is cancelled, and the draft that was scored comes back."""
    model = ScriptedCritic(["first", "second"], [0.4], delays={("write", 1): 60})

    result = await reflect(client, model, budget_seconds=3)

    assert (result.draft, result.score, result.stop_reason) == ("first", 0.4, "deadline")
    assert result.usage.parts["cancelled"].calls == 1


async def test_the_deadline_during_an_evaluation(client: Client) -> None:
    """A slow judge is cancelled, and the unscored draft comes back."""
    model = ScriptedCritic(["first"], [0.9], delays={("judge", 0): 60})

    result = await reflect(client, model, budget_seconds=2)

    assert (result.draft, result.score, result.stop_reason) == ("first", None, "deadline")


async def test_the_deadline_before_any_draft(client: Client) -> None:
    """There is nothing to give back, and the result says so."""
    model = ScriptedCritic(["first"], delays={("write", 0): 60})

    result = await reflect(client, model, budget_seconds=1)

    assert (result.draft, result.best, result.stop_reason) == (None, None, "deadline")


async def test_a_judge_that_never_answers(client: Client) -> None:
    """Each attempt is bounded; after the last one the draft comes back unscored."""
    slow = TransientModelError("no reply within 1 seconds", "Timeout")
    model = ScriptedCritic(["first"], [[slow, slow, slow]])

    result = await reflect(client, model, max_attempts=3, call_timeout_seconds=1)

    assert (result.stop_reason, result.usage.parts["retried"].calls) == ("evaluation_failed", 3)


async def test_a_draft_does_not_pass_where_a_guardrail_could_not_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the worker's own script fails the evaluation; no judge is asked, and it is named."""
    from reflection.critique import guardrails

    def mine(_: guardrails.Checked) -> None:
        raise NotImplementedError

    mine.__module__ = "__main__"
    monkeypatch.setitem(guardrails._GUARDRAILS, "mine", mine)

    result = await reflect(client, ScriptedCritic(["first"], []), guardrails=["mine"])

    assert (result.draft, result.score, result.stop_reason) == ("first", None, "evaluation_failed")
    assert "guardrail mine is not registered in a module that can" in result.stop_explanation


async def test_finished_by_a_person_during_a_revision(client: Client) -> None:
    """`finish_now` ends the run with the best draft, and cancels the call in flight."""
    model = ScriptedCritic(["first", "second"], [0.4], delays={("write", 1): 60})

    async with served(client, model):
        handle = await begin_reflecting(client)
        await until_asked(model, 3)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = ReflectOnResultResult.model_validate(await handle.result())
        async with asyncio.timeout(15):
            while not model.cancelled:
                await asyncio.sleep(0.1)

    assert (result.draft, result.stop_reason) == ("first", "finished_by_person")
    assert (result.decisions[-1].author, model.cancelled) == ("ann", [("write", 1)])


async def test_a_cancelled_run_still_shows_its_best_draft(client: Client) -> None:
    """Temporal's cancel ends the run as cancelled, and `progress` has what there was."""
    model = ScriptedCritic(["first", "second"], [0.4], delays={("write", 1): 60})

    async with served(client, model):
        handle = await begin_reflecting(client)
        await until_asked(model, 3)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        after = await handle.query("progress", result_type=Progress)

    assert isinstance(caught.value.cause, CancelledError)
    assert (after.drafts[0].text, after.score) == ("first", 0.4)


async def test_a_given_draft_is_never_lost(client: Client) -> None:
    """A run that a person ends before its first step gives the draft back that it was given."""
    handle = await begin_reflecting(client, draft="mine")
    finishing = asyncio.create_task(handle.execute_update("finish_now", {"author": "ann"}))
    await asyncio.sleep(0.5)

    async with served(client, ScriptedCritic([], [0.9], delays={("judge", 0): 20})):
        await finishing
        result = ReflectOnResultResult.model_validate(await handle.result())

    assert (result.draft, result.stop_reason) == ("mine", "finished_by_person")
