"""Histories of earlier code, replayed by today's: a change that breaks one breaks running runs."""

import asyncio
import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
)

import worker
from connection import DATA_CONVERTER
from reflection.critique.criteria import PRESETS, Criterion
from reflection.multipath.cases import entry_of, parse_tests
from reflection.multipath.extraction import examples, extract_code
from reflection.multipath.reflections import parse_reflection
from reflection.multipath.report import with_checks
from reflection.multipath.request import MultiPathRequest
from reflection.multipath.routing import parse_route
from tests.conftest import SANDBOX

HISTORIES = sorted(Path(__file__).parent.glob("*.json"))
AGENTS = [path for path in HISTORIES if path.stem.startswith("agent-")]
STARTED = "workflowExecutionStartedEventAttributes"
REFLECTED = [path for path in HISTORIES if path.stem.startswith("reflect-")]
READINGS = (
    examples,
    entry_of,
    extract_code,
    parse_tests,
    parse_route,
    parse_reflection,
    with_checks,
)


async def replay(path: Path, history: str | None = None) -> None:
    """Replay a history in Temporal's sandbox. Raises where today's code takes another step."""
    await Replayer(
        workflows=worker.WORKFLOWS,
        data_converter=DATA_CONVERTER,
        workflow_runner=SANDBOX,
        plugins=[OpenTelemetryPlugin()],
    ).replay_workflow(WorkflowHistory.from_json(path.stem, history or path.read_text()))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path, spans: InMemorySpanExporter) -> None:
    """The code takes the same steps as when the history was recorded, and emits no span again."""
    spans.clear()

    await replay(path)

    assert spans.get_finished_spans() == ()


class Outcome(WorkflowInboundInterceptor):
    """What a replayed run leaves behind: its result or failure, its details, its attributes."""

    found: dict[str, Any]

    async def execute_workflow(self, given: ExecuteWorkflowInput) -> Any:
        """Run the workflow, and keep what it left."""
        known: dict[str, Any] = {}
        try:
            result = await super().execute_workflow(given)
            known["result"] = result.model_dump(mode="json")
        except (ApplicationError, asyncio.CancelledError) as error:
            known["failure"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            attributes = workflow.info().typed_search_attributes
            known["attributes"] = {pair.key.name: pair.value for pair in attributes}
            known["memo"] = workflow.memo()
            known["details"] = workflow.instance().written_details()
            Outcome.found = known
        return result


class Outcomes(Interceptor):
    """Hand each replayed run to Outcome."""

    def workflow_interceptor_class(self, _: object) -> type[WorkflowInboundInterceptor]:
        """Return the class."""
        return Outcome


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_has_the_same_outcome(
    path: Path, spans: InMemorySpanExporter
) -> None:
    """Result, details, memo and search attributes are those of `outcomes/`, to the letter.

    `MULL_GOLDEN=write` writes them anew, where a change is meant.
    """
    del spans
    await Replayer(
        workflows=worker.WORKFLOWS,
        data_converter=DATA_CONVERTER,
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[Outcomes()],
        plugins=[OpenTelemetryPlugin()],
    ).replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))
    found = json.dumps(Outcome.found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"

    golden = path.parent / "outcomes" / path.name
    if os.environ.get("MULL_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text()


@pytest.mark.parametrize("path", REFLECTED, ids=lambda path: path.stem)
async def test_changed_rules_change_no_run_under_way(
    path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another preset, another estimate and other guardrails leave a run that is held to the old."""
    del spans
    depth = Criterion(name="depth", meaning="It goes deep.")
    monkeypatch.setitem(PRESETS, "general", (*PRESETS["general"], depth))
    monkeypatch.setattr("activities.checks.complexity", lambda _: 0.0)
    monkeypatch.setattr("reflection.critique.guardrails._GUARDRAILS", {})

    await replay(path)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
async def test_other_readings_change_no_run_of_the_agent(
    path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What activities read from a prompt, a report or a reply stays as it was read then."""
    del spans
    for reading in READINGS:
        # By whatever name a module knows the function.
        monkeypatch.setattr(reading, "__code__", refuse.__code__)

    await replay(path)


async def test_a_field_that_is_gone_is_read_where_it_is_null(
    spans: InMemorySpanExporter,
) -> None:
    """A starter sends every field: a run begun when there was `embedding_model` goes on."""
    del spans
    path = Path(__file__).parent / "agent-researched.json"
    history = json.loads(path.read_text())
    [payload] = history["events"][0][STARTED]["input"]["payloads"]
    request = {**json.loads(b64decode(payload["data"])), "embedding_model": None}
    payload["data"] = b64encode(json.dumps(request).encode()).decode()

    await replay(path, json.dumps(history))

    assert "embedding_model" not in MultiPathRequest(**request).model_dump()


def test_every_outcome_has_its_history() -> None:
    """Each way a run goes and ends is recorded."""
    outcomes = sorted((Path(__file__).parent / "outcomes").glob("*.json"))

    assert len(HISTORIES) == 55
    assert [path.name for path in HISTORIES] == [path.name for path in outcomes]
