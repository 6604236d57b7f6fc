"""Train the tiny Llama by each method: does it learn to write good reflections?

    .venv-train/bin/python -m bench.training [--rounds 3] [--busy] [--methods ppo kto rloo dpo]
        [--turned none "every other" "random half"]

Needs the extra `train`. What is good is known by a rule (`bench.tiny_llama`), which neither the
trainers nor the reward model are told: they have a replay buffer of rated pairs. Prints for each
method and seed (round) the share of good reflections before and after, and the seconds of both
stages with the start of their processes, and the quartiles; then the same with half of the gains
turned, so that they tell nothing, both ways: of every other pair of those with the same verbs, and
of half of all pairs at random. Where nothing is turned it prints at last, by `mull train` with rloo
on a real server, how often an agent that failed solves its task after it has read a reflection,
before and after training. Fails if ppo, kto or rloo stays below 0.9 or takes two minutes, if turned
gains teach any of them that much, or if the agent stays below 0.9. With `--busy` only shares count.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import get_args

from temporalio.testing import ActivityEnvironment

from activities.training.activity import TrainingActivities
from activities.training.artifacts import run_folder, write_buffer
from activities.training.port import StageTask
from bench import busy, parser, quartiles, server
from bench.tiny_llama import Turned, build, rated_pairs, share_good
from reflection.agents.training_result import Method, RetroformerTrainingResult, Stage
from tests.training.keys import made

PAIRS, SAMPLES = 192, 400
LEAST, MOST_SECONDS = 0.9, 120.0
METHODS: tuple[Method, ...] = ("ppo", "kto", "rloo", "dpo")
# Of a model this small: epochs, learning rate, batch.
SETTINGS = {
    "reward_model": (5.0, 3e-3, 16),
    "ppo": (6.0, 1e-3, 32),
    "rloo": (6.0, 1e-3, 32),
    "kto": (6.0, 3e-3, 16),
    "dpo": (3.0, 1e-3, 16),
}


async def learn(root: Path, method: Method, seed: int, turned: Turned) -> tuple[Path, float]:
    """Train a reward model where the method needs one, and a reflector; return it and seconds."""
    run, began = f"{method}-{seed}", time.perf_counter()
    folder = run_folder(root, run)
    shutil.rmtree(folder, ignore_errors=True)
    write_buffer(folder, rated_pairs(PAIRS, seed, turned=turned))
    training, environment = TrainingActivities(root), ActivityEnvironment()
    stages: list[Stage] = ["reflector"]
    if method in {"ppo", "rloo"}:
        stages.insert(0, "reward_model")
    for stage in stages:
        epochs, rate, batch = SETTINGS["reward_model" if stage == "reward_model" else method]
        task = StageTask(
            run=run,
            stage=stage,
            method=method,
            pairing="positive" if method == "kto" else "ordered",
            model="base",
            seed=seed,
            epochs=epochs,
            learning_rate=rate,
            batch_size=batch,
        )
        await environment.run(training.train_stage, task)
    return folder / "reflector", time.perf_counter() - began


async def act(folder: Path) -> tuple[float, float]:
    """Train by `mull train`, and return how often a reflection then helps, before and after."""
    async with server():
        with made(folder, os.environ) as world:
            worker = world.worker()
            try:
                words = ("--method", "rloo", "--epochs", "12", "--tuned", "hosted_vllm/RUN")
                ended = await asyncio.to_thread(world.train, "agent", *words)
            finally:
                worker.terminate()
                worker.join(60)
    result = RetroformerTrainingResult.model_validate_json(ended.stdout)
    after = result.after.share_helped if result.after else None
    return result.before.share_helped or 0.0, after or 0.0


def compare(root: Path, options: argparse.Namespace) -> list[str]:
    """Train by each method, with gains that tell and that do not; list what is not as it should."""
    missed = []
    before = share_good(root / "base", SAMPLES)
    print(f"{'method':8}{'turned':13}{'seed':>4}{'before':>8}{'after':>7}{'seconds':>9}")
    for turned in options.turned:
        for method in options.methods:
            shares, took = list[float](), list[float]()
            for seed in range(options.rounds):
                reflector, seconds = asyncio.run(learn(root, method, seed, turned))
                after = share_good(reflector, SAMPLES)
                line = f"{method:8}{turned:13}{seed:4}{before:8.2f}{after:7.2f}{seconds:9.0f}"
                print(line, flush=True)
                shares.append(after)
                took.append(seconds)
                wrong = (after >= LEAST) != (turned == "none")
                if method != "dpo" and (wrong or (seconds > MOST_SECONDS and not options.busy)):
                    missed.append(line)
            print(f"{method:8}{turned:13} after {quartiles(shares)}, seconds {quartiles(took)}")
    return missed


def main() -> None:
    """Train with true gains and with turned ones, and print what came of it."""
    given = parser(__doc__, 3)
    given.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    given.add_argument("--turned", nargs="+", choices=get_args(Turned), default=get_args(Turned))
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder, busy(options.busy):
        root = Path(folder)
        build(root / "base")
        missed = compare(root, options)
        if "none" in options.turned:
            (agent := root / "agent").mkdir()
            untrained, tuned = asyncio.run(act(agent))
            print(
                f"agent by mull train: solves {untrained:.2f} of what it failed, then {tuned:.2f}"
            )
            if tuned < LEAST:
                missed.append(f"agent {tuned:.2f}")
    if missed:
        raise SystemExit("\n".join(["", "not as it should be:", *missed]))


if __name__ == "__main__":
    main()
