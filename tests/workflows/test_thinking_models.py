"""Runs at their defaults with a model that thinks, and with one that does not."""

from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

import worker
from activities.language_model.layers import ObservedModel, PacedModel
from commands.loops import loop_of
from mull.agents.request import ReflexionRequest
from mull.critique.request import ReflectOnResultRequest
from mull.multipath.request import MultiPathRequest
from mull.sampling.request import SelfConsistencyRequest
from mull.turn.request import ToolTurnRequest
from tests.conftest import begin
from tests.scripted_endpoint import Body, Scripted, ScriptedEndpoint
from workflows.times import call_times

FEW: dict[str, Any] = {"max_attempts": 1}
REQUESTS: list[tuple[Any, dict[str, Any], int]] = [
    (
        SelfConsistencyRequest,
        {"question": "How?", "answers": "llm", "max_responses": 2, "rule": "fixed", **FEW},
        1_024,
    ),
    (ReflectOnResultRequest, {"query": "Why?", "min_complexity": 0, **FEW}, 4_096),
    (MultiPathRequest, {"prompt": "Write double(x).", **FEW}, 4_096),
    (ToolTurnRequest, {"message": "Hello", "tools": (), **FEW}, 4_096),
]


@pytest.mark.parametrize(("model", "thinks"), [("gpt-5-mini", True), ("gpt-4o-mini", False)])
async def test_defaults_are_those_of_the_model(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    spans: InMemorySpanExporter,
    model: str,
    thinks: bool,
) -> None:
    """Every call of every loop has room to think, or the number of its kind; and says which."""
    from activities.language_model.litellm_model import LiteLLMModel

    sent: list[Body] = []

    def replied(request: Body) -> Scripted:
        sent.append(request)
        # An answer of its own for each, so that two are compared.
        return Scripted(f'{{"reasoning": "", "answer": "{len(sent)}"}}')

    limits: dict[str, set[int]] = {}
    with ScriptedEndpoint([replied] * 50) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "opensesame-1234567890")
        made = LiteLLMModel(f"openai/{model}")
        served = worker.build(
            client,
            ["mull", "llm"],
            PacedModel(ObservedModel(made, None), f"openai/{model}"),
            abilities=made.abilities,
        )
        async with worker.running(served):
            for kind, fields, _ in REQUESTS:
                sent.clear()
                request = kind(**fields)
                loop = loop_of(request)
                handle = await begin(client, request, loop.workflow)
                typed = client.get_workflow_handle(handle.id, result_type=loop.result)
                result: Any = await typed.result()
                limits[kind.__name__] = {
                    each.get("max_completion_tokens") or each["max_tokens"] for each in sent
                }
                kept = getattr(result, "responses", ()) or getattr(result, "drafts", ())
                assert {each.max_output_tokens for each in kept} <= limits[kind.__name__]

    usual = {kind.__name__: {limit} for kind, _, limit in REQUESTS}
    usual["SelfConsistencyRequest"] |= {512}
    calls = [each for each in spans.get_finished_spans() if each.name.startswith("chat ")]
    told = {(each.attributes or {}).get("gen_ai.request.max_tokens") for each in calls}
    assert told == set().union(*limits.values())
    assert limits == ({name: {16_384} for name in usual} if thinks else usual)


def test_an_attempt_outlasts_the_longest_call() -> None:
    """The workflow does not know whether its model thinks, and has time for one that does."""
    given: list[tuple[float | None, list[int | None]]] = [
        (None, []), (None, [1_024]), (None, [32_768]), (None, [1, None]), (30, []),
    ]  # fmt: skip
    seconds = [
        call_times(client, 5, *limits)["start_to_close_timeout"].total_seconds()
        for client, limits in given
    ]

    assert seconds == [495, 135, 975, 495, 45]
    assert ReflexionRequest(environment="code", task="x").call_timeout_seconds is None
