"""The transitions of the agent, walked by the workflow itself: result, history, spans."""

from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.language_model.port import PermanentModelError, SampleError
from mull.multipath.result import Decision
from mull.telemetry import NODE_KINDS
from tests.conftest import activities_of
from tests.scripted import ScriptedModel, reflection, routed
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
PATHS: list[tuple[ScriptedModel, tuple[Any, ...], str]] = [
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
    (ScriptedModel(route=[routed("neither")]), (), "retrieve route unrouted"),
]


@pytest.mark.parametrize(("model", "reports", "path"), PATHS, ids=[path for *_, path in PATHS])
async def test_every_transition_is_walked(
    client: Client,
    spans: InMemorySpanExporter,
    model: ScriptedModel,
    reports: tuple[Any, ...],
    path: str,
) -> None:
    async with served(client, model, ScriptedTester(*reports), finding(passage())):
        handle = await start(client, docs="tides", **({"prompt": TASK} if reports else {}))
        result = await ended(handle)
        scheduled = await activities_of(handle)

    *visited, _ = path.split()
    assert [edge(each) for each in result.decisions] == list(pairwise(path.split()))
    assert [each for each in scheduled if each != "write_tests"] == visited
    assert [each.name for each in nodes(spans)] == scheduled


DOWN = PermanentModelError("no such key", "AuthenticationError", 401)
EMPTY, UNREAD = [SampleError("the reply is empty", "EmptyReply")] * 2, ["no", "no again"]
BROKEN = ApplicationError("no namespace", type="sandbox_error")
SEARCH, TESTS = "retrieve route", "retrieve route write_tests"
SLOW = {("reflect_on_report", 0): 60.0}

# A model, what the tests say, and a bound; the activities in their order; the node at which the
# run ends, its span's error, and the last completed node with the reason to stop.
FAULTS: list[tuple[ScriptedModel, tuple[Any, ...], dict[str, Any], str, str, str | None, Edge]] = [
    (researching(route=[UNREAD]), (), {},
     f"{SEARCH} route", "route", None, ("route", "unrouted")),
    (researching(generate_report=[EMPTY]), (), {"max_attempts": 2},
     f"{SEARCH} generate_report", "generate_report", "generation_failed",
     ("generate_report", "generation_failed")),
    (researching(FINE, reflect_on_report=[DOWN]), (), {},
     REPORT, "reflect_on_report", "reflection_failed",
     ("reflect_on_report", "reflection_failed")),
    (researching(FINE, reflect_on_report=[UNREAD]), (), {},
     f"{REPORT} reflect_on_report", "reflect_on_report", "reflection_failed",
     ("reflect_on_report", "reflection_failed")),
    (researching(WRONG, FINE, generate_report=[WRONG, DOWN]), (), {},
     f"{REPORT} generate_report", "generate_report", "generation_failed",
     ("generate_report", "generation_failed")),
    (researching(FINE, reflect_on_report=[UNREAD]), (), {"budget_tokens": 220},
     REPORT, "reflect_on_report", "budget", ("reflect_on_report", "budget")),
    (researching(WRONG, FINE), (), {"budget_tokens": 220},
     REPORT, "reflect_on_report", None, ("reflect_on_report", "budget")),
    (researching(FINE, delays=SLOW), (), {"budget_seconds": 1},
     REPORT, "reflect_on_report", "cut_short", ("generate_report", "deadline")),
    (coding(GOOD, write_tests=[DOWN]), (PASSED,), {},
     f"{TESTS} generate_code", "test_code", "test_failed", ("test_code", "test_failed")),
    (coding(GOOD, write_tests=[UNREAD]), (PASSED,), {},
     f"{TESTS} write_tests generate_code", "test_code", "test_failed",
     ("test_code", "test_failed")),
    (coding(GOOD, write_tests=[UNREAD]), (PASSED,), {"budget_tokens": 120},
     TESTS, "write_tests", "budget", ("route", "budget")),
    (coding(generate_code=[UNREAD]), (PASSED,), {},
     f"{TESTS} generate_code generate_code", "generate_code", "generation_failed",
     ("generate_code", "generation_failed")),
    (coding(BAD, GOOD), (FAILED, BROKEN), {},
     f"{TESTS} generate_code test_code generate_code test_code", "test_code", "test_failed",
     ("test_code", "test_failed")),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_ends_the_walk(
    client: Client, spans: InMemorySpanExporter, fault: Any
) -> None:
    """No call follows the fault, the span of its node says why, and the decision what was done.

    A node that was cut short, or had no room, is not done.
    """
    model, reports, bound, made, at, error, last = fault
    async with served(client, model, ScriptedTester(*reports), finding(passage())):
        asked = {"docs": "tides", **({"prompt": TASK} if reports else {}), **bound}
        handle = await start(client, **asked)
        result = await ended(handle)
        scheduled = await activities_of(handle)

    assert scheduled == made.split()
    ended_at = nodes(spans)[-1]
    assert (ended_at.name, (ended_at.attributes or {}).get("error.type")) == (at, error)
    assert edge(result.decisions[-1]) == last


async def test_without_documents_the_first_node_is_still_retrieve(
    client: Client, spans: InMemorySpanExporter
) -> None:
    async with served(client, researching("The tide is high, as far as I know.")):
        result = await ended(await start(client))

    assert edge(result.decisions[0]) == ("retrieve", "route")
    assert result.decisions[0].reason.startswith("no passage retrieved: no documents were given")
    assert nodes(spans)[0].name == "retrieve"
    assert result.sources == ()
    assert (result.output or "").startswith("> No source was found")


def edge(decision: Decision) -> Edge:
    assert decision.after is not None
    return decision.after, decision.next or str(decision.stop_reason)


def nodes(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    found = [each for each in spans.get_finished_spans() if each.name in NODES]
    return sorted(found, key=lambda each: each.end_time or 0)
