"""Every edge of the transition function, walked by the workflow itself: result, history, spans."""

from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from reflection.multipath.result import Decision
from tests.scripted import ScriptedAgent, reflection, routed
from tests.workflows.multipath.running import (
    BAD,
    FINE,
    GOOD,
    TASK,
    WRONG,
    ScriptedTester,
    coding,
    ended,
    finding,
    passage,
    report,
    researching,
    served,
    start,
)

NODES = {
    "retrieve",
    "route",
    "generate_report",
    "reflect_on_report",
    "generate_code",
    "test_code",
    "write_tests",
}
Edge = tuple[str, str]

RESEARCHED: list[Edge] = [
    ("retrieve", "route"),
    ("route", "generate_report"),
    ("generate_report", "reflect_on_report"),
]
CODED: list[Edge] = [
    ("retrieve", "route"),
    ("route", "generate_code"),
    ("generate_code", "test_code"),
]
AGAIN_REPORT: list[Edge] = [
    ("reflect_on_report", "generate_report"),
    ("generate_report", "reflect_on_report"),
]
AGAIN_CODE: list[Edge] = [("test_code", "generate_code"), ("generate_code", "test_code")]

EDGES = [
    (
        "a consistent report",
        researching(FINE),
        (),
        {},
        [*RESEARCHED, ("reflect_on_report", "consistent")],
    ),
    (
        "a refined report",
        researching(WRONG, FINE),
        (),
        {},
        [*RESEARCHED, *AGAIN_REPORT, ("reflect_on_report", "consistent")],
    ),
    (
        "R_n reaches R_max of 3",
        researching(FINE, FINE, FINE, reflect_on_report=[reflection("mend")] * 3),
        (),
        {},
        [*RESEARCHED, *AGAIN_REPORT, *AGAIN_REPORT, ("reflect_on_report", "max_revisions")],
    ),
    (
        "code that passes",
        coding(GOOD),
        (report(True, True, True),),
        {"prompt": TASK},
        [*CODED, ("test_code", "passed")],
    ),
    (
        "code that is repaired",
        coding(BAD, GOOD),
        (report(False, True, False), report(True, True, True)),
        {"prompt": TASK},
        [*CODED, *AGAIN_CODE, ("test_code", "passed")],
    ),
    (
        "R_n reaches R_max of 5",
        coding(*[BAD] * 5),
        (report(False, True, False), report(True, False, True)) * 2 + (report(False, True, True),),
        {"prompt": TASK},
        [*CODED, *AGAIN_CODE * 4, ("test_code", "max_revisions")],
    ),
    (
        "neither path",
        ScriptedAgent({"route": [routed("neither")]}),
        (),
        {},
        [("retrieve", "route"), ("route", "unrouted")],
    ),
]


@pytest.mark.parametrize(
    ("model", "reports", "fields", "edges"),
    [each[1:] for each in EDGES],
    ids=[each[0] for each in EDGES],
)
async def test_every_edge_is_walked(
    client: Client,
    spans: InMemorySpanExporter,
    model: ScriptedAgent,
    reports: tuple[Any, ...],
    fields: dict[str, Any],
    edges: list[Edge],
) -> None:
    """Decisions, the history's activities and the spans name the nodes in the order of T(S)."""
    async with served(client, model, ScriptedTester(*reports), finding(passage())):
        handle = await start(client, docs="tides", **fields)
        result = await ended(handle)
        history = await handle.fetch_history()

    visited = [after for after, _ in edges]
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert [edge(each) for each in result.decisions] == edges
    assert [each for each in scheduled if each != "write_tests"] == visited
    assert nodes(spans) == scheduled


async def test_without_documents_the_first_node_is_still_retrieve(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """D stays empty without an activity, and the transition and the span are recorded."""
    async with served(client, researching("The tide is high, as far as I know.")):
        result = await ended(await start(client))

    assert edge(result.decisions[0]) == ("retrieve", "route")
    assert result.decisions[0].reason.startswith("no passage retrieved: no documents were given")
    assert nodes(spans)[0] == "retrieve"
    assert result.sources == ()
    assert (result.output or "").startswith("> No source was found")


def edge(decision: Decision) -> Edge:
    assert decision.after is not None
    return decision.after, decision.next or str(decision.stop_reason)


def nodes(spans: InMemorySpanExporter) -> list[str]:
    found = [each for each in spans.get_finished_spans() if each.name in NODES]
    return [each.name for each in sorted(found, key=lambda each: each.end_time or 0)]
