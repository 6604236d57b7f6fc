"""What Temporal and its Web UI show of a run."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from tests.conftest import Handle, begin, begin_reflecting, served
from tests.scripted import ScriptedModel, reflection
from tests.workflows.multipath import running as agents


class Seen(NamedTuple):
    """A run, and what is seen of it.

    `scheduled` has the summary of each activity, with the group of its events if there is one.
    `details` are parts of the current details.
    """

    serve: Callable[[Client], AbstractAsyncContextManager[None]]
    start: Callable[[Client], Awaitable[Handle]]
    attributes: dict[str, object]
    memo: dict[str, object]
    scheduled: list[tuple[str, list[str]]]
    details: tuple[str, ...]


ANSWERS = ["129", "128", "129", "128", "129", "129"]
RUNS = {
    "ask": Seen(
        lambda client: served(client, ScriptedModel(sample=ANSWERS)),
        lambda client: begin(client, {"question": "How much?", "max_responses": 6}),
        {
            "MullStopReason": "max_responses",
            "MullConsensus": "emerging",
            "MullUncertainty": "medium",
            "MullEntropyLevel": "uniform",
            "MullModel": "scripted/model",
            "MullConfidence": pytest.approx(4 / 6),
            "MullNeedsReview": False,
            "MullCostUsd": pytest.approx(0.006),
            "MullSamples": 6,
            "MullTokens": 600,
        },
        {"answer": "129", "stop_reason": "max_responses"},
        [(f"sample {number} of at most 6", ["wave 1"]) for number in range(1, 6)]
        + [("sample 6 of at most 6", ["wave 2"])],
        ("answers        6, in",),
    ),
    "reflect": Seen(
        lambda client: served(client, ScriptedModel(write=["first", "second"], judge=[0.4, 0.9])),
        begin_reflecting,
        {
            "MullStopReason": "passed",
            "MullScore": 0.9,
            "MullRevisions": 1,
            "MullNeedsReview": False,
            "MullModel": "scripted/model",
            "MullCostUsd": pytest.approx(0.006),
            "MullTokens": 300,
        },
        {"draft": "second", "score": 0.9, "stop_reason": "passed"},
        [
            ("draft 1", []),
            ("draft 1: ask the judge", []),
            ("draft 2: a revision of draft 1", ["revision 1"]),
            ("draft 2: ask the judge", ["revision 1"]),
        ],
        (),
    ),
    "code": Seen(
        lambda client: agents.served(
            client,
            agents.coding(agents.BAD, agents.GOOD),
            agents.ScriptedTester(
                agents.report(False, True, True), agents.report(True, True, True)
            ),
        ),
        lambda client: agents.start(client, prompt=agents.TASK),
        {
            "MullStopReason": "passed",
            "MullRevisions": 2,
            "MullNeedsReview": False,
            "MullModel": "scripted/model",
            "MullCostUsd": pytest.approx(0.007),
            "MullTokens": 350,
        },
        {"output": agents.GOOD + "\n", "mode": "code", "open": False},
        [
            ("research or code", []),
            ("tests", []),
            ("draft 1", ["draft 1"]),
            ("draft 1: 3 tests", ["draft 1"]),
            ("draft 2: a repair", ["draft 2"]),
            ("draft 2: 3 tests", ["draft 2"]),
        ],
        (),
    ),
    "research": Seen(
        lambda client: agents.served(
            client,
            agents.researching(
                agents.FINE,
                agents.FINE,
                reflect_on_report=[["no", reflection("mend")], reflection()],
            ),
            None,
            agents.finding(agents.passage()),
        ),
        lambda client: agents.start(client, docs="tides", judge="x/judge"),
        {
            "MullStopReason": "consistent",
            "MullRevisions": 2,
            "MullNeedsReview": False,
            "MullModel": "scripted/model",
            "MullCostUsd": pytest.approx(0.008),
            "MullTokens": 400,
        },
        {"mode": "research", "open": False},
        [
            ("up to 8 passages", []),
            ("research or code", []),
            ("draft 1", ["draft 1"]),
            ("draft 1: ask x/judge", ["draft 1"]),
            ("draft 1: ask x/judge again: the reply could not be read", ["draft 1"]),
            ("draft 2: draft 1 refined", ["draft 2"]),
            ("draft 2: ask x/judge", ["draft 2"]),
        ],
        (),
    ),
}


@pytest.mark.parametrize("seen", RUNS.values(), ids=RUNS)
async def test_what_temporal_shows_of_a_run(client: Client, seen: Seen) -> None:
    async with seen.serve(client):
        handle = await seen.start(client)
        await handle.result()
        description = await handle.describe()
        history = await handle.fetch_history()
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    memo = await description.memo()
    assert {name: found[name] for name in found if name.startswith("Mull")} == seen.attributes
    assert seen.memo.items() <= memo.items()
    scheduled = [
        (event.user_metadata.summary.data.decode(), [m.label.id for m in event.event_group_markers])
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == [(f'"{summary}"', groups) for summary, groups in seen.scheduled]
    for part in (f"Stopped (`{seen.attributes['MullStopReason']}`)", *seen.details):
        assert part in metadata.current_details


async def test_the_web_ui_shows_a_run_as_it_is_when_asked(client: Client) -> None:
    """The details count a call as done once its reply has come, and not only after its wave."""
    model = ScriptedModel(sample=["7", "7", "7"], delays=[0, 0, 60])

    async with served(client, model):
        handle = await begin(client, {"question": "How much?", "rule": "fixed", "max_responses": 3})
        details = ""
        while "1 call in flight" not in details and "Stopped" not in details:
            await asyncio.sleep(0.1)
            metadata = await handle.query(
                "__temporal_workflow_metadata", result_type=WorkflowMetadata
            )
            details = metadata.current_details
        await handle.execute_update("finish_now")
        await handle.result()

    assert "1 call in flight" in details


async def test_a_run_without_details_is_shown_too(client: Client) -> None:
    async with served(client, ScriptedModel()):
        handle = await begin(client, {"offline": True}, "DoctorWorkflow")
        await handle.result()
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    assert (metadata.definition.type, metadata.current_details) == ("DoctorWorkflow", "")


async def test_a_draft_comes_with_what_the_guardrails_found(client: Client) -> None:
    """A revision costs two calls and nothing more: no local activity checks what was written.

    Nor are search attributes written before the end: no filter needs them of so short a run.
    """
    model = ScriptedModel(write=["first", "second"], judge=[0.4, 0.9])

    async with served(client, model):
        handle = await begin_reflecting(client)
        await handle.result()
        history = await handle.fetch_history()

    kinds = Counter(event.WhichOneof("attributes") for event in history.events)
    assert kinds["marker_recorded_event_attributes"] == 2
    assert kinds["workflow_task_completed_event_attributes"] == 5
    assert kinds["upsert_workflow_search_attributes_event_attributes"] == 1
