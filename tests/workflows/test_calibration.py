"""A run that tells how likely its answer is right, by its own map or by its worker's."""

from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.worker import Replayer

import worker
from connection import DATA_CONVERTER
from reflection.sampling.probability import CalibrationMap
from reflection.sampling.result import SelfConsistencyResult
from tests.conftest import SANDBOX, begin, served
from tests.scripted import ScriptedModel
from tests.unit.test_calibrated import made

OF_SCRIPTED = {"model": "scripted/model", "name": "scripted"}


async def asked(client: Client, **fields: object) -> tuple[SelfConsistencyResult, WorkflowHistory]:
    async with served(client, ScriptedModel(["129"] * 3)):
        handle = await begin(client, {"question": "How much?", "preset": "thrifty", **fields})
        result = SelfConsistencyResult.model_validate(await handle.result())
        return result, await handle.fetch_history()


def kinds(history: WorkflowHistory) -> list[str]:
    """List the kinds of a history's events; workflow tasks come as time permits."""
    found = [event.WhichOneof("attributes") or "" for event in history.events]
    return sorted(kind for kind in found if "workflow_task" not in kind)


async def test_a_map_in_the_request(client: Client) -> None:
    """The probability is in the result, for whichever client asks."""
    own: CalibrationMap = made(**OF_SCRIPTED)

    result, _ = await asked(client, calibration=own.model_dump(mode="json"))

    assert result.calibration is not None
    assert (result.calibration.name, result.calibration.reason) == ("scripted", None)
    assert result.probability_right == 0.9


async def test_a_map_of_the_worker_is_in_the_history(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs no event, what is no map is passed over, and a replay needs no folder."""
    bare, without = await asked(client)
    folder = tmp_path / "scripted"
    folder.mkdir()
    (folder / "model.json").write_text(made(**OF_SCRIPTED).model_dump_json(), encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("MULL_CALIBRATION", str(tmp_path))

    result, history = await asked(client)
    monkeypatch.delenv("MULL_CALIBRATION")

    assert (bare.probability_right, bare.calibration) == (None, None)
    assert result.probability_right == 0.9
    assert kinds(history) == kinds(without)
    await Replayer(
        workflows=worker.WORKFLOWS,
        data_converter=DATA_CONVERTER,
        workflow_runner=SANDBOX,
        plugins=[OpenTelemetryPlugin()],
    ).replay_workflow(history)
