"""What tracing records of a run, with the workflow cache off, so that every task is a replay."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext
from temporalio.client import Client

from activities.language_model.layers import ObservedModel
from activities.language_model.port import LanguageModel
from tests.conftest import begin, begin_reflecting, served
from tests.scripted import ADVICE, ScriptedModel, reflection, routed
from tests.workflows.multipath import running as agents

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CHAT = "chat scripted/model"
FOUND = (agents.passage(1, "A secret passage."), agents.passage(2, "Another secret passage."))


def test_a_tracer_is_made_once(spans: InMemorySpanExporter) -> None:
    """The plugin asks for one at every call, and making it takes as long as a span."""
    del spans

    assert trace.get_tracer("mull") is trace.get_tracer("mull")


def observed(model: LanguageModel) -> ObservedModel:
    return ObservedModel(model, "scripted/model")


async def ask_once(client: Client, **fields: Any) -> None:
    async with served(client, observed(ScriptedModel(sample=["1", "2", "1", "1", "1", "1"]))):
        await (await begin(client, {"question": "secret?", **fields})).result()


async def reflect_once(client: Client, **fields: Any) -> None:
    critic = ScriptedModel(write=["secret draft", "secret revision"], judge=[0.4, 0.9])
    async with served(client, observed(critic)):
        await (await begin_reflecting(client, **fields)).result()


async def research_once(client: Client, **fields: Any) -> None:
    model = agents.researching(
        "A secret tide [1].",
        "A secret, higher tide [1].",
        reflect_on_report=[reflection("a secret advice"), reflection()],
    )
    async with agents.served(client, observed(model), None, agents.finding(*FOUND)):
        asked = {"prompt": "A secret prompt", "docs": "secret-folder", **fields}
        await agents.ended(await agents.start(client, **asked))


async def code_once(client: Client, **fields: Any) -> None:
    reports = agents.report(False, True, True), agents.report(True, True, True)
    model = observed(agents.coding(agents.BAD, agents.GOOD))
    async with agents.served(client, model, agents.ScriptedTester(*reports)):
        await agents.ended(await agents.start(client, prompt=agents.TASK, **fields))


async def refuse_once(client: Client) -> None:
    model = observed(ScriptedModel(route=[routed("neither", "it is a secret poem")]))
    async with agents.served(client, model):
        await agents.ended(await agents.start(client))


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


Run = Callable[..., Awaitable[None]]
ASK_RUN = "invoke_workflow SelfConsistencyWorkflow"
REFLECT_RUN = "invoke_workflow ReflectOnResultWorkflow"
AGENT_RUN = "invoke_workflow MultiPathWorkflow"
# The whole tree of a run's spans, and what its last decision is based on.
TREES: list[tuple[Run, dict[str, dict[str, int]], dict[str, object]]] = [
    (
        ask_once,
        {"-": {ASK_RUN: 1}, ASK_RUN: {"mull.wave": 1}, "mull.wave": {CHAT: 5, "mull.decision": 5}},
        {
            "mull.sample.index": 4,
            "mull.wave": 1,
            "mull.rule": "combined",
            "mull.total_responses": 5,
            "mull.valid_responses": 5,
            "mull.leader_votes": 4,
            "mull.runner_up_votes": 1,
            "mull.confidence": 0.8,
            "mull.entropy": pytest.approx(0.7219, abs=1e-4),
            "mull.normalized_entropy": pytest.approx(0.7219, abs=1e-4),
            "mull.value": 0.8,
            "mull.bound": 0.8,
            "mull.stop": True,
            "mull.stop_reason": "rule",
            "mull.reason": "agreement 0.8 reaches 0.8",
        },
    ),
    (
        reflect_once,
        {
            "-": {REFLECT_RUN: 1},
            REFLECT_RUN: {CHAT: 1, "evaluate general": 1, "mull.decision": 1, "mull.reflect": 1},
            "mull.reflect": {CHAT: 1, "evaluate general": 1, "mull.decision": 1},
            "evaluate general": {CHAT: 2},
        },
        {
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
        },
    ),
    (
        research_once,
        {
            "-": {AGENT_RUN: 1},
            AGENT_RUN: {
                "retrieve": 1,
                "route": 1,
                "generate_report": 2,
                "reflect_on_report": 2,
                "mull.decision": 6,
            },
            "route": {CHAT: 1},
            "generate_report": {CHAT: 2},
            "reflect_on_report": {CHAT: 2},
        },
        {
            "mull.after": "reflect_on_report",
            "mull.mode": "research",
            "mull.revisions": 2,
            "mull.draft.index": 1,
            "mull.critiques": 0,
            "mull.needs_review": False,
            "mull.stop": True,
            "mull.stop_reason": "consistent",
            "mull.reason": "the reflection found nothing to fix",
        },
    ),
    (
        code_once,
        {
            "-": {AGENT_RUN: 1},
            AGENT_RUN: {
                "retrieve": 1,
                "route": 1,
                "write_tests": 1,
                "generate_code": 2,
                "test_code": 2,
                "mull.decision": 6,
            },
            "route": {CHAT: 1},
            "write_tests": {CHAT: 1},
            "generate_code": {CHAT: 2},
        },
        {
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
        },
    ),
]


@pytest.mark.parametrize(("run", "expected", "decided"), TREES)
async def test_the_whole_tree_of_spans(
    client: Client,
    spans: InMemorySpanExporter,
    run: Run,
    expected: dict[str, dict[str, int]],
    decided: dict[str, object],
) -> None:
    """Each part of a run is one span, none twice, in one trace, and no text is in any.

    The span of the last decision has every number that it is based on.
    """
    await run(client)

    finished = spans.get_finished_spans()
    decisions = [each for each in finished if each.name == "mull.decision"]
    assert tree(finished) == expected
    assert len({identity(each).span_id for each in finished}) == len(finished)
    assert len({identity(each).trace_id for each in finished}) == 1
    last = attributes(max(decisions, key=lambda each: each.end_time or 0))
    assert last == {"openinference.span.kind": "EVALUATOR", **decided}
    texts = "".join(each.to_json() for each in finished)
    assert all(text not in texts for text in ("secret", ADVICE, "another value"))


# What stands in a run's spans where content is switched on.
CONTENTS: list[tuple[Run, str]] = [
    (ask_once, "secret?"),
    (ask_once, "because 1"),
    (reflect_once, ADVICE),
    (code_once, "it returned another value"),
    (refuse_once, "it is a secret poem"),
]


@pytest.mark.parametrize(("run", "text"), CONTENTS)
@pytest.mark.parametrize("content", ["false", "true"])
async def test_content_stands_in_spans_only_when_it_is_switched_on(
    client: Client,
    spans: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    text: str,
    content: str,
) -> None:
    monkeypatch.setenv(CONTENT, content)

    await run(client)

    said = [str([attributes(each), each.events]) for each in spans.get_finished_spans()]
    explained = [event for each in spans.get_finished_spans() for event in each.events]
    said += [str(dict(event.attributes or {})) for event in explained]
    assert any(text in each for each in said) is (content == "true")


async def test_a_call_s_span_follows_the_genai_conventions(
    client: Client, spans: InMemorySpanExporter
) -> None:
    """Model, tokens and cost are there, and a seed that is another one for each sample."""
    bounds = {"confidence_threshold": 0.9, "max_responses": 6, "max_output_tokens": 1_024}
    await ask_once(client, temperature=0.5, seed=7, **bounds)

    calls = [each for each in spans.get_finished_spans() if each.name.startswith("chat ")]
    third = next(each for each in map(attributes, calls) if each["mull.sample.index"] == 2)
    assert tree(spans.get_finished_spans())["mull.wave"] == {CHAT: 6, "mull.decision": 6}
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


async def test_an_evaluation_s_events_have_score_and_label(
    client: Client, spans: InMemorySpanExporter
) -> None:
    await reflect_once(client)

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


async def test_a_node_s_span_says_what_it_left_behind(
    client: Client, spans: InMemorySpanExporter
) -> None:
    await research_once(client)
    await code_once(client)

    found = {}
    for each in spans.get_finished_spans():
        known = attributes(each)
        if "mull.revision" in known:
            kind = known.pop("openinference.span.kind")
            found[each.name, known.pop("mull.revision")] = (kind, known)

    assert found["retrieve", 0] == ("RETRIEVER", {"mull.passages": 0})
    assert found["route", 0] == ("CHAIN", {"mull.mode": "code", "mull.chosen_by": "model"})
    assert found["write_tests", 0] == ("LLM", {"mull.total": 3})
    assert found["generate_report", 2] == ("LLM", {"mull.draft.index": 1})
    assert found["reflect_on_report", 1] == (
        "EVALUATOR",
        {"mull.draft.index": 0, "mull.critiques": 1, "mull.suggestions": 0},
    )
    assert found["generate_code", 1] == ("LLM", {"mull.draft.index": 0})
    assert found["test_code", 1] == (
        "TOOL",
        {
            "mull.draft.index": 0,
            "mull.passed": 2,
            "mull.total": 3,
            "mull.status": "ok",
            "mull.backend": "scripted",
            "mull.quarantined": 0,
        },
    )
