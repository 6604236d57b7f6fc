"""What tracing and Temporal record of a run of the agent, with every task replayed."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from activities.language_model.layers import ObservedModel
from reflection.multipath.result import Decision, Progress
from tests.conftest import until_asked
from tests.scripted import ScriptedAgent, reflection, routed
from tests.workflows.multipath.running import (
    BAD,
    GOOD,
    TASK,
    ScriptedTester,
    coding,
    ended,
    finding,
    passage,
    report,
    researching,
    run,
    served,
    start,
)
from tests.workflows.test_spans import attributes, identity, tree

REPORTS = ("A secret tide [1].", "A secret, higher tide [1].")
FOUND = (passage(1, "A secret passage."), passage(2, "Another secret passage."))
RUN = "invoke_workflow MultiPathWorkflow"
CHAT = {"chat scripted/model": 1}


async def research_once(client: Client) -> None:
    model = ObservedModel(
        researching(*REPORTS, reflect_on_report=[reflection("a secret advice"), reflection()]),
        "scripted/model",
    )
    async with served(client, model, None, finding(*FOUND)):
        await ended(await start(client, prompt="A secret prompt", docs="secret-folder"))


async def code_once(client: Client) -> None:
    reports = report(False, True, True), report(True, True, True)
    tester = ScriptedTester(*reports)
    async with served(client, ObservedModel(coding(BAD, GOOD), "scripted/model"), tester):
        await ended(await start(client, prompt=TASK))


async def test_the_whole_tree_of_a_run_of_research(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """One span for each node, named as the source has it, and a decision after each; none twice."""
    await research_once(client)

    finished = spans.get_finished_spans()

    assert tree(finished) == {
        "-": {RUN: 1},
        RUN: {
            "retrieve": 1,
            "route": 1,
            "generate_report": 2,
            "reflect_on_report": 2,
            "mull.decision": 6,
        },
        "route": CHAT,
        "generate_report": {"chat scripted/model": 2},
        "reflect_on_report": {"chat scripted/model": 2},
    }
    assert len({identity(each).span_id for each in finished}) == len(finished)
    assert len({identity(each).trace_id for each in finished}) == 1
    assert "secret" not in "".join(each.to_json() for each in finished)


async def test_the_whole_tree_of_a_run_of_code(client: Client, spans: InMemorySpanExporter) -> None:
    """The tests that the model writes are a span of their own, which no transition leads to."""
    await code_once(client)

    finished = spans.get_finished_spans()

    assert tree(finished) == {
        "-": {RUN: 1},
        RUN: {
            "retrieve": 1,
            "route": 1,
            "write_tests": 1,
            "generate_code": 2,
            "test_code": 2,
            "mull.decision": 6,
        },
        "route": CHAT,
        "write_tests": CHAT,
        "generate_code": {"chat scripted/model": 2},
    }
    assert len({identity(each).span_id for each in finished}) == len(finished)
    assert "another value" not in "".join(each.to_json() for each in finished)


async def test_a_node_s_span_says_what_it_left_behind(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """Kind, round and numbers stand in the spans of both paths."""
    await research_once(client)
    await code_once(client)

    found = {}
    for each in spans.get_finished_spans():
        if each.name in {"mull.decision", RUN} or each.name.startswith("chat"):
            continue
        known = attributes(each)
        found[each.name, known["mull.revision"]] = {
            name: value for name, value in known.items() if name.startswith(("mull.", "openinf"))
        }

    kind = "openinference.span.kind"
    assert found["retrieve", 0] == {kind: "RETRIEVER", "mull.revision": 0, "mull.passages": 0}
    assert found["route", 0] == {
        kind: "CHAIN",
        "mull.revision": 0,
        "mull.mode": "code",
        "mull.chosen_by": "model",
    }
    assert found["write_tests", 0] == {kind: "LLM", "mull.revision": 0, "mull.total": 3}
    assert found["generate_report", 2] == {kind: "LLM", "mull.revision": 2, "mull.draft.index": 1}
    assert found["reflect_on_report", 1] == {
        kind: "EVALUATOR",
        "mull.revision": 1,
        "mull.draft.index": 0,
        "mull.critiques": 1,
        "mull.suggestions": 0,
    }
    assert found["generate_code", 1] == {kind: "LLM", "mull.revision": 1, "mull.draft.index": 0}
    assert found["test_code", 1] == {
        kind: "TOOL",
        "mull.revision": 1,
        "mull.draft.index": 0,
        "mull.passed": 2,
        "mull.total": 3,
        "mull.status": "ok",
        "mull.backend": "scripted",
        "mull.quarantined": 0,
    }


async def test_a_decision_s_span_has_every_number(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """The last decision says after which node the run stopped and why, as the result does."""
    await code_once(client)

    decisions = [each for each in spans.get_finished_spans() if each.name == "mull.decision"]
    last = max(decisions, key=lambda each: each.end_time or 0)

    assert attributes(last) == {
        "openinference.span.kind": "EVALUATOR",
        "mull.after": "test_code",
        "mull.mode": "code",
        "mull.revisions": 2,
        "mull.draft.index": 1,
        "mull.passed": 3,
        "mull.total": 3,
        "mull.needs_review": False,
        "mull.stop": True,
        "mull.stop_reason": "passed",
        "mull.reason": "every test passes",
    }


async def test_what_a_test_said_stands_in_spans_only_when_content_is_on(
    client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard variable puts E's words into the decision that goes on with a repair."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")

    await code_once(client)

    reasons = [attributes(each).get("mull.reason") for each in spans.get_finished_spans()]
    assert "it returned another value" in reasons


@pytest.mark.parametrize("content", ["false", "true"])
async def test_the_router_s_words_stand_in_spans_only_when_content_is_on(
    content: str, client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why a prompt fits neither path is the model's to say, and may quote the prompt."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content)
    model = ScriptedAgent({"route": [routed("neither", "it is a secret poem")]})

    result = await run(client, model)

    said = [str(dict(each.attributes or {})) for each in spans.get_finished_spans()]
    assert "it is a secret poem" in result.stop_explanation
    assert any("it is a secret poem" in each for each in said) is (content == "true")


async def test_what_temporal_shows_of_a_run(client: Client) -> None:
    """Search attributes, memo, activity summaries and event groups carry the outcome."""
    reports = report(False, True, True), report(True, True, True)

    async with served(client, coding(BAD, GOOD), ScriptedTester(*reports)):
        handle = await start(client, prompt=TASK)
        await handle.result()
        description = await handle.describe()
        history = await handle.fetch_history()
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert {name: value for name, value in found.items() if name.startswith("Mull")} == {
        "MullStopReason": "passed",
        "MullRevisions": 2,
        "MullNeedsReview": False,
        "MullModel": "scripted/model",
        "MullCostUsd": pytest.approx(0.007),
        "MullTokens": 350,
    }
    assert await description.memo_value("output") == GOOD + "\n"
    assert (await description.memo_value("mode"), await description.memo_value("open")) == (
        "code",
        False,
    )
    scheduled = [
        (event.user_metadata.summary.data.decode(), [m.label.id for m in event.event_group_markers])
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == [
        ('"research or code"', []),
        ('"tests"', []),
        ('"draft 1"', ["draft 1"]),
        ('"draft 1: 3 tests"', ["draft 1"]),
        ('"draft 2: a repair"', ["draft 2"]),
        ('"draft 2: 3 tests"', ["draft 2"]),
    ]
    assert "Stopped (`passed`)" in metadata.current_details


async def test_the_summaries_of_a_run_of_research(client: Client) -> None:
    """Each row of the history says what it is for; a second try says that it is one."""
    model = researching(*REPORTS, reflect_on_report=[["no", reflection("mend")], reflection()])

    async with served(client, model, None, finding(*FOUND)):
        handle = await start(client, docs="tides", judge="x/judge")
        await handle.result()
        history = await handle.fetch_history()

    assert [
        event.user_metadata.summary.data.decode()
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ] == [
        '"up to 8 passages"',
        '"research or code"',
        '"draft 1"',
        '"draft 1: ask x/judge"',
        '"draft 1: ask x/judge again: the reply could not be read"',
        '"draft 2: draft 1 refined"',
        '"draft 2: ask x/judge"',
    ]


async def test_queries_tell_where_a_run_stands(client: Client) -> None:
    """`progress` and `decisions` answer while the run goes on and after it."""
    model = ScriptedAgent(researching(*REPORTS)._script, delays={("generate_report", 1): 2})

    async with served(client, model, None, finding(*FOUND)):
        handle = await start(client, docs="tides")
        await until_asked(model, 4)
        during = await handle.query("progress", result_type=Progress)
        await handle.result()
        after = await handle.query("progress", result_type=Progress)
        decisions = await handle.query("decisions", result_type=list[Decision])

    assert (during.step, during.in_flight, during.revisions) == ("generate_report", 1, 1)
    assert (during.mode, during.max_revisions, len(during.sources)) == ("research", 3, 2)
    assert (after.step, after.stop_reason, after.revisions) == ("finished", "consistent", 2)
    assert [each.stop for each in decisions] == [False] * 5 + [True]
