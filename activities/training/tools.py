"""Programs around a training: estimate its memory, and merge its reflector into a whole model.

    MULL_ARTIFACTS=… python -m activities.training.tools estimate TOKENS < a StageTask, as JSON
    MULL_ARTIFACTS=… python -m activities.training.tools merge RUN FOLDER

An estimate reads only the model's configuration. A whole model is for programs that can't load an
adapter; it is in float32, since bf16 would round most of what was learned away. On an error they
print one line, and exit with 1.
"""

import os
import sys
from pathlib import Path

import torch
from transformers import PreTrainedModel, logging

from activities.training import weights
from activities.training.artifacts import ADAPTER, TrainingError, resolve, run_folder
from activities.training.job import Job, recipe
from activities.training.port import VARIABLE, StageTask
from mull.text import spaced, tally_words

# Whole models that a stage holds at once: RLOO also the reward model, PPO two of them.
HELD = {"rloo": 2, "ppo": 3}
# A weight of an adapter in float32, its gradient, and two moments of AdamW.
TRAINED_BYTES = 16


def needed(task: StageTask, model: PreTrainedModel, tokens: int, *, gpu: bool) -> tuple[int, int]:
    """Estimate the bytes that a stage needs, and its rows of so many tokens at once.

    The bytes are those of models, an adapter of each, and activations. Weights are in bf16 on a
    GPU, and in float32 elsewhere.
    """
    chosen = recipe(Job(task, "", [], Path()), model)
    linear = [each for each in model.modules() if isinstance(each, torch.nn.Linear)]
    trained = sum(chosen.lora_rank * (each.in_features + each.out_features) for each in linear)
    # Both texts of a pair are read.
    tokens *= 2 if task.learner in {"reward_model", "dpo"} else 1
    rows = min(task.rows_at_once or weights.batch_size(model, tokens), chosen.batch_size)
    each = model.num_parameters() * (2 if gpu else 4) + trained * TRAINED_BYTES
    held = HELD.get(task.learner, 1) * each
    return held + rows * tokens * weights.token_bytes(model, gpu=gpu), rows


def tell(task: StageTask, model: PreTrainedModel, tokens: int) -> str:
    """Describe the memory that each stage needs, on a GPU and on a CPU, and this machine's."""
    lines = [f"{task.model}: {model.num_parameters() / 1e6:,.1f} million parameters"]
    for stage in ("reward_model", "reflector"):
        of_stage = task.model_copy(update={"stage": stage})
        on_gpu, rows = needed(of_stage, model, tokens, gpu=True)
        on_cpu, _ = needed(of_stage, model, tokens, gpu=False)
        lines.append(
            f"{spaced(stage)}: {on_gpu / 1e9:,.1f} GB on a GPU, {on_cpu / 1e9:,.1f} GB "
            f"on a CPU, with {tally_words(rows, 'row')} of {tokens:,} tokens at once"
        )
    return "\n".join(
        [*lines, f"this machine's {weights.DEVICE.upper()} has {weights.memory() / 1e9:,.1f} GB"]
    )


def merge(root: Path, run: str, folder: Path) -> None:
    """Write the reflector of a run, or an adapter's folder, as a whole model in a new folder.

    Raises TrainingError, OSError.
    """
    places = run_folder(root, run) / "reflector", root / run
    adapter = next((place for place in places if (place / ADAPTER).is_file()), None)
    if adapter is None:
        raise TrainingError(f"There is no tuned reflector {run} in {root}.")
    if folder.exists():
        raise TrainingError(f"{folder} already exists.")
    model = weights.load_policy(adapter, torch.float32)
    gigabytes = 4 * model.num_parameters() / 1e9
    sys.stderr.write(f"Writing {gigabytes:,.1f} GB to {folder} ...\n")
    part = folder.with_name(f"{folder.name}.part")
    weights.save(model, weights.load_tokenizer(adapter), part)
    part.rename(folder)
    sys.stdout.write(f"{folder}\n")


def main(root: Path, what: str, *given: str) -> None:
    """Run `merge` or `estimate`. Raises TrainingError, OSError."""
    if what == "merge":
        run, folder = given
        merge(root, run, Path(folder))
        return
    asked = StageTask.model_validate_json(sys.stdin.readline())
    shape = weights.load_shape(resolve(root, asked.model))
    sys.stdout.write(f"{tell(asked, shape, int(given[0]))}\n")


if __name__ == "__main__":
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        main(Path(os.environ[VARIABLE]), *sys.argv[1:])
    except (TrainingError, OSError) as error:
        sys.exit(f"Error: {error}")
