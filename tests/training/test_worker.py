import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from temporalio.client import Client

from activities.doctor import DoctorRequest, DoctorResult
from activities.language_model.litellm_model import LiteLLMModel
from activities.training.activity import ScoringActivities, TrainingActivities
from activities.training.served import PROGRAM
from adapters import QUEUES, parse, servable, trained
from commands.embedded import Place, free_port
from mull.connection import connect
from mull.errors import ConfigurationError
from tests.e2e.conftest import worker
from tests.training.serving import artifacts, call


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (None, "MULL_ARTIFACTS is not set, to a folder that all training workers share"),
        ("/nowhere", "/nowhere, which MULL_ARTIFACTS names, is not a folder"),
    ],
)
def test_no_artifacts(
    folder: str | None, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its folder, training is refused if it was chosen, and else left out with a line."""
    caplog.set_level("INFO")
    if folder is not None:
        monkeypatch.setenv("MULL_ARTIFACTS", folder)

    assert servable(QUEUES, chosen=False) == ["mull", "llm", "code", "tools"]
    assert caplog.messages == [f"mull-train is not served: {said}"]
    assert servable(["mull"], chosen=True) == ["mull"]
    with pytest.raises(ConfigurationError, match=f"mull-train can't be served: {said}"):
        servable(["mull", "train"], chosen=True)


async def test_a_taken_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that another process listens at is said at the start."""
    monkeypatch.setenv("MULL_ARTIFACTS", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = parse(["--queues", "train", "--reflector-address", f"127.0.0.1:{port}"])

        with pytest.raises(ConfigurationError, match=f"port {port}: Address already in use"):
            async with trained(["train"], options, cast("Client", None)):
                pass


@pytest.mark.parametrize("name", ["nowhere", "/nowhere/model", "a b/c"])
async def test_a_base_that_is_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base model that is no folder and can't be a Hugging Face name is refused at the start."""
    monkeypatch.setenv("MULL_ARTIFACTS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    options = parse(["--queues", "train", "--base", "owner/model", "--base", name])

    with pytest.raises(ConfigurationError, match=f"^--base: {name} is neither a folder") as error:
        async with trained(["train"], options, cast("Client", None)):
            pass

    assert "\n" not in str(error.value)


async def test_each_activity_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a workflow may ask of the workers that train, each of them takes."""
    monkeypatch.setenv("MULL_ARTIFACTS", str(tmp_path))
    options = parse(["--queues", "train", "--reflector-address", f"127.0.0.1:{free_port()}"])
    asked = {
        name
        for kind in (TrainingActivities, ScoringActivities)
        for name, made in vars(kind).items()
        if hasattr(made, "__temporal_activity_definition")
    }

    async with trained(["train"], options, cast("Client", None)) as served:
        assert {one.__name__ for one in served or ()} == asked

    assert "find_base_model" in asked


async def test_a_worker(
    place: Place, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker serves reflectors, tells doctor where it keeps them, and ends in order."""
    root, port = artifacts(base, tmp_path / "artifacts"), free_port()
    monkeypatch.setenv("TEMPORAL_ADDRESS", place.address)
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", f"http://127.0.0.1:{port}/v1")
    options = ["--queues", "mull,train", "--reflector-address", f"127.0.0.1:{port}"]
    environment = {**os.environ, "MULL_ARTIFACTS": str(root)}
    with worker(environment, tmp_path / "log", *options, "--base", str(base)) as ended:
        client = await connect()
        found: DoctorResult = await client.execute_workflow(
            "DoctorWorkflow",
            DoctorRequest(queues=("mull-train",)),
            id="doctor-training",
            task_queue="mull",
            result_type=DoctorResult,
        )
        reply = await LiteLLMModel(None).complete(call("hosted_vllm/train-1"))

    assert ended.exitcode == 0
    said = [check.said for check in found.checks if check.area == "training"]
    assert said == [f"trained models are kept in {root}"]
    assert reply.text
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_whose_worker_has_died_ends_before_torch_is_imported() -> None:
    """Else the next worker could not listen on its port for seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        known = listening.fileno()
        ended = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", PROGRAM, str(known)], pass_fds=[known],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert ended.returncode == 1
    assert not re.search(r"\| +torch$", ended.stderr, re.MULTILINE)
