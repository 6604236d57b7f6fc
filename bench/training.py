"""Train the tiny Llama by each method: does it learn to write good reflections?

    .venv-train/bin/python -m bench.training [--rounds 3] [--busy] [--methods ppo kto rloo dpo]
        [--turned none "every other" "random half"]
    .venv-train/bin/python -m bench.training --kills 10 [--methods …]
    .venv-train/bin/python -m bench.training --real [--sweep] [--hours 6] [--rounds 3] [--methods …]
        [--at-once 1] [--rows-at-once N] [--tasks FILE] [--foreign FILE] [--pairing positive]

Needs the extra `train`. A rule (`bench.tiny_llama`) decides what is good; the trainers and the
reward model do not know it: they have a replay buffer of rated pairs, a fifth of which is held out.
All is trained by the request's defaults. Prints for each method and seed
(round) the share of good reflections before and after, how a run of `mull train` would end, and the
seconds of both stages with the start of their processes, and the quartiles; then the same with half
of the gains turned, so that they carry no signal, both ways: of every other pair of those with the
same verbs, and of half of all pairs at random. Without turned gains it also prints, by `mull train`
with rloo on a real server, how often an agent that failed solves its task after it has read a
reflection, before and after training. Fails if a method stays below 0.9 or takes two minutes (but
for `--busy`), if gains without signal move the share by more than 0.1 and the run would not end as
`no_signal`, or if the agent stays below 0.9.

With `--kills` each stage first runs undisturbed, and then is killed that often at a random moment
and run again: it fails if its weights differ then.

With `--real` the model is SmolLM2, of 135 million parameters, and the tasks those of
`bench.hints`. It learns from its own reflections on 40 tasks, three pairs on each, and has the
reward model tested on 10 more. The share of right ones is measured on these, of six reflections on
each, and on 40 others, in other words, of three. `--sweep` first trains by each method with the
default and with two learning rates and two ranks around it, of the same scale, one seed each, and
goes on with the best one on the 10. It begins no training after `--hours`. `--at-once` is for a GPU
with room for several. With `--foreign FILE`
the share is also measured on the tasks of another author's file: JSON Lines with `question`,
`things`, `right` and `told`. With `--tasks FILE` it learns from the first 50 tasks of such a file
instead, in the file's order, and the others are the rest, ten or more.
`--pairing positive` labels the reflections as the source does.
"""

import argparse
import asyncio
import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, get_args

from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.training.activity import TrainingActivities
from activities.training.artifacts import run_folder, write_buffer
from activities.training.job import RECIPES
from activities.training.port import StageTask
from bench import busy, parser, quartiles, real_model, server
from bench.hints import Puzzle
from bench.tiny_llama import Turned, build, rated_pairs, share_good
from mull.agents.rating import Pairing, RatedPair
from mull.agents.training_result import (
    Measured,
    Method,
    RetroformerTrainingResult,
    Stage,
    StageResult,
)
from mull.run import above
from tests.training import stages
from tests.training.keys import made

# A fifth of the pairs, and of the tasks, is held out.
PAIRS, SAMPLES, HELD_OUT = 240, 400, 5
LEAST, MOST_SECONDS, NOTHING, LEAST_OTHERS = 0.9, 120.0, 0.1, 10
METHODS: tuple[Method, ...] = ("ppo", "kto", "rloo", "dpo")


class Learned(NamedTuple):
    """A tuned reflector, the seconds of its stages, and the result of each."""

    folder: Path
    seconds: float
    stages: dict[Stage, StageResult]


async def learn(
    root: Path, method: Method, seed: int, pairs: Sequence[RatedPair], **given: object
) -> Learned:
    """Train a reward model if the method needs one, and a reflector."""
    run, began = f"{method}-{seed}", time.perf_counter()
    folder = run_folder(root, run)
    shutil.rmtree(folder, ignore_errors=True)
    write_buffer(folder, pairs)
    training, environment = TrainingActivities(root), ActivityEnvironment()
    needed: list[Stage] = ["reflector"]
    if method in {"ppo", "rloo"}:
        needed.insert(0, "reward_model")
    results = dict[Stage, StageResult]()
    for stage in needed:
        task = {
            "run": run,
            "stage": stage,
            "method": method,
            "pairing": "ordered",
            "model": "base",
            "seed": seed,
        }
        asked = StageTask.model_validate(task | given)
        results[stage] = await environment.run(training.train_stage, asked)
    return Learned(folder / "reflector", time.perf_counter() - began, results)


def measured(share: float, count: int) -> Measured:
    """Return a share of reflections in the form of a training."""
    return Measured(made=count, reflections=count, good=round(share * count))


def ending(before: Measured, after: Measured, learned: Learned) -> str:
    """Return the end of a run of `mull train` with this: `trained` or `no_signal`."""
    gain, error = after.gain(before)
    tested = learned.stages.get("reward_model")
    chance = tested is not None and tested.no_better_than_chance
    return "no_signal" if chance or not above(gain, error) else "trained"


async def act(folder: Path) -> tuple[float, float]:
    """Train by `mull train`, and return how often a reflection helps, before and after."""
    async with server():
        with made(folder, os.environ) as world:
            worker = world.worker()
            try:
                words = ("--method", "rloo", "--epochs", "16", "--tuned", "reflector/RUN")
                ended = await asyncio.to_thread(world.train, "agent", *words)
            finally:
                worker.terminate()
                worker.join(60)
    result = RetroformerTrainingResult.model_validate_json(ended.stdout)
    after = result.after.share_helped if result.after else None
    return result.before.share_helped or 0.0, after or 0.0


def compare(root: Path, options: argparse.Namespace) -> list[str]:
    """Train by each method, with and without signal in the gains; list the failures."""
    missed = []
    before = share_good(root / "base", SAMPLES)
    print(
        f"{'method':8}{'turned':13}{'seed':>4}{'before':>8}{'after':>7}  {'ending':9}{'seconds':>9}"
    )
    for turned in options.turned:
        for method in options.methods:
            shares, took = list[float](), list[float]()
            for seed in range(options.rounds):
                held = random.Random(f"held {seed}").sample(range(PAIRS), PAIRS // HELD_OUT)
                pairs = rated_pairs(PAIRS, seed, turned=turned, held_out=held)
                learned = asyncio.run(learn(root, method, seed, pairs))
                after, seconds = share_good(learned.folder, SAMPLES), learned.seconds
                ended = ending(measured(before, SAMPLES), measured(after, SAMPLES), learned)
                line = f"{method:8}{turned:13}{seed:4}{before:8.2f}{after:7.2f}"
                line += f"  {ended:9}{seconds:9.0f}"
                print(line, flush=True)
                shares.append(after)
                took.append(seconds)
                if turned == "none":
                    wrong = after < LEAST or ended != "trained"
                else:
                    wrong = ended == "trained" and abs(after - before) > NOTHING
                if wrong or (seconds > MOST_SECONDS and not options.busy):
                    missed.append(line)
            print(f"{method:8}{turned:13} after {quartiles(shares)}, seconds {quartiles(took)}")
    return missed


def kill(root: Path, base: Path, options: argparse.Namespace) -> list[str]:
    """Kill each stage at random moments, and run it again; list those with other weights."""
    drawn, missed = random.Random(0), []
    asked = {method: stages.task("reflector", method) for method in options.methods}
    rewarded = stages.artifacts(root / "rewarded", base, rated_pairs(PAIRS, 0))
    print(f"{'stage':14}{'kills':>6}{'resumed':>9}{'anew':>6}{'other weights':>15}")
    for name, task in {"reward_model": stages.task(), **asked}.items():
        seconds = stages.outcome(rewarded, task)["done"]["seconds"]
        expected = stages.weights(rewarded, task.stage)
        resumed = anew = others = 0
        for number in range(options.kills):
            again = Path(shutil.copytree(rewarded, root / f"{name}-{number}"))
            shutil.rmtree(run_folder(again, task.run) / task.stage)
            # Some time after its first step; it may be done by then.
            moment = drawn.uniform(0, seconds)
            process = stages.start(again, task)

            def wait(_: stages.Line, seconds: float = moment) -> bool:
                time.sleep(seconds)
                return True

            stages.lines(process, wait)
            done = stages.outcome(again, task)["done"]
            resumed += bool(done["resumed_at"])
            anew += done["anew"]
            others += stages.weights(again, task.stage) != expected
            shutil.rmtree(again)
        print(f"{name:14}{options.kills:6}{resumed:9}{anew:6}{others:15}", flush=True)
        if others:
            missed.append(f"{name}: {others} of {options.kills} have other weights")
    return missed


class Puzzles(NamedTuple):
    """Where the tasks come from, and how pairs on them are labelled."""

    tasks: Path | None
    foreign: Path | None
    pairing: Pairing


class Training(NamedTuple):
    """One training of SmolLM2: its method, its seed and the settings that are not the default.

    Those of a sweep are measured on the tasks held out alone. `until` is a time of
    `time.monotonic` after which none begins.
    """

    puzzles: Puzzles
    method: Method
    seed: int
    given: Mapping[str, float]
    rows_at_once: int | None
    until: float
    sweep: bool = False


def to_learn(
    puzzles: Puzzles,
) -> tuple[Mapping[str, Puzzle], Mapping[str, Sequence[Puzzle]]]:
    """List the tasks to learn from, and the reflections to write on others, by their kind."""
    tasks, others = real_model.TASKS, real_model.OTHERS
    if puzzles.tasks is not None:
        made = real_model.read(puzzles.tasks)
        if len(made) < len(tasks) + LEAST_OTHERS:
            raise SystemExit(f"{puzzles.tasks} has {len(made)} tasks: give 60 or more.")
        tasks, others = dict(zip(tasks, made, strict=False)), made[len(tasks) :]
    foreign = {} if puzzles.foreign is None else {"foreign": real_model.read(puzzles.foreign)}
    return tasks, {kind: 3 * some for kind, some in {"others": others, **foreign}.items()}


@cache
def collected(puzzles: Puzzles, seed: int) -> tuple[list[RatedPair], list[Puzzle]]:
    """Collect a replay buffer, and list six reflections to write on each task held out."""
    tasks, _ = to_learn(puzzles)
    held = random.Random(seed).sample(list(tasks), len(tasks) // HELD_OUT)
    pairs = [
        pair.model_copy(update={"held_out": pair.task in held})
        for pair in real_model.rated_pairs(tasks, real_model.ROLLOUTS, seed)
    ]
    return pairs, 6 * [tasks[name] for name in held]


@cache
def untrained(puzzles: Puzzles, seed: int, name: str) -> Measured:
    """Measure the model before training, on tasks of one kind."""
    reflections = to_learn(puzzles)[1].get(name) or collected(puzzles, seed)[1]
    return real_model.measure("toy", reflections, seed)


def trained(asked: Training) -> float:
    """Train, print the shares, and return that on other tasks or, in a sweep, on those held out."""
    puzzles, method, seed = asked.puzzles, asked.method, asked.seed
    if time.monotonic() > asked.until:
        print(f"{method:8} is left out: the time is up", flush=True)
        return math.nan
    pairs, held_out = collected(puzzles, seed)
    known: dict[str, Any] = {
        "model": "toy",
        "temperature": real_model.TEMPERATURE,
        "pairing": puzzles.pairing,
        "rows_at_once": asked.rows_at_once,
    }
    others, shares = {} if asked.sweep else to_learn(puzzles)[1], dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        try:
            learned = asyncio.run(learn(Path(folder), method, seed, pairs, **known, **asked.given))
        except ApplicationError as failed:
            print(f"{method:8} with {dict(asked.given)}, seed {seed}: {failed.message}", flush=True)
            return math.nan
        used = learned.stages["reflector"].settings
        for name, of in {"held out": held_out, **others}.items():
            before = untrained(puzzles, seed, name)
            after = real_model.measure(learned.folder, of, seed)
            gain, error = after.gain(before)
            print(
                f"{method:8}{used['learning_rate']:9.1e}{used['lora_rank']:5.0f}{seed:5} "
                f"{name:8}{before.share_good:8.2f}{after.share_good:7.2f}{gain:7.2f}{error:7.3f}"
                f"  {ending(before, after, learned):9}{learned.seconds:9.0f}",
                flush=True,
            )
            shares[name] = after.share_good or 0.0
    return shares["held out" if asked.sweep else "others"]


def around(method: Method) -> list[dict[str, float]]:
    """List the default of a method, and two learning rates and ranks around it."""
    usual = RECIPES[1e9][method]
    return [{}] + [
        {
            "learning_rate": usual.learning_rate * rate,
            "lora_rank": usual.lora_rank * rank,
            "lora_alpha": usual.lora_alpha * rank,
        }
        for rate, rank in product((0.5, 2), (0.5, 2))
    ]


def real(options: argparse.Namespace) -> None:
    """Train SmolLM2, and print the share of right reflections on unseen tasks."""
    until = time.monotonic() + 3_600 * options.hours
    puzzles = Puzzles(options.tasks, options.foreign, options.pairing)
    tasks, _ = to_learn(puzzles)
    # Each in a process of its own, since a GPU's state does not survive a fork.
    with ProcessPoolExecutor(options.at_once, get_context("spawn")) as pool:

        def begin(
            method: Method, seed: int, given: Mapping[str, float], *, sweep: bool = False
        ) -> Future[float]:
            asked = Training(puzzles, method, seed, given, options.rows_at_once, until, sweep)
            return pool.submit(trained, asked)

        for temperature in (real_model.TEMPERATURE, 0.9):
            said = f"before, on the tasks that it learns from, at {temperature}"
            found = pool.submit(
                real_model.measure, "toy", list(tasks.values()), temperature=temperature
            )
            print(f"{said}: {found.result().share_good:.2f}")
        print(
            f"{'method':8}{'rate':>9}{'rank':>5}{'seed':>5} {'tasks':8}{'before':>8}{'after':>7}"
            f"{'gain':>7}{'error':>7}  {'ending':9}{'seconds':>9}",
            flush=True,
        )
        sweeps = {
            method: [begin(method, 0, given, sweep=True) for given in around(method)]
            for method in options.methods
            if options.sweep
        }
        rounds = dict[Method, list[Future[float]]]()
        for method in options.methods:
            given: Mapping[str, float] = {}
            if options.sweep:
                shares = [
                    0.0 if math.isnan(one := each.result()) else one for each in sweeps[method]
                ]
                given = max(zip(shares, around(method), strict=True), key=lambda one: one[0])[1]
            rounds[method] = [begin(method, seed, given) for seed in range(options.rounds)]
        for method, begun in rounds.items():
            reached = [one for each in begun if not math.isnan(one := each.result())]
            print(f"{method:8} after {quartiles(reached) if reached else 'nothing'}", flush=True)


def main() -> None:
    """Train with true gains and with turned ones, and print the results."""
    given = parser(__doc__, 3)
    given.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    given.add_argument("--turned", nargs="+", choices=get_args(Turned), default=get_args(Turned))
    given.add_argument("--kills", type=int, default=0, help="kill each stage this often instead")
    given.add_argument("--real", action="store_true", help="train SmolLM2")
    given.add_argument("--sweep", action="store_true", help="compare settings for SmolLM2 first")
    pairings = get_args(Pairing)
    given.add_argument("--pairing", choices=pairings, default="ordered", help="of SmolLM2's pairs")
    given.add_argument("--tasks", type=Path, help="learn from the first 50 tasks of a file")
    given.add_argument("--foreign", type=Path, help="tasks of a file, to measure on as well")
    given.add_argument("--at-once", type=int, default=1, help="trainings of SmolLM2 at once")
    given.add_argument("--rows-at-once", type=int, help="as in mull train, for SmolLM2")
    given.add_argument("--hours", type=float, default=6.0, help="begin no training after this time")
    options = given.parse_args()
    if options.real:
        real(options)
        return
    with tempfile.TemporaryDirectory() as folder, busy(options.busy):
        root = Path(folder)
        build(root / "base")
        missed = kill(root, root / "base", options) if options.kills else compare(root, options)
        if "none" in options.turned and not options.kills:
            (agent := root / "agent").mkdir()
            untrained, tuned = asyncio.run(act(agent))
            print(
                f"agent by mull train: solves {untrained:.2f} of what it failed, then {tuned:.2f}"
            )
            if tuned < LEAST:
                missed.append(f"agent {tuned:.2f}")
    if missed:
        raise SystemExit("\n".join(["", "failed:", *missed]))


if __name__ == "__main__":
    main()
