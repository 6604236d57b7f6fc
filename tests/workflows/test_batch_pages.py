"""Batches whose items come in pages: each is taken once, and a bounded number of runs is made."""

import asyncio
import uuid
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import CancelledError

import worker
from adapters import QUEUES
from commands import plans
from commands.lines import Chosen, Given
from commands.measuring.findings import _read
from commands.options import Wanted
from commands.pages import opened, send_page
from mull.batch.request import BatchPage, Item
from mull.batch.result import BatchResult
from mull.telemetry import ServerActivities
from tests.chaos.runs import persistent
from tests.conftest import Handle, begin, failure, refusal, until, until_asked, until_sent
from tests.workflows.batches import (
    batch_of,
    begin_batch,
    draft_reader,
    ended,
    judging,
    served,
    standing,
)

SCORES = ("score 0.1", "score 0.2", "score 0.3")
CARRIED = {"item": 0, "variant": "judge", "repeat": 0, "workflow_id": "", "status": "completed"}


def page_of(number: int, *texts: str, **more: Any) -> dict[str, Any]:
    items = [{"id": f"{number}-{place}", "query": "q", "draft": t} for place, t in enumerate(texts)]
    return {"number": number, "items": items, **more}


async def begin_pages(client: Client, pages: int, *texts: Sequence[str], **fields: Any) -> Handle:
    """Begin a batch of so many pages, and add those that have these texts."""
    variant = {name: value for name, value in judging().items() if name != "takes"}
    handle = await begin_batch(client, {"variants": [variant], "pages": pages, **fields})
    for number, page in enumerate(texts):
        await add(handle, page_of(number, *page))
    return handle


def sending(handle: Handle, update: str, *given: Any) -> asyncio.Task[Any]:
    """Send an update, and again where it came within a task that failed since more had come."""
    return asyncio.create_task(persistent(partial(handle.execute_update, update, *given)))


async def add(handle: Handle, page: dict[str, Any]) -> int | None:
    return await send_page(handle, BatchPage.model_validate(page))


async def of_page(client: Client, handle: Handle, number: int) -> BatchResult:
    return await ended(client.get_workflow_handle(f"{handle.id}/page-{number}"))


async def test_pages_are_run_and_summed(client: Client) -> None:
    """Two pages of three are six runs; each page has its records, the batch their sums alone.

    In histories of one step each the result is the same.
    """
    model = draft_reader()
    async with served(client, model):
        handle = await begin_pages(client, 2, runs_per_execution=1)
        accepted = [await add(handle, page_of(number, *SCORES)) for number in (0, 1)]
        result = await ended(handle)
        pages = [await of_page(client, handle, number) for number in (0, 1)]

    first = await client.get_workflow_handle(handle.id, run_id=handle.result_run_id).describe()
    assert accepted == [1, 2]
    assert first.status is WorkflowExecutionStatus.CONTINUED_AS_NEW
    assert (result.completed, result.total, result.runs, result.tokens) == (6, 6, (), 600)
    assert [[run.item for run in page.runs] for page in pages] == [[0, 1, 2]] * 2
    assert pages[1].runs[2].workflow_id == f"{handle.id}/page-1/2-judge-0"
    assert (len(model.calls), result.stop_reason) == (6, "completed")


async def test_no_more_runs_at_once_than_the_whole_may_have(client: Client) -> None:
    model = draft_reader(delay=1.0)
    async with served(client, model):
        handle = await begin_pages(client, 3, *[SCORES] * 3, max_concurrency=3)
        result = await ended(handle)

    assert (result.completed, model.most) == (9, 3)


async def test_a_page_is_taken_once(client: Client) -> None:
    model = draft_reader()
    async with served(client, model):
        handle = await begin_pages(client, 2)
        await handle.execute_update("pause")
        first = page_of(0, *SCORES)
        again = await asyncio.gather(*(add(handle, first) for _ in range(3)))
        wrong: list[Any] = [page_of(number, "score 0.9") for number in (0, 7)]
        wrong += [page_of(1, "score 0.9", carried=[CARRIED | {"item": 1}])]
        wrong += [page_of(1, "x" * 300_000), "a page"]
        said = [await refusal(handle, "add_page", page) for page in wrong]
        await handle.execute_update("resume")
        await add(handle, page_of(1, "score 0.9"))
        result = await ended(handle)

    assert again == [1] * 3
    assert said[0] == "page 0 is here already, with other items"
    assert said[1] == "page 7: the batch has 2 pages, from 0"
    assert said[2] == "carried: a run names an unknown item or variant"
    assert "a page has at most 250,000" in said[3]
    assert said[4]
    assert (result.completed, len(model.calls)) == (4, 4)


async def test_an_item_that_is_wrong_is_a_run_that_failed(client: Client) -> None:
    model = draft_reader()
    items = [{"query": " "}, {"draft": "secret"}, {"query": "q", "draft": "score 0.4"}]
    async with served(client, model):
        handle = await begin_pages(client, 1)
        await add(handle, {"number": 0, "items": items})
        result = await ended(handle)
        page = await of_page(client, handle, 0)

    assert (result.completed, result.failed, len(model.calls)) == (1, 2, 1)
    wrong = "InvalidRequest: malformed ReflectOnResultRequest: query"
    assert [run.error for run in page.runs] == [
        f"{wrong}: should have at least 1 character",
        f"{wrong}: missing",
        None,
    ]


async def test_a_page_that_comes_as_a_history_ends_is_sent_again(client: Client) -> None:
    """The command line sends it until the next history takes it; in each there is room for one."""
    async with served(client, draft_reader()):
        handle = await begin_pages(client, 6, runs_per_execution=1)
        given = [BatchPage.model_validate(page_of(number, "score 0.1")) for number in range(6)]
        sent = [await send_page(handle, page) for page in given]
        result = await ended(handle)

    assert sent == [1, 2, 3, 4, 5, 6]
    assert result.completed == 6


async def test_what_is_measured_comes_in_pages_too(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three drafts, of which two fit a page: each run is read at its draft's place in the file.

    Started again nothing is made again, and where it was cancelled what has a result is kept.
    """
    monkeypatch.setattr("commands.plans.RUNS", 2)
    items: list[Item] = [{"query": "q", "draft": f"score 0.{place}"} for place in (1, 2, 3)]
    request, pages = plans.batch_of(items, [judging()], {})
    forecast = plans.Forecast([], "")
    given = Given("f", request, pages, forecast)
    chosen = Chosen(None, False, False, True, Wanted(), "jsonl", {})
    identity, model = f"measured-{uuid.uuid4().hex}", draft_reader()
    async with served(client, model):
        run, _ = await opened(client, identity, given, chosen)
        result = await ended(run.handle)
        await opened(client, identity, given, chosen)
        reads = await _read(client, identity, result, given)
        anew = await begin(client, request, "BatchWorkflow", identity)
        await anew.cancel()
        await failure(anew, CancelledError)
        await opened(client, identity, given, chosen)
        again = await ended(run.handle)

    assert (request.pages, result.completed, again.completed) == (2, 3, 3)
    found = [(read.run.item, read.result.draft) for read in reads]
    assert found == [(0, "score 0.1"), (1, "score 0.2"), (2, "score 0.3")]
    assert len(model.calls) == 3


@pytest.mark.parametrize("fit", [2, 500])
async def test_starts_of_one_batch_at_once_are_one_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch, fit: int
) -> None:
    """Each sends its pages, and nothing is made twice."""
    monkeypatch.setattr("commands.plans.RUNS", fit)
    items: list[Item] = [{"query": "q", "draft": f"score 0.{place}"} for place in (1, 2, 3)]
    given = Given("f", *plans.batch_of(items, [judging()], {}), plans.Forecast([], ""))
    chosen = Chosen(None, False, False, True, Wanted(), "jsonl", {})
    identity, model = f"twice-{uuid.uuid4().hex}", draft_reader()
    async with served(client, model):
        begun = await asyncio.gather(*(opened(client, identity, given, chosen) for _ in range(3)))
        results = [await ended(run.handle) for run, _ in begun]

    assert [result.completed for result in results] == [3, 3, 3]
    assert len(model.calls) == 3


async def test_a_page_whose_id_is_taken(client: Client) -> None:
    async with served(client, draft_reader()):
        handle = await begin_pages(client, 1)
        name = f"{handle.id}/page-0"
        held = {**batch_of("score 0.1"), "allowed": 0}
        taken = await begin(client, held, "BatchWorkflow", name)
        said = await refusal(handle, "add_page", page_of(0, "score 0.1"))
        await taken.terminate()
        accepted = await add(handle, page_of(0, "score 0.1"))
        result = await ended(handle)

    assert said == f"{name} still runs, from an earlier batch: cancel it first"
    assert (accepted, result.completed) == (1, 1)


async def test_a_paused_batch_starts_nothing(client: Client) -> None:
    model = draft_reader(delay=0.2)
    async with served(client, model):
        handle = await begin_pages(client, 2, SCORES, SCORES, max_concurrency=1)
        await until_asked(model, 1)
        await handle.execute_update("pause")
        await until(lambda: not model.under_way)
        await asyncio.sleep(1)
        made, seen = len(model.calls), await standing(handle, paused=True)
        await asyncio.sleep(0.7)
        still = len(model.calls)
        await handle.execute_update("resume")
        result = await ended(handle)

    assert made == still < 6
    assert seen.done < 6
    assert (result.completed, len(model.calls)) == (6, 6)


async def test_a_budget_holds_for_all_pages(client: Client) -> None:
    model = draft_reader()
    async with served(client, model):
        handle = await begin_pages(client, 3, *[SCORES[:2]] * 3, budget_tokens=420)
        result = await ended(handle)
        last = await of_page(client, handle, 2)

    assert (result.completed, result.not_started, result.stop_reason) == (4, 2, "budget")
    assert [run.status for run in last.runs] == ["not_started"] * 2
    assert len(model.calls) == 4


async def test_finishing_ends_every_page(client: Client) -> None:
    model = draft_reader()
    async with served(client, model):
        handle = await begin_pages(client, 4, *[("slow", "score 0.2")] * 3, max_concurrency=2)
        await until_asked(model, 2)
        await handle.execute_update("finish_now", {"author": "ann"})
        result = await ended(handle)

    assert (result.stop_explanation, result.total) == ("finished by ann", 6)
    assert result.stop_reason == "finished_by_person"
    assert result.cancelled + result.not_started == 6


async def test_cancelling_cancels_every_page(client: Client) -> None:
    model = draft_reader()
    async with served(client, model):
        handle = await begin_pages(client, 3, *[("slow",)] * 3, max_concurrency=2)
        await until_asked(model, 1)
        await handle.cancel()
        await failure(handle, CancelledError)
        for number in range(3):
            with pytest.raises(WorkflowFailureError):
                await of_page(client, handle, number)


async def test_a_batch_that_is_cancelled_as_its_history_begins(client: Client) -> None:
    """It cancels the pages that an earlier history left under way all the same."""
    identity = f"pages-{uuid.uuid4().hex}"
    held = {**batch_of("score 0.1"), "page": 0, "allowed": 0}
    page = await begin(client, held, "BatchWorkflow", f"{identity}/page-0")
    left = {"accepted": [["digest", 1]], "begun": 1, "in_flight": [[0, 1]]}
    request = {"variants": [judging()], "pages": 1, "standing": left}
    handle = await begin(client, request, "BatchWorkflow", identity)
    await handle.cancel()
    async with served(client, draft_reader()):
        for each in (handle, page):
            await failure(each, CancelledError)


async def test_a_batch_that_is_cancelled_while_it_asks_its_worker(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow look at the server's search attributes is cancelled with the batch; no page is left.

    A worker has the task while that lasts, and hears of the cancellation as it asks for more time.
    """
    asked, wait = ServerActivities.registered_search_attributes, asyncio.Event().wait
    asking = asyncio.Event()

    @activity.defn(name="registered_search_attributes")
    async def stuck(given: ServerActivities, *run: Any) -> Any:
        if "/" not in (activity.info().workflow_id or ""):
            asking.set()
            await wait()
        return await asked(given, *run)

    monkeypatch.setattr(ServerActivities, "registered_search_attributes", stuck)
    async with worker.running(worker.build(client, QUEUES, draft_reader())):
        handle = await begin_pages(client, 1)
        added = sending(handle, "add_page", page_of(0, "score 0.1"))
        await asking.wait()
        await handle.cancel()
        assert await added == 1
        for result in (ended(handle), of_page(client, handle, 0)):
            with pytest.raises(WorkflowFailureError) as caught:
                await result
            assert isinstance(caught.value.cause, CancelledError)


async def test_a_batch_that_is_cancelled_while_it_tells_a_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancellation is the batch's: the SDK would take it for one of the signal alone."""
    handle = await begin_pages(client, 1)
    reach, here = workflow.get_external_workflow_handle_for, asyncio.get_running_loop()
    left = [f"{handle.id}/page-0"]

    def reached(run: Any, identity: str) -> Any:
        if identity in left:
            left.clear()
            asyncio.run_coroutine_threadsafe(handle.cancel(), here).result(2)
        return reach(run, identity)

    monkeypatch.setattr(workflow, "get_external_workflow_handle_for", reached)
    async with served(client, draft_reader()):
        await add(handle, page_of(0, "score 0.1"))
        await failure(handle, CancelledError)


async def test_a_page_that_is_gone_is_counted(client: Client) -> None:
    model = draft_reader()
    async with served(client, model):
        handle = await begin_pages(client, 3, max_concurrency=2)
        for number, text in enumerate(("slow", "slow", "score 0.3")):
            await add(handle, page_of(number, text))
        await until_asked(model, 2)
        await client.get_workflow_handle(f"{handle.id}/page-0").cancel()
        await standing(handle, cancelled=1)
        await client.get_workflow_handle(f"{handle.id}/page-1").terminate()
        await handle.execute_update("pause")
        await handle.execute_update("resume")
        result = await ended(handle)

    assert (result.completed, result.cancelled, result.failed) == (1, 1, 1)
    assert result.warnings[-1] == f"the workflow {handle.id}/page-1 ended without a report"


async def test_what_was_carried_is_not_made_again(client: Client) -> None:
    model = draft_reader()
    carried = [CARRIED | {"tokens": 7, "cost_usd": 0.5}]
    async with served(client, model):
        handle = await begin_pages(client, 1)
        await add(handle, page_of(0, "score 0.1", "score 0.2", carried=carried))
        result = await ended(handle)

    assert (result.completed, result.tokens, len(model.calls)) == (2, 107, 1)


async def test_a_page_that_has_nothing_to_do_waits_for_its_turn(client: Client) -> None:
    async with served(client, draft_reader(delay=1)):
        handle = await begin_pages(client, 3, max_concurrency=1)
        await add(handle, page_of(0, "score 0.1"))
        for number in (1, 2):
            await add(handle, page_of(number, "score 0.2", carried=[CARRIED]))
        result = await ended(handle)

    assert (result.completed, result.failed, result.warnings) == (3, 0, ())


async def test_everything_of_a_page_has_the_last_priority(client: Client) -> None:
    async with served(client, draft_reader()):
        handle = await begin_pages(client, 1)
        await add(handle, page_of(0, "score 0.1"))
        await ended(handle)
    page = client.get_workflow_handle(f"{handle.id}/page-0")
    run = client.get_workflow_handle(f"{handle.id}/page-0/0-judge-0")

    started = [(await each.fetch_history()).events[0] for each in (page, run)]
    found = [event.workflow_execution_started_event_attributes.priority for event in started]

    assert [(one.priority_key, one.fairness_key) for one in found] == [(5, handle.id)] * 2
    calls = [
        event
        async for event in run.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert calls
    # An activity without a priority of its own has that of its workflow, which the server adds.
    assert {
        event.activity_task_scheduled_event_attributes.priority.priority_key for event in calls
    } <= {0, 5}


async def test_what_is_said_as_a_history_ends_is_not_lost(client: Client) -> None:
    """An accepted `finish_now` or `resume` holds, and no page stays open, however full it is.

    With the worker down, what is sent comes to the workflow in one task. Nobody takes the call of
    the first page's run before: it would end while the worker goes down, and the next page begin.
    """
    model = draft_reader()
    async with served(client, model, "mull"):
        handle = await begin_pages(client, 3, runs_per_execution=3, max_concurrency=1)
        for number, text in enumerate(("score 0.1", "score 0.2")):
            await add(handle, page_of(number, text))
        await standing(handle, running=1)
        first = (await handle.describe()).run_id
    counts = {"completed": 1, "tokens": 100}
    end = {"page": 0, "counts": counts, "stop_reason": "completed", "stop_explanation": ""}
    await handle.signal("page_ended", end)
    said = sending(handle, "finish_now", {"author": "ann"})
    await until_sent(handle)
    async with served(client, model):
        await said
        result = await ended(handle)
        described = await handle.describe()
        last = await of_page(client, handle, 1)

    assert described.run_id != first
    assert (result.stop_explanation, result.completed) == ("finished by ann", 1)
    assert [run.status for run in last.runs] == ["not_started"]


async def test_a_batch_of_items_that_is_finished_as_a_history_ends(client: Client) -> None:
    """It ends with what there is, instead of going on with the next run."""
    model = draft_reader(delay=2)
    async with served(client, model):
        handle = await begin_batch(client, batch_of(*SCORES, runs_per_execution=1))
        await until_asked(model, 1)
    said = sending(handle, "finish_now", {"author": "ann"})
    await until_sent(handle)
    async with served(client, model):
        await said
        result = await ended(handle)

    assert result.stop_explanation == "finished by ann"


async def test_a_page_that_comes_as_the_batch_is_finished_is_not_orphaned(client: Client) -> None:
    """A page that was accepted is in the result, and its workflow ends.

    No worker is there meanwhile; a busy server may still hand both over in the other order.
    """
    async with served(client, draft_reader()):
        handle = await begin_pages(client, 1)
        await handle.query("progress")
    added = sending(handle, "add_page", page_of(0, *SCORES))
    await until_sent(handle)
    said = sending(handle, "finish_now")
    await until_sent(handle)
    async with served(client, draft_reader()):
        await said
        result = await ended(handle)
        try:
            assert await added == 1
        except WorkflowUpdateFailedError:
            assert result.total == 0
        else:
            page = await of_page(client, handle, 0)
            assert (result.total, result.not_started, page.not_started) == (3, 3, 3)


async def test_two_callers_with_other_items_for_one_page(client: Client) -> None:
    """The first is taken; the second waited for it, and hears that the page is here."""
    async with served(client, draft_reader()):
        handle = await begin_pages(client, 1)
        await handle.query("progress")
    both = [sending(handle, "add_page", page_of(0, text)) for text in ("score 0.1", "score 0.2")]
    await until_sent(handle)
    async with served(client, draft_reader()):
        found = await asyncio.gather(*both, return_exceptions=True)
        result = await ended(handle)

    (said,) = [one.cause for one in found if isinstance(one, WorkflowUpdateFailedError)]
    assert getattr(said, "message", "") == "page 0 is here already, with other items"
    assert (result.total, 1 in found) == (1, True)


async def test_a_silent_batch_goes_on_in_a_new_history(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking after its pages for months fills no history, and while it is paused nobody asks."""
    monkeypatch.setattr("workflows.batch.SILENCE", timedelta(seconds=0.2))
    async with served(client, draft_reader()):
        handle = await begin_pages(client, 2, runs_per_execution=3)
        await add(handle, page_of(0, "slow"))
        first = (await handle.describe()).run_id
        await until(handle.describe, lambda described: described.run_id != first)
        await handle.execute_update("pause")
        events = (await handle.describe()).history_length
        await asyncio.sleep(1.5)
        later = (await handle.describe()).history_length
        await handle.cancel()

    assert later - events < 12
