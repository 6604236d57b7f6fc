"""Train random weights of the shapes of a 7B model on a GPU: memory and time of each stage.

    python -m bench.large_model [--rows 32] [--tokens 1000] [--methods dpo kto rloo ppo]

The shapes are those of Qwen2.5-7B, and the weights are in bf16; a row has --tokens tokens, a tenth
of them the reflection. Each stage is a few steps by the request's defaults, in its own process,
as the worker runs it. Prints its rows at once, the most GPU memory in use, the estimate of `mull
train --estimate`, and the seconds of a step and of the whole stage. Then it runs a stage with more
rows at once than fit: it fails unless that ends with the advice to take fewer. Needs
the extra `train`, a GPU of 80 GB, 20 GB of disk, and nvidia-smi.
"""

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from transformers import AutoModelForCausalLM, Qwen2Config

from activities.training.activity import TrainingActivities
from activities.training.artifacts import run_folder, write_buffer
from activities.training.port import StageTask
from activities.training.tools import needed
from activities.training.weights import load_shape, load_tokenizer
from bench import parser
from bench.tiny_llama import build, rated_pairs
from mull.agents.rating import RatedPair
from mull.agents.training_result import StageResult

# https://huggingface.co/Qwen/Qwen2.5-7B/blob/main/config.json
SHAPES = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
# A stage, its method, and its share of the rows.
STAGES = (
    ("reward_model", "rloo", 1.0),
    ("reflector", "dpo", 1.0),
    ("reflector", "kto", 1.0),
    ("reflector", "rloo", 0.125),
    ("reflector", "ppo", 0.25),
)
METHODS = [method for stage, method, _ in STAGES if stage == "reflector"]
TOO_MANY = 16


class Seen(NamedTuple):
    """The outcome of a stage: the most bytes of the GPU in use, and the end of each step."""

    result: StageResult
    most: int
    ends: list[float]
    seconds: float


def make(folder: Path) -> None:
    """Write the model, with the tokenizer of the tiny Llama."""
    build(folder)
    config = Qwen2Config(**SHAPES, tie_word_embeddings=False)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    tokenizer = load_tokenizer(folder)
    shutil.rmtree(folder)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def long_pairs(folder: Path, rows: int, tokens: int) -> list[RatedPair]:
    """Make a replay buffer whose rows have about `tokens` tokens."""
    tokenizer = load_tokenizer(folder)

    def grown(text: str, most: int) -> str:
        ids = tokenizer(f"{text} " * most, add_special_tokens=False)["input_ids"]
        return str(tokenizer.decode(ids[:most]))

    def longer(pair: RatedPair) -> RatedPair:
        tried = tuple(
            item.model_copy(
                update={
                    "prompt": grown(item.prompt, tokens - tokens // 10),
                    "reflection": grown(item.reflection, tokens // 10),
                }
            )
            for item in pair.tried
        )
        return pair.model_copy(update={"tried": tried})

    return list(map(longer, rated_pairs(rows, 0)))


@contextmanager
def watched() -> Iterator[list[int]]:
    """Read the bytes of the GPU in use, ten times a second."""
    used = list[int]()
    with tempfile.TemporaryFile("w+") as kept:
        asked = ("--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "100")
        process = subprocess.Popen(("nvidia-smi", *asked), stdout=kept)  # noqa: S607
        try:
            yield used
        finally:
            process.terminate()
            process.wait()
            kept.seek(0)
            used += [int(line) << 20 for line in kept.read().split()]


def run(root: Path, task: StageTask) -> Seen:
    """Run a stage, and watch it."""
    ends, environment, began = dict[int, float](), ActivityEnvironment(), time.perf_counter()

    def heard(*said: Any) -> None:
        # The last step is repeated, to show that the stage is alive.
        if said and "step" in said[0]:
            ends.setdefault(said[0]["step"], time.perf_counter())

    environment.on_heartbeat = heard
    with watched() as used:
        result = asyncio.run(environment.run(TrainingActivities(root).train_stage, task))
    return Seen(result, max(used), sorted(ends.values()), time.perf_counter() - began)


def task(stage: str, method: str, **given: object) -> StageTask:
    """Ask for a stage by the defaults."""
    asked = {"run": "large", "stage": stage, "method": method, "pairing": "ordered", "seed": 0}
    return StageTask.model_validate({**asked, "model": "base", **given})


def main() -> None:
    """Run each stage, and print its memory and time."""
    given = parser(__doc__, 1)
    given.add_argument("--rows", type=int, default=32)
    given.add_argument("--tokens", type=int, default=1_000)
    given.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root / "base")
        pairs: Sequence[RatedPair] = long_pairs(root / "base", options.rows, options.tokens)
        write_buffer(run_folder(root, "large"), pairs)
        shape = load_shape(root / "base")
        print(f"{shape.num_parameters() / 1e9:.1f} billion parameters, {options.tokens} tokens")
        print(
            f"{'stage':14}{'rows at once':>13}{'most GB':>9}{'estimate':>10}{'s a step':>10}"
            f"{'steps':>7}{'seconds':>9}"
        )
        for stage, method, epochs in STAGES:
            if stage == "reflector" and method not in options.methods:
                continue
            asked = task(stage, method, epochs=epochs)
            seen = run(root, asked)
            estimate, rows = needed(asked, shape, options.tokens, gpu=True)
            each = (seen.ends[-1] - seen.ends[0]) / max(1, len(seen.ends) - 1)
            print(
                f"{asked.learner:14}{rows:13}{seen.most / 1e9:9.1f}{estimate / 1e9:10.1f}"
                f"{each:10.1f}{seen.result.steps:7}{seen.seconds:9.0f}",
                flush=True,
            )
        try:
            run(root, task("reflector", "dpo", rows_at_once=TOO_MANY, batch_size=TOO_MANY))
        except ApplicationError as error:
            print(f"with {TOO_MANY} rows at once: {error.message}")
            if not (error.non_retryable and "--rows-at-once" in error.message):
                raise
        else:
            raise SystemExit(f"{TOO_MANY} rows at once fitted: too many were not tried")


if __name__ == "__main__":
    main()
