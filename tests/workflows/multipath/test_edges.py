"""Every edge of the transition function, walked by the workflow itself: result, history, spans."""

from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from mull.multipath.result import Decision
from mull.telemetry import NODE_KINDS
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

NODES = frozenset(NODE_KINDS)
Edge = tuple[str, str]
AGAIN, REPAIR = "generate_report reflect_on_report", "generate_code test_code"
REPORT, CODE = f"retrieve route {AGAIN}", f"retrieve route {REPAIR}"
PASSED, FAILED = report(True, True, True), report(False, True, False)
MEND = [reflection("mend")] * 3

# A model, what the tests say, and the nodes in their order with the reason to stop.
PATHS: list[tuple[ScriptedAgent, tuple[Any, ...], str]] = [
    (researching(FINE), (), f"{REPORT} consistent"),
    (researching(WRONG, FINE), (), f"{REPORT} {AGAIN} consistent"),
    (
        researching(*[FINE] * 3, reflect_on_report=MEND),
        (),
        f"{REPORT} {AGAIN} {AGAIN} max_revisions",
    ),
    (coding(GOOD), (PASSED,), f"{CODE} passed"),
    (coding(BAD, GOOD), (FAILED, PASSED), f"{CODE} {REPAIR} passed"),
    (
        coding(*[BAD] * 5),
        (FAILED, report(True, False, True)) * 2 + (report(False, True, True),),
        f"{CODE} {' '.join([REPAIR] * 4)} max_revisions",
    ),
    (ScriptedAgent({"route": [routed("neither")]}), (), "retrieve route unrouted"),
]


@pytest.mark.parametrize(("model", "reports", "path"), PATHS, ids=[path for *_, path in PATHS])
async def test_every_edge_is_walked(
    client: Client,
    spans: InMemorySpanExporter,
    model: ScriptedAgent,
    reports: tuple[Any, ...],
    path: str,
) -> None:
    """Decisions, the history's activities and the spans name the nodes in the order of T(S)."""
    async with served(client, model, ScriptedTester(*reports), finding(passage())):
        handle = await start(client, docs="tides", **({"prompt": TASK} if reports else {}))
        result = await ended(handle)
        history = await handle.fetch_history()

    *visited, _ = path.split()
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert [edge(each) for each in result.decisions] == list(pairwise(path.split()))
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
