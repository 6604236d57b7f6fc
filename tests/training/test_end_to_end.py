"""`train` and `retroformer` by the command line, with a worker that trains and serves for real."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from commands.embedded import Place
from tests.e2e.conftest import commands_beside
from tests.patience import PATIENCE, patiently
from tests.training.keys import World, made

RUN = "first"


@pytest.fixture(scope="module")
def world(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Artifacts with a base model that reflects well about every other time."""
    with made(tmp_path_factory.mktemp("artifacts"), commands_beside(place, "agents")) as known:
        yield known


def test_a_trained_reflector_helps_the_agent(world: World) -> None:
    """Half of the reflections are good before, nine of ten after: it then solves its task.

    The worker that tunes is killed: the next one goes on from a checkpoint, and says so.
    """
    worker = world.worker()
    try:
        words = ("--method", "rloo", "--epochs", "16", "--tuned", "reflector/RUN", "--detach")
        begun = world.train(RUN, *words)
        assert begun.returncode == 0, begun.stderr
        until_half_tuned(world, RUN)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        worker = world.worker()
        trained = world.type("watch", RUN, "--accept-any")
        assert trained.returncode == 0, trained.stderr
        chosen = world.type(
            "retroformer", "--env", "keys", "--task", "grey case", "--episode-limit", "2",
            "--reflector", f"reflector/{RUN}", "--reward-model", f"{RUN}/reward_model",
        )  # fmt: skip
    finally:
        worker.terminate()
        worker.join(PATIENCE)

    result = json.loads(trained.stdout)
    assert result["doubt"] == "the gain is measured on the tasks that were learned from"
    before, after = result["before"], result["after"]
    assert 0.3 < before["good"] / before["reflections"] < 0.7
    assert after["good"] / after["reflections"] >= 0.9
    assert after["helped"] == after["good"]
    assert result["tuned_reflector"] == f"{RUN}/reflector"
    attempts = {
        name: (len(one["resumed_at"]), one["anew"]) for name, one in result["stages"].items()
    }
    assert attempts == {"reward_model": (0, 0), "reflector": (1, 0)}
    assert chosen.returncode == 0, chosen.stderr
    lines = (world.folder / result["buffer"]).read_text().splitlines()
    pairs = [json.loads(line) for line in lines]
    assert sum(len(pair["tried"]) for pair in pairs) == before["reflections"]
    assert {pair["environment"] for pair in pairs} == {"keys"}


def until_half_tuned(world: World, identity: str) -> None:
    """Wait until the reflector is far enough to have a checkpoint."""
    for _ in patiently(0.5):
        shown = world.type("show", identity)
        seen = json.loads(shown.stdout) if shown.returncode == 0 else {}
        if seen.get("step") == "reflector" and seen["done"] > seen["of"] / 2:
            return
    pytest.fail(f"{identity} did not come to its reflector: {shown.stderr}")
