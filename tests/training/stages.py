"""Stages as the worker runs them: artifacts in a folder, and the program in a process."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from activities.training.artifacts import run_folder, write_buffer
from activities.training.port import StageTask
from activities.training.stage import Attempts
from bench.tiny_llama import rated_pairs
from mull.agents.rating import RatedPair

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


def start(root: Path, asked: StageTask, file_bytes: str = "unlimited") -> Popen[str]:
    """Start the program of a stage, which can write files of so many bytes."""
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
        "OMP_NUM_THREADS": "1",
        "MULL_ARTIFACTS": str(root),
    }
    command = [
        "prlimit",
        f"--fsize={file_bytes}",
        sys.executable,
        "-m",
        "activities.training.stage",
    ]
    log = (run_folder(root, RUN) / f"{asked.stage}.log").open("ab")
    with log:
        process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=log, env=variables, text=True)
    assert process.stdin is not None
    process.stdin.write(f"{asked.model_dump_json()}\n")
    process.stdin.flush()
    return process


def lines(process: Popen[str], until: Callable[[Line], bool] = lambda _: False) -> list[Line]:
    """Read what it says, to its end or to a line; then end it by SIGKILL."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(json.loads(line))
        if until(said[-1]):
            break
    process.kill()
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
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
