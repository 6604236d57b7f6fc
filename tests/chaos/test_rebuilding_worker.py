"""A worker that sends the spans of ended runs again."""

import asyncio
import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from spans import SETTLED
from tests.chaos.rebuilt import told
from tests.chaos.working import working
from tests.patience import PATIENCE
from tests.sandbox.canaries import descendants
from tests.workflows.test_spans import ask_once


async def test_a_worker_writes_the_spans_of_runs_that_ended_before_it_started(
    client: Client, spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those that were made, each once; the process that does it dies with the worker."""
    await ask_once(client)
    made = [json.loads(span.to_json()) for span in spans.get_finished_spans()]
    expected = {span["context"]["span_id"]: told(span) for span in made}
    monkeypatch.setenv("MULL_REBUILD_TRACES", "1")
    written: dict[str, object] = {}
    file = tmp_path / "spans"
    async with working(lambda _: "", file, "--queues", "mull") as place:
        # A run is looked at so long after its end, when a live worker has polled again.
        async with asyncio.timeout(PATIENCE + SETTLED.total_seconds()):
            while not written.keys() >= expected.keys():
                await asyncio.sleep(1)
                # The file may not exist yet, and its last line may be cut off.
                lines = file.read_text().split("\n")[:-1] if file.exists() else []
                found = [json.loads(line) for line in lines]
                written = {span["context"]["span_id"]: told(span) for span in found}
        helpers = descendants(place.worker.pid or 0)
        place.kill()
        async with asyncio.timeout(2 * PATIENCE):
            while any(Path(f"/proc/{helper}").exists() for helper in helpers):
                await asyncio.sleep(0.1)

    assert helpers
    assert {span: written[span] for span in expected} == expected
