"""A stage as a job for a trainer, and the rows, settings and log that all trainers share."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from peft import LoraConfig
from transformers import PreTrainedModel, TrainerCallback

from activities.training.artifacts import TrainingError, write_manifest, write_whole
from activities.training.port import StageTask
from activities.training.weights import batch_size, longest
from mull.agents.rating import RatedPair
from mull.agents.training_result import FEW_ROWS, MOST_POINTS, LogPoint
from mull.text import spaced, tally_words


class Recipe(NamedTuple):
    """The default settings of a method.

    `learning_rate` is for the adapter; `beta` keeps the reflector near its base: PPO's and RLOO's
    weight of the KL divergence, KTO's and DPO's beta.
    """

    epochs: float
    learning_rate: float
    lora_rank: int
    lora_alpha: float
    batch_size: int
    beta: float = 0.0


# By the most parameters of a model. Up to ten million: `bench.training`, on a Llama of 127,000. Up
# to a billion: `bench.training --real`, on one of 135 million, PPO and RLOO with one seed.
# Nothing above was measured here: PPO's and RLOO's are those of Retroformer
# (https://arxiv.org/abs/2308.02151), DPO's that of TRL's trl/scripts/dpo.py for LoRA, KTO's the
# same, as kto.py advises, and the reward model's that of examples/scripts/reward_modeling.py.
RECIPES: dict[float, dict[str, Recipe]] = {
    1e7: {
        "reward_model": Recipe(5, 3e-3, 16, 32, 16),
        "ppo": Recipe(6, 1e-3, 16, 32, 32, 0.05),
        "rloo": Recipe(6, 1e-3, 16, 32, 32, 0.05),
        "kto": Recipe(6, 5e-4, 16, 32, 16, 0.1),
        "dpo": Recipe(3, 1e-3, 16, 32, 16, 1.0),
    },
    1e9: {
        "reward_model": Recipe(3, 5e-4, 16, 32, 16),
        "ppo": Recipe(4, 2e-4, 16, 32, 16, 0.05),
        "rloo": Recipe(4, 2e-4, 16, 32, 16, 0.05),
        "kto": Recipe(4, 1e-3, 16, 32, 8, 1.0),
        "dpo": Recipe(4, 5e-4, 16, 32, 8, 0.1),
    },
    math.inf: {
        "reward_model": Recipe(1, 1e-4, 32, 16, 16),
        "ppo": Recipe(4, 1.4e-5, 4, 8, 8, 0.05),
        "rloo": Recipe(4, 1.4e-5, 4, 8, 8, 0.05),
        "kto": Recipe(1, 5e-6, 32, 16, 16, 0.1),
        "dpo": Recipe(1, 5e-6, 32, 16, 16, 0.1),
    },
}
ROWS = "rows-at-once"
# A trainer's log entries for its loss and gradient; PPO's does not log a gradient.
BROKEN_BY = "loss", "grad_norm", "loss/policy_avg", "loss/value_avg"
# Another remedy for methods that learn from texts that they sample.
OR_ELSE = dict.fromkeys(("ppo", "rloo"), ", or with a --reflector-temperature nearer to 1")

Row = TypeVar("Row")


@dataclass
class Job:
    """A stage to run: models as folders or names, and the folder for its checkpoints.

    The pairs `held_out` are not learned from. `base` is the adapter's name for its model, seen from
    its final folder. `resume` is the checkpoint to go on from, and `tell` is called for each step.
    """

    task: StageTask
    model: str
    pairs: Sequence[RatedPair]
    work: Path
    base: str = ""
    reward_model: Path | None = None
    held_out: Sequence[RatedPair] = ()
    resume: Path | None = None
    tell: Callable[[dict[str, object]], None] = lambda _: None
    warnings: list[str] = field(default_factory=list)


class Steps(TrainerCallback):  # type: ignore[misc]
    """Report each optimisation step with its log values; give each checkpoint a manifest."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Report a step, but not the trainer's summary at the end. Raises TrainingError."""
        if not all(math.isfinite(logs[name]) for name in BROKEN_BY if name in logs):
            said = f"Step {state.global_step} has a loss or gradient of NaN or inf"
            more = OR_ELSE.get(self._job.task.learner, "")
            raise TrainingError(f"{said}: train again with a lower --learning-rate{more}.")
        if "train_runtime" not in logs:
            step = {"step": state.global_step, "of": state.max_steps}
            self._job.tell(step | {"values": _numbers(logs)})

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Write the manifest of a new checkpoint."""
        write_manifest(Path(args.output_dir, f"checkpoint-{state.global_step}"))


def fitting(
    job: Job, model: PreTrainedModel, rows: list[Row], lengths: list[int], least: int = 1
) -> tuple[list[Row], int]:
    """Leave out rows that are too long, with a warning; return a kept row's most tokens too."""
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
    if len(kept) < FEW_ROWS:
        stage = spaced(job.task.stage)
        job.warnings.append(f"The {stage} learned from only {tally_words(len(kept), 'row')}.")
    return kept, max(tokens for tokens in lengths if tokens <= most)


def recipe(job: Job, model: PreTrainedModel) -> Recipe:
    """Choose the settings: the task's own, and otherwise those for the size of the model."""
    size = model.num_parameters()
    found = next(recipes for most, recipes in RECIPES.items() if size <= most)[job.task.learner]
    return found._replace(**job.task.model_dump(include=set(Recipe._fields), exclude_none=True))


def settings(
    job: Job, model: PreTrainedModel, tokens: int, rows: int, least: int = 1
) -> dict[str, Any]:
    """Return the settings that all trainers share; a batch has at most all rows.

    `tokens` counts those of all texts of a row.
    """
    chosen = recipe(job, model)
    batch = max(least, min(chosen.batch_size, rows))
    at_once = _rows_at_once(job, model, tokens, batch, least)
    gpu = model.device.type == "cuda"
    return {
        "output_dir": str(job.work),
        "seed": job.task.seed,
        "num_train_epochs": chosen.epochs,
        "learning_rate": chosen.learning_rate,
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": max(1, batch // at_once),
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": gpu,
        "logging_steps": 1,
        "disable_tqdm": True,
        "report_to": [],
        # After each tenth of the steps. The one before is kept too: the last may be incomplete.
        # A training resumed from there gets the same weights, to the bit (measured).
        "save_strategy": "steps",
        "save_steps": 0.1,
        "save_total_limit": 2,
    }


def _rows_at_once(job: Job, model: PreTrainedModel, tokens: int, batch: int, least: int = 1) -> int:
    """Return how many rows to compute at once; the batch itself stays the same.

    A stage that resumes from a checkpoint computes as many as before.
    """
    kept = job.work / ROWS
    if not kept.exists():
        most = min(batch, job.task.rows_at_once or batch_size(model, tokens))
        whole = next(rows for rows in range(most, 0, -1) if batch % rows == 0)
        write_whole(kept, str(max(least, whole)).encode())
    return int(kept.read_text())


def lora(kind_of_task: str, chosen: Recipe) -> LoraConfig:
    """Return the settings of the adapter to train."""
    return LoraConfig(
        task_type=kind_of_task,
        r=chosen.lora_rank,
        lora_alpha=chosen.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
    )


def log_points(history: Sequence[dict[str, Any]]) -> tuple[LogPoint, ...]:
    """Thin a trainer's log evenly, and leave out values that never changed."""
    entries = [entry for entry in history if "train_runtime" not in entry]
    count = min(len(entries), MOST_POINTS)
    places = [round(place * (len(entries) - 1) / max(1, count - 1)) for place in range(count)]
    chosen = {int(entries[place]["step"]): _numbers(entries[place]) for place in places}
    times = Counter(name for name, _ in {item for one in chosen.values() for item in one.items()})
    told = {name for name in times if times[name] > 1 or count == 1}
    return tuple(
        LogPoint(step=step, values={name: values[name] for name in values if name in told})
        for step, values in chosen.items()
    )


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(f"{value:.6g}")
        for name, value in logs.items()
        if isinstance(value, int | float) and math.isfinite(value) and name != "step"
    }
