"""A server that knows none of Mull's search attributes: the time-skipping test server."""

import shutil
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.testing import WorkflowEnvironment

from activities.language_model.port import TransientModelError
from mull import telemetry
from mull.connection import DATA_CONVERTER
from mull.sampling.result import SelfConsistencyResult
from tests.conftest import ask, begin, served
from tests.scripted import Said, ScriptedModel


async def plain_server() -> WorkflowEnvironment:
    found = shutil.which("temporal-test-server", path=str(Path(sys.executable).parent))
    assert found is not None
    return await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=found,
        data_converter=DATA_CONVERTER,
        plugins=[OpenTelemetryPlugin()],
    )


async def test_a_run_works_without_search_attributes(spans: InMemorySpanExporter) -> None:
    del spans
    async with (
        await plain_server() as environment,
        served(environment.client, ScriptedModel(sample=["129"] * 5)),
    ):
        handle = await begin(environment.client, {"question": "Which number?"})
        result = SelfConsistencyResult.model_validate(await handle.result())

    assert (result.final_answer, result.stop_reason) == ("129", "rule")
    assert len(result.warnings) == 1
    assert "search attributes are not registered" in result.warnings[0]


async def test_long_waits_for_a_provider_are_sat_out(spans: InMemorySpanExporter) -> None:
    """A provider that asks for a minute, three times over, is asked again each time."""
    del spans
    busy = TransientModelError("busy", "RateLimitError", 429, retry_after=60)
    waited: list[Said] = [busy, busy, busy, "129"]
    async with (
        await plain_server() as environment,
        served(environment.client, ScriptedModel(sample=[waited])),
    ):
        started = await environment.get_current_time()
        handle = await begin(environment.client, {"question": "Which number?", "max_responses": 1})
        result = SelfConsistencyResult.model_validate(await handle.result())
        passed = await environment.get_current_time() - started

    assert (result.final_answer, result.responses[0].attempts) == ("129", 4)
    assert passed.total_seconds() >= 180


async def test_a_server_that_can_t_say_holds_up_no_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong with the question about search attributes, the run goes on without."""

    class Broken:
        def items(self) -> None:
            raise ValueError("a type that nobody knows")

    monkeypatch.setattr(telemetry, "SEARCH_ATTRIBUTES", Broken())

    result = await ask(client, ScriptedModel(sample=["129"] * 5))

    assert result.final_answer == "129"
    assert "search attributes are not registered" in result.warnings[0]
