"""What tracing records of a run, with the workflow cache off, so that every task is a replay."""

from collections import Counter
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext
from temporalio.client import Client

from activities.language_model.layers import ObservedModel
from tests.conftest import begin, served
from tests.scripted import ScriptedModel


def test_a_tracer_is_made_once(spans: InMemorySpanExporter) -> None:
    """The plugin asks for one at every call, and making it takes as long as a span."""
    del spans

    assert trace.get_tracer("mull") is trace.get_tracer("mull")


async def run_once(client: Client, **fields: Any) -> None:
    model = ObservedModel(ScriptedModel(["1", "2", "1", "1", "1", "1"]), "scripted/model")
    async with served(client, model):
        handle = await begin(client, {"question": "secret?", **fields})
        await handle.result()


def identity(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def tree(spans: tuple[ReadableSpan, ...]) -> dict[str, Counter[str]]:
    names = {identity(each).span_id: each.name for each in spans}
    found: dict[str, Counter[str]] = {}
    for each in spans:
        parent = names[each.parent.span_id] if each.parent else "-"
        found.setdefault(parent, Counter())[each.name] += 1
    return found


async def test_the_whole_tree_of_spans(client: Client, spans: InMemorySpanExporter) -> None:
    """One run, its waves, a call for each sample and a decision for each answer; none twice."""
    await run_once(client, confidence_threshold=0.9, max_responses=6)

    finished = spans.get_finished_spans()

    assert tree(finished) == {
        "-": {"invoke_workflow SelfConsistencyWorkflow": 1},
        "invoke_workflow SelfConsistencyWorkflow": {"mull.wave": 2},
        "mull.wave": {"chat scripted/model": 6, "mull.decision": 6},
    }
    assert len({identity(each).span_id for each in finished}) == len(finished)
    assert len({identity(each).trace_id for each in finished}) == 1


async def test_a_decision_s_span_has_every_number(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """The last decision says why it stopped, with the numbers of the result."""
    await run_once(client)

    decisions = [each for each in spans.get_finished_spans() if each.name == "mull.decision"]
    last = max(map(attributes, decisions), key=lambda each: int(each["mull.sample.index"]))

    assert last == {
        "openinference.span.kind": "EVALUATOR",
        "mull.sample.index": 4,
        "mull.wave": 1,
        "mull.rule": "combined",
        "mull.total_responses": 5,
        "mull.valid_responses": 5,
        "mull.leader_votes": 4,
        "mull.runner_up_votes": 1,
        "mull.confidence": 0.8,
        "mull.entropy": last["mull.entropy"],
        "mull.normalized_entropy": last["mull.normalized_entropy"],
        "mull.value": 0.8,
        "mull.bound": 0.8,
        "mull.stop": True,
        "mull.stop_reason": "rule",
        "mull.reason": "confidence 0.8 reaches 0.8",
    }
    assert abs(last["mull.normalized_entropy"] - 0.7219) < 1e-4


async def test_a_call_s_span_follows_the_genai_conventions(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """Model, tokens and cost are there; the prompt and the reply are not."""
    await run_once(client, temperature=0.5, seed=7)

    calls = [each for each in spans.get_finished_spans() if each.name.startswith("chat ")]
    third = next(each for each in map(attributes, calls) if each["mull.sample.index"] == 2)

    assert third == {
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted/model",
        "gen_ai.response.model": "scripted/model",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.request.seed": 9,
        "gen_ai.usage.input_tokens": 80,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.response.finish_reasons": ("stop",),
        "mull.sample.index": 2,
        "mull.attempt": 1,
        "mull.cost.usd": 0.001,
    }
    assert "secret" not in "".join(each.to_json() for each in spans.get_finished_spans())


async def test_content_stands_in_spans_only_when_it_is_switched_on(
    client: Client, spans: InMemorySpanExporter, monkeypatch: Any
) -> None:
    """The standard variable puts the prompt and the reply into the call's span."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")

    await run_once(client)

    calls = [each for each in spans.get_finished_spans() if each.name.startswith("chat ")]
    assert all("secret?" in attributes(each)["gen_ai.input.messages"] for each in calls)
    assert all("because" in attributes(each)["gen_ai.output.messages"] for each in calls)
