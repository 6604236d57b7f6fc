"""A stage as a job for a trainer, and what all trainers share: rows that fit, settings, and log."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from peft import LoraConfig
from transformers import PreTrainedModel, TrainerCallback

from activities.training.artifacts import TrainingError, write_manifest
from activities.training.port import StageTask
from activities.training.weights import batch_size, longest
from reflection.agents.rating import RatedPair
from reflection.agents.training_result import MOST_POINTS, LogPoint

# Epochs and learning rates of LoRA, where the request names none.
DEFAULTS = {
    "reward_model": (2.0, 1e-4),
    "ppo": (8.0, 1e-5),
    "rloo": (8.0, 1e-5),
    "kto": (2.0, 2e-5),
    "dpo": (2.0, 1e-5),
}
BATCH = 16
# Fewer rows than this are said to be few.
FEW = 20

Row = TypeVar("Row")


@dataclass
class Job:
    """A stage to run: models as folders or names, and the folder for its checkpoints.

    `resume` is the checkpoint to go on from, and `tell` hears of each step.
    """

    task: StageTask
    model: str
    pairs: Sequence[RatedPair]
    work: Path
    reward_model: Path | None = None
    resume: Path | None = None
    tell: Callable[[dict[str, object]], None] = lambda _: None
    warnings: list[str] = field(default_factory=list)


class Steps(TrainerCallback):  # type: ignore[misc]
    """Tell of each optimisation step with what was logged; give each checkpoint a manifest."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Tell of a step; the trainer's summary at the end is none."""
        if "train_runtime" not in logs:
            step = {"step": state.global_step, "of": state.max_steps}
            self._job.tell(step | {"values": _numbers(logs)})

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """List the files of a checkpoint that was written."""
        write_manifest(Path(args.output_dir, f"checkpoint-{state.global_step}"))


def fitting(
    job: Job, model: PreTrainedModel, rows: list[Row], lengths: list[int], least: int = 1
) -> tuple[list[Row], int]:
    """Leave out rows that are too long, and say so; tell the tokens of the longest one left."""
    most = min(job.task.max_length or longest(model), longest(model))
    kept = [row for row, tokens in zip(rows, lengths, strict=True) if tokens <= most]
    if len(kept) < least:
        raise TrainingError(
            f"Of {len(rows)} rows {len(rows) - len(kept)} are longer than {most} tokens: raise "
            "max_length, or choose a model that reads more."
        )
    if len(kept) < len(rows):
        job.warnings.append(
            f"{len(rows) - len(kept)} of {len(rows)} rows are longer than {most} tokens and were "
            "left out of training."
        )
    if len(kept) < FEW:
        stage = job.task.stage.replace("_", " ")
        job.warnings.append(f"The {stage} learned from only {len(kept)} rows.")
    return kept, max(tokens for tokens in lengths if tokens <= most)


def settings(
    job: Job, model: PreTrainedModel, tokens: int, rows: int, least: int = 1
) -> dict[str, Any]:
    """Give the settings that all trainers share; the batch is no larger than the rows."""
    epochs, rate = DEFAULTS[job.task.learner]
    batch = max(least, min(job.task.batch_size or BATCH, rows))
    at_once = max(least, min(batch, batch_size(model, tokens)))
    gpu = model.device.type == "cuda"
    return {
        "output_dir": str(job.work),
        "seed": job.task.seed,
        "num_train_epochs": job.task.epochs or epochs,
        "learning_rate": job.task.learning_rate or rate,
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": batch // at_once,
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": gpu,
        "logging_steps": 1,
        "disable_tqdm": True,
        "report_to": [],
        # A tenth of the steps; the one before is kept, as the last may be cut short. Who goes on
        # from there comes to the same weights, to the bit (measured).
        "save_strategy": "steps",
        "save_steps": 0.1,
        "save_total_limit": 2,
    }


def lora(kind_of_task: str) -> LoraConfig:
    """Describe the adapter that is trained."""
    return LoraConfig(
        task_type=kind_of_task, r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear"
    )


def log_points(history: Sequence[dict[str, Any]]) -> tuple[LogPoint, ...]:
    """Thin a trainer's log evenly, and leave out what never changed."""
    entries = [entry for entry in history if "train_runtime" not in entry]
    count = min(len(entries), MOST_POINTS)
    places = [round(place * (len(entries) - 1) / max(1, count - 1)) for place in range(count)]
    chosen = {int(entries[place]["step"]): _numbers(entries[place]) for place in places}
    seen = {item for values in chosen.values() for item in values.items()}
    changed = {name for name, times in Counter(name for name, _ in seen).items() if times > 1}
    return tuple(
        LogPoint(
            step=step,
            values={name: values[name] for name in values if name in changed or count == 1},
        )
        for step, values in chosen.items()
    )


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(f"{value:.6g}")
        for name, value in logs.items()
        if isinstance(value, int | float) and math.isfinite(value) and name != "step"
    }
