"""Histories of earlier code, replayed by today's: a change that breaks one breaks running runs."""

import asyncio
import inspect
import json
import os
import re
from base64 import b64decode, b64encode
from collections import defaultdict
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio import workflow
from temporalio.activity import _Definition
from temporalio.client import WorkflowHistory
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
    WorkflowRunner,
)

from activities.agents import AgentActivities
from activities.code_tests.activity import TestingActivities
from activities.critique import CritiqueActivities
from activities.documents.retrieval import DocumentActivities
from activities.environments.activity import Evaluator, Executor
from activities.memory import MemoryActivities
from activities.multipath import MultiPathActivities
from activities.sampling import SamplingActivities
from activities.tools.activity import ToolActivities
from activities.turn import TurnActivities
from mull.connection import DATA_CONVERTER
from mull.critique.criteria import PRESETS, Criterion
from mull.multipath.cases import entry_of, parse_tests
from mull.multipath.extraction import examples, extract_code
from mull.multipath.reflections import parse_reflection
from mull.multipath.report import with_checks
from mull.multipath.request import MultiPathRequest
from mull.multipath.routing import parse_route
from tests.conftest import SANDBOX
from tests.replay.record import digest
from worker import HELPERS, WORKFLOWS
from workflows.base import Inbound, Workflow

HERE = Path(__file__).parent
KINDS = (*WORKFLOWS, *HELPERS)
# One folder for each released version, to which nothing is added and in which nothing changes. What
# is new since then is in `unreleased`.
VERSIONS = sorted(sums.parent for sums in HERE.glob("*/SHA256SUMS"))
HISTORIES = sorted(HERE.glob("*/*.json"))
AGENTS = [path for path in HISTORIES if path.stem.startswith("agent-")]
LEARNERS = [
    path for path in HISTORIES if path.stem.startswith(("reflexion-", "retroformer-", "training-"))
]
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


def id_of(path: Path) -> str:
    """Return the id of the recorded run, from which those of its children are made."""
    return path.stem.replace("_", "/")


async def replay(
    path: Path,
    history: str | None = None,
    runner: WorkflowRunner = SANDBOX,
    *more: Interceptor,
) -> None:
    """Replay a history. Raises where today's code takes another step.

    Temporal's sandbox loads each workflow that it is given, so it has the history's own alone.
    """
    recorded = WorkflowHistory.from_json(id_of(path), history or path.read_text())
    begun = recorded.events[0].workflow_execution_started_event_attributes
    await Replayer(
        workflows=[kind for kind in KINDS if kind.__name__ == begun.workflow_type.name],
        data_converter=DATA_CONVERTER,
        workflow_runner=runner,
        interceptors=[*more, Inbound()],
        plugins=[OpenTelemetryPlugin()],
    ).replay_workflow(recorded)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path, spans: InMemorySpanExporter) -> None:
    """The code takes the same steps as when the history was recorded, and emits no span again."""
    spans.clear()

    await replay(path)

    assert spans.get_finished_spans() == ()


ACTIVITIES = {
    known.name: known
    for kind in (
        AgentActivities, CritiqueActivities, DocumentActivities, Evaluator, Executor,
        MemoryActivities, MultiPathActivities, SamplingActivities, TestingActivities,
        ToolActivities, TurnActivities,
    )
    for _, made in inspect.getmembers(kind, inspect.isfunction)
    if (known := _Definition.from_callable(made))
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
async def test_calls_that_an_earlier_version_scheduled_can_be_made(version: Path) -> None:
    """A replay does not read the inputs of calls: a worker of today has to, for those in flight."""
    read = 0
    for path in version.glob("*.json"):
        for event in WorkflowHistory.from_json(id_of(path), path.read_text()).events:
            scheduled = event.activity_task_scheduled_event_attributes
            if known := ACTIVITIES.get(scheduled.activity_type.name):
                inputs = scheduled.input.payloads
                read += len(await DATA_CONVERTER.decode(inputs, known.arg_types))

    assert read > 100


class Outcome(WorkflowInboundInterceptor):
    """What a replayed run leaves behind: its result or failure, its details, its attributes."""

    found: dict[str, Any]
    defaults: dict[str, Any]

    async def execute_workflow(self, given: ExecuteWorkflowInput) -> Any:
        """Run the workflow, and keep what it left."""
        known: dict[str, Any] = {}
        try:
            result = await super().execute_workflow(given)
            known["result"] = result and result.model_dump(mode="json")
            # A required field has no default, so that a new one is not taken for empty.
            Outcome.defaults = result and type(result).model_construct().model_dump(mode="json")
        except (ApplicationError, asyncio.CancelledError) as error:
            known["failure"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            attributes = workflow.info().typed_search_attributes
            known["attributes"] = {pair.key.name: pair.value for pair in attributes}
            known["memo"] = workflow.memo()
            run = workflow.instance()
            known["details"] = run.written_details() if isinstance(run, Workflow) else None
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

    A result may have new fields, as long as they hold their default: a loop gets fields without a
    change to the outcomes of released versions, and a default says nothing of the run.
    `MULL_GOLDEN=write` writes the outcomes anew, where a change is meant.
    """
    del spans
    await replay(path, None, UnsandboxedWorkflowRunner(), Outcomes())
    golden = path.parent / "outcomes" / path.name
    if os.environ.get("MULL_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(written(Outcome.found))
    known = json.loads(golden.read_text())
    if Outcome.found.get("result"):
        result, defaults = Outcome.found["result"], Outcome.defaults
        new = result.keys() - known["result"].keys()
        assert {name: result.pop(name) for name in new} == {name: defaults[name] for name in new}
    assert written(Outcome.found) == golden.read_text()


def written(outcome: dict[str, Any]) -> str:
    """Write an outcome as it stands in its file."""
    return json.dumps(outcome, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@pytest.mark.parametrize("path", REFLECTED, ids=lambda path: path.stem)
async def test_changed_rules_change_no_run_under_way(
    path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another preset, another estimate and other guardrails leave a run that is held to the old."""
    del spans
    depth = Criterion(name="depth", meaning="It goes deep.")
    monkeypatch.setitem(PRESETS, "general", (*PRESETS["general"], depth))
    monkeypatch.setattr("activities.checks.complexity", lambda _: 0.0)
    monkeypatch.setattr("mull.critique.guardrails._GUARDRAILS", {})

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
    path = HERE / "0.1.0" / "agent-researched.json"
    history = json.loads(path.read_text())
    [payload] = history["events"][0][STARTED]["input"]["payloads"]
    request = {**json.loads(b64decode(payload["data"])), "embedding_model": None}
    payload["data"] = b64encode(json.dumps(request).encode()).decode()

    await replay(path, json.dumps(history))

    assert "embedding_model" not in MultiPathRequest(**request).model_dump()


# Its child workflows, and the activities of its own.
CALLED = {
    "activityTaskScheduledEventAttributes": "activityType",
    "startChildWorkflowExecutionInitiatedEventAttributes": "workflowType",
}
# Initialise; then up to the limit solve (plan and execute, in turn), evaluate, reflect, remember.
# Retroformer samples reflections, and scores them. A rollout tries each of two, and keeps the pair.
# A training finds its models, collects rollouts, puts their pairs together, trains two models, and
# measures; with a control it is made once more, on shuffled labels.
ORDERS = {
    "reflexion": "bl?((px)*p?(E|jj?)(fw?)?)*(px)*p?v?",
    "retroformer": "bl?((px)*p?(E|jj?)(f+sw?)?)*(px)*p?v?",
    "training": "d?mr+(B(TT?r*)?)?(ht)?K?",
    "rollout": "b((px)*pE)(ff(px)*pE(px)*pEk?)?",
}
LETTERS = {
    "begin_task": "b",
    "recall_reflections": "l",
    "plan_action": "p",
    "execute_action": "x",
    "evaluate_episode": "E",
    "judge_episode": "j",
    "reflect_on_episode": "f",
    "remember_reflection": "w",
    "verify_answer": "v",
    "score_reflections": "s",
    "keep_pair": "k",
    "RetroformerRolloutWorkflow": "r",
    "describe_model": "d",
    "find_base_model": "m",
    "assemble_buffer": "B",
    "train_stage": "T",
    "shuffle_labels": "h",
    "RetroformerTrainingWorkflow": "t",
    "keep_result": "K",
}


@pytest.mark.parametrize("path", LEARNERS, ids=lambda path: path.stem)
def test_a_recorded_agent_s_calls_are_in_the_source_s_order(path: Path) -> None:
    """As the figures show it: what was cut short ends anywhere in it."""
    events = json.loads(path.read_text())["events"]
    found = ((event.get(part), kind) for event in events for part, kind in CALLED.items())
    names = [called[kind]["name"] for called, kind in found if called]
    order = ORDERS["rollout" if "_" in path.stem else path.stem.partition("-")[0]]

    assert re.fullmatch(order, "".join(LETTERS[name] for name in names)), names


def stop_reasons(kind: Any) -> set[str]:
    """List the stop reasons that results of this workflow may have."""
    result = get_type_hints(kind.run)["return"]
    reason = result.model_fields["stop_reason"].annotation
    # Of a session that goes on it is None.
    kinds = get_args(reason) if NoneType in get_args(reason) else [reason]
    return {name for each in kinds for name in get_args(each)}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_a_released_history_stays_as_it_is(version: Path) -> None:
    """A history that was changed or taken away would hide what runs under way can't survive."""
    lines = (version / "SHA256SUMS").read_text().splitlines()
    pinned = {name: hashed for hashed, name in map(str.split, lines)}

    assert pinned == {path.name: digest(path) for path in version.glob("*.json")}
    assert sorted(pinned) == [path.name for path in sorted((version / "outcomes").glob("*.json"))]


def test_every_way_to_stop_is_recorded() -> None:
    """Each workflow that a user starts has a history with each of its stop reasons."""
    recorded = defaultdict[str, set[str]](set)
    for path in HISTORIES:
        started = json.loads(path.read_text())["events"][0][STARTED]
        outcome = json.loads((path.parent / "outcomes" / path.name).read_text())
        ended = outcome.get("result") or {}
        recorded[started["workflowType"]["name"]].add(str(ended.get("stop_reason")))

    missing = {kind.__name__: stop_reasons(kind) - recorded[kind.__name__] for kind in WORKFLOWS}

    assert not any(missing.values()), missing
