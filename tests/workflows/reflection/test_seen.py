"""What tracing and Temporal record of a run of reflection, with every task replayed."""

from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from activities.language_model.layers import ObservedModel
from reflection.critique.result import Decision, Progress
from tests.conftest import begin_reflecting, served, until_asked
from tests.scripted import ADVICE, ScriptedCritic
from tests.workflows.test_spans import attributes, identity, tree


async def run_once(client: Client, **fields: Any) -> None:
    critic = ScriptedCritic(["secret draft", "secret revision"], [0.4, 0.9])
    async with served(client, ObservedModel(critic, "scripted/model")):
        await (await begin_reflecting(client, **fields)).result()


async def test_the_whole_tree_of_spans(client: Client, spans: InMemorySpanExporter) -> None:
    """One run, an evaluation of each draft, a reflection for each revision; none twice."""
    await run_once(client)

    finished = spans.get_finished_spans()

    assert tree(finished) == {
        "-": {"invoke_workflow ReflectOnResultWorkflow": 1},
        "invoke_workflow ReflectOnResultWorkflow": {
            "chat scripted/model": 1,
            "evaluate general": 1,
            "mull.decision": 1,
            "mull.reflect": 1,
        },
        "mull.reflect": {"chat scripted/model": 1, "evaluate general": 1, "mull.decision": 1},
        "evaluate general": {"chat scripted/model": 2},
    }
    assert len({identity(each).span_id for each in finished}) == len(finished)
    assert len({identity(each).trace_id for each in finished}) == 1
    assert "secret" not in "".join(each.to_json() for each in finished)
    assert ADVICE not in "".join(each.to_json() for each in finished)


async def test_an_evaluation_s_events_have_score_and_label(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """The whole and each criterion are `gen_ai.evaluation.result` events, without their words."""
    await run_once(client)

    found = [each for each in spans.get_finished_spans() if each.name == "evaluate general"]
    first = min(found, key=lambda each: attributes(each)["mull.draft.index"])
    events = [(each.name, dict(each.attributes or {})) for each in first.events]

    assert attributes(first)["mull.score"] == 0.4
    assert events[0] == (
        "gen_ai.evaluation.result",
        {
            "gen_ai.evaluation.name": "overall",
            "gen_ai.evaluation.score.value": 0.4,
            "gen_ai.evaluation.score.label": "fail",
        },
    )
    assert [event["gen_ai.evaluation.name"] for _, event in events[1:]] == [
        "completeness",
        "correctness",
        "clarity",
    ]


async def test_explanations_stand_in_events_only_when_content_is_on(
    client: Client, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard variable puts the judge's feedback into the evaluation's events."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")

    await run_once(client)

    evaluations = [each for each in spans.get_finished_spans() if each.name == "evaluate general"]
    said = [dict(event.attributes or {}) for each in evaluations for event in each.events]
    assert any(each.get("gen_ai.evaluation.explanation") == ADVICE for each in said)


async def test_a_decision_s_span_has_every_number(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """The last decision says why it stopped, with the numbers of the result."""
    await run_once(client)

    decisions = [each for each in spans.get_finished_spans() if each.name == "mull.decision"]
    last = max(map(attributes, decisions), key=lambda each: int(each["mull.draft.index"]))

    assert last == {
        "openinference.span.kind": "EVALUATOR",
        "mull.draft.index": 1,
        "mull.score": 0.9,
        "mull.judged": 0.9,
        "mull.change": 0.5,
        "mull.threshold": 0.7,
        "mull.best": 1,
        "mull.best_score": 0.9,
        "mull.revisions": 1,
        "mull.needs_review": False,
        "mull.stop": True,
        "mull.stop_reason": "passed",
        "mull.reason": "score 0.9 reaches 0.7",
    }


async def test_what_temporal_shows_of_a_run(client: Client) -> None:
    """Search attributes, memo, activity summaries and event groups carry the outcome."""
    model = ScriptedCritic(["first", "second"], [0.4, 0.9])

    async with served(client, model):
        handle = await begin_reflecting(client)
        await handle.result()
        description = await handle.describe()
        history = await handle.fetch_history()
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert {name: value for name, value in found.items() if name.startswith("Mull")} == {
        "MullStopReason": "passed",
        "MullScore": 0.9,
        "MullRevisions": 1,
        "MullNeedsReview": False,
        "MullModel": "scripted/model",
        "MullCostUsd": pytest.approx(0.006),
        "MullTokens": 300,
    }
    assert await description.memo_value("draft") == "second"
    scheduled = [
        (event.user_metadata.summary.data.decode(), [m.label.id for m in event.event_group_markers])
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == [
        ('"draft 1"', []),
        ('"draft 1: ask the judge"', []),
        ('"draft 2: a revision of draft 1"', ["revision 1"]),
        ('"draft 2: ask the judge"', ["revision 1"]),
    ]
    assert "Stopped (`passed`)" in metadata.current_details


async def test_queries_tell_where_a_run_stands(client: Client) -> None:
    """`progress` and `decisions` answer while the run goes on and after it."""
    model = ScriptedCritic(["first", "second"], [0.4, 0.9], delays={("write", 1): 2})

    async with served(client, model):
        handle = await begin_reflecting(client)
        await until_asked(model, 3)
        during = await handle.query("progress", result_type=Progress)
        await handle.result()
        after = await handle.query("progress", result_type=Progress)
        decisions = await handle.query("decisions", result_type=list[Decision])

    assert (during.step, during.in_flight, during.score) == ("revising", 1, 0.4)
    assert (after.step, after.stop_reason, after.best) == ("finished", "passed", 1)
    assert [each.stop for each in decisions] == [False, True]
