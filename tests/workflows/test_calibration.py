"""A run that tells how likely its answer is right, by its own map or by its worker's."""

import uuid
from pathlib import Path
from typing import Any

import pytest
import typer
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.worker import Replayer

import worker
from commands import follow
from commands.command import Exit
from commands.options import New, Wanted
from mull.connection import DATA_CONVERTER
from mull.sampling.probability import CalibrationMap
from mull.sampling.request import SelfConsistencyRequest
from mull.sampling.result import Bars, SelfConsistencyResult
from tests.conftest import SANDBOX, begin, served
from tests.scripted import ScriptedModel
from tests.unit.test_calibrated import made

OF_SCRIPTED = {"model": "scripted/model", "name": "scripted"}


async def asked(client: Client, **fields: object) -> tuple[SelfConsistencyResult, WorkflowHistory]:
    async with served(client, ScriptedModel(sample=["129"] * 3)):
        handle = await begin(client, {"question": "How much?", "preset": "thrifty", **fields})
        result = SelfConsistencyResult.model_validate(await handle.result())
        return result, await handle.fetch_history()


def kinds(history: WorkflowHistory) -> list[str]:
    found = [event.WhichOneof("attributes") or "" for event in history.events]
    return sorted(kind for kind in found if "workflow_task" not in kind)


async def test_a_map_in_the_request(client: Client) -> None:
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


async def required(
    client: Client, asked: ScriptedModel, new: New | None = None, **fields: Any
) -> Exit:
    request = SelfConsistencyRequest(question="How much?", preset="thrifty", **fields)
    wanted = Wanted(required=Bars(probability=0.9), web_ui=False)
    async with served(client, asked):
        return await follow.start(client, request, new or New(), wanted)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "--require-probability needs a calibration map, and the worker has none. Fit"),
        (
            {"calibration": made(temperature=0.0), "model": "c/d"},
            "the map does not fit: model c/d, where the map has openai/gpt-test; temperature 0.7",
        ),
    ],
)
async def test_a_probability_that_no_map_can_tell_is_refused(
    client: Client, fields: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is wrong usage, and the model, which has no reply, is not asked."""
    with pytest.raises(typer.Exit) as refused:
        await required(client, ScriptedModel(), **fields)

    assert refused.value.exit_code == Exit.USAGE
    assert said in capsys.readouterr().err


async def test_a_model_that_is_not_named_may_be_the_map_s(client: Client) -> None:
    """Only its replies tell which model a worker has."""
    own = made(**OF_SCRIPTED)

    assert await required(client, ScriptedModel(sample=["129"] * 3), calibration=own) == Exit.DONE


async def test_a_run_that_may_be_done_is_looked_up(client: Client) -> None:
    """Its result is printed, and is below the bar as it has no probability."""
    named = New(f"done-{uuid.uuid4()}")
    first = await required(client, ScriptedModel(sample=["129"] * 3), named)

    assert (first, await required(client, ScriptedModel(), named)) == (Exit.BELOW_BAR,) * 2


async def test_that_only_the_worker_has_maps_is_said(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line before the run; a worker whose folder has no map says so when it starts."""
    monkeypatch.setenv("MULL_CALIBRATION", str(tmp_path))
    with pytest.raises(typer.Exit):
        await required(client, ScriptedModel())
    logged = caplog.text
    (tmp_path / "model.json").write_text(made(**OF_SCRIPTED).model_dump_json(), encoding="utf-8")

    code = await required(client, ScriptedModel(sample=["129"] * 3))

    assert f"there is no calibration map in {tmp_path}" in logged
    assert code == Exit.DONE
    assert "Note: the probability will be known only if a map of the worker fits this run." in (
        capsys.readouterr().err
    )
