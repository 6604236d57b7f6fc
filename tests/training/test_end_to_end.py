"""`train` and `retroformer` by the command line, with a worker that trains and serves for real."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.tiny_llama import build
from commands.embedded import Place, free_port
from tests import forks
from tests.e2e.conftest import commands_beside
from tests.scripted_endpoint import ScriptedEndpoint
from tests.training.keys import INSTRUCTIONS, TASKS, plan, prompts

RUN = "first"


class World(NamedTuple):
    """A folder of artifacts, the environment of workers, and how to start one and type."""

    folder: Path
    environment: dict[str, str]
    port: int

    def worker(self) -> Any:
        """Start a worker of every queue."""
        log = self.folder / "worker.log"
        queues, keys = "mull,llm,tools,train", "tests.training.keys"
        address = f"127.0.0.1:{self.port}"
        options = ("--queues", queues, "--environments", keys, "--reflector-address", address)
        return forks.start(["worker.py", *options], self.environment, log, log)

    def type(self, *words: str) -> Any:
        """Run a command to its end."""
        given = ["--json"]
        if words[0] in {"train", "retroformer"}:
            instructions = str(self.folder / "instructions")
            given += ["--reflector-instructions", instructions, "--max-output-tokens", "40"]
        for _ in range(120):
            ended = forks.run(
                "starter.py", *words, *given, environment=self.environment, seconds=280
            )
            if ended.returncode != 3:
                return ended
            time.sleep(0.5)
        pytest.fail(f"the worker did not start: {(self.folder / 'worker.log').read_text()}")


@pytest.fixture(scope="module")
def world(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Artifacts with a base model that reflects well about every other time."""
    folder, port = tmp_path_factory.mktemp("artifacts"), free_port()
    build(folder / "base", asked=prompts())
    (folder / "instructions").write_text(INSTRUCTIONS)
    (folder / "tasks").write_text("".join(f"{task}\n" for task in TASKS[:32]))
    with ScriptedEndpoint([plan] * 10_000) as endpoint:
        own = {
            "MULL_MODEL": "openai/scripted",
            "OPENAI_API_BASE": endpoint.url,
            "OPENAI_API_KEY": "sk-secret",
            "HOSTED_VLLM_API_BASE": f"http://127.0.0.1:{port}/v1",
            "MULL_ARTIFACTS": str(folder),
        }
        yield World(folder, {**commands_beside(place, "agents"), **own}, port)


def train(world: World, identity: str, *more: str) -> Any:
    """Train by `mull train`."""
    return world.type(
        "train", "--env", "keys", "--tasks", str(world.folder / "tasks"), "--rollouts", "2",
        "--reflector", "hosted_vllm/base", "--base-model", "base", "--id", identity,
        "--learning-rate", "2e-3", *more,
    )  # fmt: skip


def test_a_trained_reflector_helps_the_agent(world: World) -> None:
    """Half of the reflections are good before, nine of ten after: it then solves its task."""
    worker = world.worker()
    try:
        trained = train(
            world, RUN, "--method", "rloo", "--epochs", "12", "--tuned", "hosted_vllm/RUN"
        )
        assert trained.returncode == 0, trained.stderr
        found = json.loads(trained.stdout)
        chosen = world.type(
            "retroformer", "--env", "keys", "--task", "grey case", "--episode-limit", "2",
            "--reflector", f"hosted_vllm/{RUN}", "--reward-model", f"{RUN}/reward_model",
        )  # fmt: skip
    finally:
        worker.terminate()
        worker.join(60)

    result = found
    before, after = result["before"], result["after"]
    assert 0.3 < before["good"] / before["reflections"] < 0.7
    assert after["good"] / after["reflections"] >= 0.9
    assert after["helped"] == after["good"]
    assert result["tuned_reflector"] == f"{RUN}/reflector"
    assert chosen.returncode == 0, chosen.stderr
    rows = [json.loads(line) for line in (world.folder / result["buffer"]).read_text().splitlines()]
    assert len(rows) == before["reflections"]
    assert {row["environment"] for row in rows} == {"keys"}


def test_a_killed_worker_is_followed_by_another(world: World) -> None:
    """A stage goes on from its checkpoint on the next worker, and says so; nothing is lost."""
    worker = world.worker()
    try:
        started = train(world, "killed", "--method", "dpo", "--epochs", "16", "--detach")
        assert started.returncode == 0, started.stderr
        for stage in ("reward_model", "reflector"):
            until_step(world, "killed", stage)
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
            worker = world.worker()
        ended = world.type("watch", "killed")
    finally:
        worker.terminate()
        worker.join(60)

    assert ended.returncode == 0, ended.stderr
    stages = json.loads(ended.stdout)["stages"]
    for stage in ("reward_model", "reflector"):
        assert len(stages[stage]["resumed_at"]) == 1
        assert stages[stage]["anew"] == 0


def until_step(world: World, identity: str, stage: str) -> None:
    """Wait until a stage is far enough to have a checkpoint."""
    for _ in range(600):
        shown = world.type("show", identity)
        seen = json.loads(shown.stdout) if shown.returncode == 0 else {}
        if seen.get("phase") == stage and seen["step"] > seen["of"] / 2:
            return
        time.sleep(0.2)
    pytest.fail(f"{identity} did not come to {stage}: {shown.stderr}")
