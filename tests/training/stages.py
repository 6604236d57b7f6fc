"""Stages as the worker runs them: artifacts in a folder, and the program in a process."""

import json
import os
import resource
import shutil
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple, TextIO

from activities.training.artifacts import run_folder, write_buffer
from activities.training.port import StageTask
from activities.training.stage import Attempts
from bench.tiny_llama import rated_pairs
from mull.agents.rating import RatedPair
from tests import forks

# For what stages are forked from. More threads would add up in another order each time.
os.environ["OMP_NUM_THREADS"] = "1"
RUN = "train-1"
Line = dict[str, Any]


def task(stage: str = "reward_model", method: str = "ppo", **given: object) -> StageTask:
    """Ask for a short stage on the tiny Llama."""
    return StageTask.model_validate(
        {
            "run": RUN,
            "stage": stage,
            "method": method,
            "pairing": "ordered",
            "model": "base",
            "epochs": 4.0,
            "learning_rate": 1e-3,
            "batch_size": 8,
            "seed": 1,
        }
        | given
    )


def artifacts(folder: Path, base: Path, pairs: Sequence[RatedPair] | None = None) -> Path:
    """Make a folder of artifacts with the tiny Llama and a replay buffer."""
    folder.mkdir()
    shutil.copytree(base, folder / "base")
    write_buffer(run_folder(folder, RUN), rated_pairs(24, 0) if pairs is None else pairs)
    return folder


class Stage(NamedTuple):
    """The process of a stage, and the ends of its pipes."""

    process: ForkServerProcess
    stdin: TextIO
    stdout: TextIO


def start(root: Path, asked: StageTask, file_bytes: int = resource.RLIM_INFINITY) -> Stage:
    """Start the program of a stage, which can write files of so many bytes."""
    given, said = (Path(mkdtemp()) / name for name in ("stdin", "stdout"))
    for pipe in (given, said):
        os.mkfifo(pipe)
    variables = {"PATH": os.environ["PATH"], "MULL_ARTIFACTS": str(root)}
    log = run_folder(root, RUN) / f"{asked.stage}.log"
    process = forks.start(["activities/training/stage.py"], variables, said, log, given)
    stage = Stage(process, given.open("w"), said.open())
    for pipe in (given, said):
        shutil.rmtree(pipe.parent)
    assert process.pid is not None
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    stage.stdin.write(f"{asked.model_dump_json()}\n")
    stage.stdin.flush()
    return stage


def lines(stage: Stage, until: Callable[[Line], bool] = lambda _: False) -> list[Line]:
    """Read what it says, to its end or to a line; then end it by SIGKILL."""
    said = []
    for line in stage.stdout:
        said.append(json.loads(line))
        if until(said[-1]):
            break
    stage.process.kill()
    stage.process.join()
    stage.stdin.close()
    stage.stdout.close()
    return said


def outcome(root: Path, asked: StageTask) -> Line:
    """Run a stage to its end, and return the last line."""
    return lines(start(root, asked), lambda line: "step" not in line)[-1]


def weights(root: Path, stage: str) -> bytes:
    """Read the weights of a stage that is done."""
    return (run_folder(root, RUN) / stage / "adapter_model.safetensors").read_bytes()


def attempts(root: Path, stage: str) -> Attempts:
    """Read how a stage that is not done went on so far."""
    path = run_folder(root, RUN) / f"{stage}.part" / "attempts.json"
    return Attempts.model_validate_json(path.read_bytes())
