"""What goes wrong while a run goes on: what there is comes back, and what happened."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from activities.language_model.port import PermanentModelError, SampleError, TransientModelError
from reflection.multipath.result import Progress
from reflection.text import CUT_NOTE, encoded_size
from tests.conftest import failure, until_asked
from tests.scripted import AgentTurn, ScriptedAgent, reply
from tests.workflows.multipath.running import (
    BAD,
    FINE,
    TASK,
    WRONG,
    ScriptedTester,
    coding,
    ended,
    finding,
    passage,
    report,
    research,
    researching,
    run,
    served,
    start,
)

DOWN = PermanentModelError("no such key", "AuthenticationError", 401)
BUSY = TransientModelError("busy", "InternalServerError", 500)
EMPTY = SampleError("the reply is empty", "EmptyReply")


def slowly(model: ScriptedAgent, *places: tuple[str, int]) -> ScriptedAgent:
    """The same model, with a minute's delay at these places."""
    return ScriptedAgent(model._script, delays=dict.fromkeys(places, 60.0))


@pytest.mark.parametrize("said", [DOWN, [BUSY, BUSY]])
async def test_a_writer_that_is_down_fails_the_run(
    client: Client, said: AgentTurn | list[AgentTurn]
) -> None:
    """Where no call can be made there is nothing to keep: the run fails by the provider's class."""
    async with served(client, researching(generate_report=[said])):
        error = await failure(await start(client, max_attempts=2))

    assert error.type in {"AuthenticationError", "InternalServerError"}


async def test_no_first_report_is_an_outcome(client: Client) -> None:
    """A model that writes none leaves a result without output, which is open."""
    result = await research(client, researching(generate_report=[[EMPTY] * 3]))

    assert (result.output, result.stop_reason, result.open) == (None, "generation_failed", True)
    assert "no draft could be generated" in result.stop_explanation


@pytest.mark.parametrize("said", [DOWN, [BUSY, BUSY], EMPTY])
async def test_a_refinement_that_can_t_be_had(
    client: Client, said: AgentTurn | list[AgentTurn]
) -> None:
    """The report that there is comes back with its critiques, and the reason names what failed."""
    model = researching(WRONG, FINE, generate_report=[WRONG, said])

    result = await research(client, model, passage(), max_attempts=2)

    assert (result.stop_reason, result.kept, result.open) == ("generation_failed", 0, True)
    assert "no better draft could be generated" in result.stop_explanation
    assert result.decisions[-1].after == "generate_report"
    assert result.revisions == 1


async def test_a_cut_report_is_kept_and_marked(client: Client) -> None:
    """A report that was cut off at its tokens' limit is reflected on, and says that it is cut."""
    cut = reply(FINE, finish_reason="length")
    model = researching(FINE, generate_report=[cut])

    result = await research(client, model, passage())

    assert (result.drafts[0].cut, result.stop_reason) == (True, "consistent")


async def test_a_report_is_cut_to_what_a_result_can_hold(client: Client) -> None:
    """A longer text loses its end, and the draft says so."""
    model = researching(FINE + " And so on." * 10_000)

    result = await research(client, model, passage())

    assert (encoded_size(result.drafts[0].text), result.drafts[0].cut) == (60_000, True)
    assert result.drafts[0].text.endswith(CUT_NOTE)
    assert "draft 1 was cut to 60,000 bytes, the size for a result" in result.warnings


@pytest.mark.parametrize(
    ("slow", "after", "kept"),
    [
        (("route", 0), "retrieve", None),
        (("generate_report", 0), "route", None),
        (("reflect_on_report", 0), "generate_report", 0),
        (("generate_report", 1), "reflect_on_report", 0),
    ],
)
async def test_the_deadline_during_a_call(
    client: Client, slow: tuple[str, int], after: str, kept: int | None
) -> None:
    """The call is cancelled, and what there is comes back: after which node, the decision says."""
    model = slowly(researching(WRONG, FINE), slow)

    result = await research(client, model, passage(), budget_seconds=2)

    assert (result.stop_reason, result.kept, result.open) == ("deadline", kept, True)
    assert result.decisions[-1].after == after
    assert result.usage.parts["cancelled"].calls == 1


async def test_the_deadline_during_the_search(client: Client) -> None:
    """A search that takes too long ends the run before there is anything."""
    retriever = finding(passage(), delay=60)

    result = await run(client, researching(FINE), None, retriever, docs="tides", budget_seconds=1)

    assert (result.output, result.stop_reason) == (None, "deadline")


async def test_the_deadline_during_a_test(client: Client) -> None:
    """The program is cancelled, and the code comes back untested."""
    tester = ScriptedTester(report(True, True, True), delay=60)

    result = await run(client, coding(BAD), tester, prompt=TASK, budget_seconds=2)

    assert (result.output, result.stop_reason, result.open) == (BAD + "\n", "deadline", True)


async def test_finished_by_a_person_during_a_refinement(client: Client) -> None:
    """`finish_now` ends the run with what there is, and cancels the call in flight."""
    model = slowly(researching(WRONG, FINE), ("generate_report", 1))

    async with served(client, model, None, finding(passage())):
        handle = await start(client, docs="tides", review_open=True)
        await until_asked(model, 4)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)
        async with asyncio.timeout(15):
            while not model.cancelled:
                await asyncio.sleep(0.1)

    assert (result.kept, result.stop_reason) == (0, "finished_by_person")
    assert (result.decisions[-1].author, model.cancelled) == ("ann", [("generate_report", 1)])


async def test_finished_before_the_first_step(client: Client) -> None:
    """A run that a person ends before any worker has seen it asks nothing and has nothing."""
    handle = await start(client)
    finishing = asyncio.create_task(handle.execute_update("finish_now", {"author": "ann"}))
    await asyncio.sleep(0.5)
    model = researching(FINE)

    async with served(client, model):
        await finishing
        result = await ended(handle)

    assert (result.output, result.stop_reason, result.decisions[-1].after) == (
        None,
        "finished_by_person",
        None,
    )
    assert model.calls == []


async def test_a_cancelled_run_still_shows_its_draft(client: Client) -> None:
    """Temporal's cancel ends the run as cancelled, and `progress` has what there was."""
    model = slowly(researching(WRONG, FINE), ("generate_report", 1))

    async with served(client, model, None, finding(passage())):
        handle = await start(client, docs="tides")
        await until_asked(model, 4)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        after = await handle.query("progress", result_type=Progress)

    assert isinstance(caught.value.cause, CancelledError)
    assert after.drafts[0].text == WRONG


async def test_retries_are_counted(client: Client) -> None:
    """A call that fails in passing is made again by Temporal, and the result counts it."""
    model = researching(FINE, generate_report=[[BUSY, FINE]])

    result = await research(client, model, passage())

    assert (result.drafts[0].attempts, result.usage.parts["retried"].calls) == (2, 1)


async def test_what_a_provider_does_not_take_is_told(client: Client) -> None:
    """A parameter that was left out stands in the warnings, once."""
    without: Any = reply(FINE).model_copy(update={"left_out": ("seed",)})
    model = researching(FINE, generate_report=[without])

    result = await research(client, model, passage(), seed=7)

    assert "the provider does not take seed; it was not sent" in result.warnings
    assert result.drafts[0].seed is None
