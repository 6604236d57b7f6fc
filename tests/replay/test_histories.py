"""Histories of earlier code, replayed by today's: a change that breaks one breaks running runs."""

from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import WorkflowHistory
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.worker import Replayer

from connection import DATA_CONVERTER
from tests.conftest import SANDBOX
from workflows.self_consistency import SelfConsistencyWorkflow

HISTORIES = sorted(Path(__file__).parent.glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path, spans: InMemorySpanExporter) -> None:
    """The code takes the same steps as when the history was recorded, and emits no span again."""
    spans.clear()
    history = WorkflowHistory.from_json(path.stem, path.read_text())

    await Replayer(
        workflows=[SelfConsistencyWorkflow],
        data_converter=DATA_CONVERTER,
        workflow_runner=SANDBOX,
        plugins=[OpenTelemetryPlugin()],
    ).replay_workflow(history)

    assert spans.get_finished_spans() == ()


def test_there_are_histories() -> None:
    """Each way a run goes and ends is recorded."""
    assert [path.stem for path in HISTORIES] == [
        "budget",
        "cancelled",
        "comparisons",
        "deadline",
        "failed-samples",
        "failed",
        "finished-by-a-person",
        "no-consensus",
        "waves",
    ]
