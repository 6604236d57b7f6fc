"""The stages of training, with TRL's trainers: the reward model, and the reflector by a method.

Each learns a LoRA adapter, which is merged into the model it began with, so that what is saved is
whole. Three things that these trainers do by themselves spoil a reflector, and are prevented here:
rewards of texts without an end, which teach it to write nothing (`Reward`); PPO's waiting for ever
for a batch that its rows can't fill (`_filled`); and pairs that tell nothing (`preferences`).
"""

import gc
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import Any, TypeVar

import torch
from datasets import Dataset
from peft import LoraConfig, inject_adapter_in_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, set_seed
from trl import (
    DPOConfig,
    DPOTrainer,
    KTOConfig,
    KTOTrainer,
    RewardConfig,
    RewardTrainer,
    RLOOConfig,
    RLOOTrainer,
)
from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

from activities.training.artifacts import TrainingError
from activities.training.port import StageTask
from activities.training.weights import (
    WeightsError,
    batch_size,
    load_policy,
    load_reward_model,
    load_tokenizer,
    longest,
    new_reward_model,
    pair_ids,
    prompt_text,
    save,
    score_pairs,
    token_ids,
)
from reflection.agents.rating import Preference, RatedPair, judgments, preferences
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
# How many answers to one prompt RLOO compares.
ANSWERS = 4
# Both the source's, and what reflections are sampled with afterwards.
TEMPERATURE = 0.9
# An answer may be this much longer than the longest reflection of the buffer.
ROOM = 1.25
# Stages whose weights are the same to the bit if they went on from a checkpoint (measured).
RESUMABLE = frozenset({"reward_model", "dpo", "kto", "rloo"})

Row = TypeVar("Row")
Tell = Callable[[int, int, dict[str, float]], None]


@dataclass
class Job:
    """A stage to run: models as folders or names, and the folder for its checkpoints.

    `resume` is the checkpoint to go on from, `tell` hears of each step, and `saved` of each
    checkpoint.
    """

    task: StageTask
    model: str
    pairs: Sequence[RatedPair]
    work: Path
    reward_model: Path | None = None
    resume: Path | None = None
    tell: Tell = lambda *_: None
    saved: Callable[[Path], None] = lambda _: None
    warnings: list[str] = field(default_factory=list)


@dataclass
class Trained:
    """What came of a stage; its model is in `folder`."""

    folder: Path
    steps: int
    examples: int
    log: tuple[LogPoint, ...]


class Steps(TrainerCallback):  # type: ignore[misc]
    """Tell of each optimisation step with what was logged, and of each checkpoint."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Tell of a step; the trainer's summary at the end is none."""
        del args, control
        if "train_runtime" not in logs:
            self._job.tell(state.global_step, state.max_steps, _numbers(logs))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tell of a checkpoint that was written."""
        del control
        self._job.saved(Path(args.output_dir, f"checkpoint-{state.global_step}"))


class Reward:
    """The reward of reflections, by the reward model; below all others for what is none.

    None are texts without an end, blank ones, and those whose score is no number. The lowest score
    of the replay buffer is the bound for them, so that it is the same in each batch.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        known: Sequence[tuple[str, str]],
    ) -> None:
        self.model, self._tokenizer = model, tokenizer
        scores = score_pairs(model, tokenizer, known)
        self._lowest = min((number for number in scores if number is not None), default=0.0)

    def __call__(self, prompts: Sequence[str], answers: Sequence[Sequence[int]]) -> list[float]:
        """Reward answers, as tokens with the end token where they have one."""
        texts = [self._text(answer) for answer in answers]
        pairs = [(prompt, text) for prompt, text in zip(prompts, texts, strict=True) if text]
        scores = iter(score_pairs(self.model, self._tokenizer, pairs))
        rewards = [next(scores) if text else None for text in texts]
        lowest = min([self._lowest, *(number for number in rewards if number is not None)])
        return [lowest - 1 if number is None else number for number in rewards]

    def _text(self, answer: Sequence[int]) -> str | None:
        end = self._tokenizer.eos_token_id
        if end not in answer:
            return None
        written = answer[: list(answer).index(end)]
        text = str(self._tokenizer.decode(written, skip_special_tokens=True))
        return text if text.strip() else None


def train(job: Job) -> Trained:
    """Run a stage and save its model. Raises TrainingError and WeightsError."""
    if not job.pairs:
        raise TrainingError("The replay buffer is empty: no failed episode was reflected on twice.")
    set_seed(job.task.seed)
    trainer, examples = TRAINERS[kind(job.task)](job)
    trainer.add_callback(Steps(job))
    trainer.train(**{"resume_from_checkpoint": str(job.resume)} if job.resume else {})
    model = trainer.model.policy if kind(job.task) == "ppo" else trainer.model
    folder = job.work / "model"
    save(model.merge_and_unload(), load_tokenizer(job.model), folder)
    return Trained(folder, trainer.state.global_step, examples, _log(trainer.state.log_history))


def kind(task: StageTask) -> str:
    """Name what a stage trains with: reward_model, or the reflector's method."""
    return "reward_model" if task.stage == "reward_model" else task.method


def _reward_model(job: Job) -> tuple[Any, int]:
    tokenizer = load_tokenizer(job.model)
    model = new_reward_model(job.model, job.task.seed, tokenizer.pad_token_id)
    ids = partial(pair_ids, tokenizer)
    rows = [
        {"chosen_ids": ids(prompt, accepted), "rejected_ids": ids(prompt, rejected)}
        for prompt, accepted, rejected in _preferences(job)
    ]
    rows, tokens = _fitting(job, model, rows, [max(map(len, row.values())) for row in rows])
    config = RewardConfig(**_settings(job, model, tokens, len(rows)), max_length=None)
    # The new head, `score`, is trained whole: PEFT adds it for this kind of task.
    return _trainer(RewardTrainer, config, model, tokenizer, rows, "SEQ_CLS"), len(rows)


def _dpo(job: Job) -> tuple[Any, int]:
    tokenizer, model = load_tokenizer(job.model), load_policy(job.model)
    found = _preferences(job)
    rows = [
        {"prompt": _unbegun(tokenizer, prompt), "chosen": accepted, "rejected": rejected}
        for prompt, accepted, rejected in found
    ]
    lengths = [
        max(len(pair_ids(tokenizer, prompt, text)) for text in texts) for prompt, *texts in found
    ]
    rows, tokens = _fitting(job, model, rows, lengths)
    config = DPOConfig(**_settings(job, model, tokens, len(rows)), max_length=None)
    return _trainer(DPOTrainer, config, model, tokenizer, rows), len(rows)


def _kto(job: Job) -> tuple[Any, int]:
    tokenizer, model = load_tokenizer(job.model), load_policy(job.model)
    found = judgments(job.pairs, job.task.pairing)
    good = sum(row.correct for row in found)
    if not 0 < good < len(found):
        raise TrainingError(
            f"KTO learns from good and from bad reflections: of {len(found)} that tell, "
            f"in {len(job.pairs)} rated pairs, {good} are good."
        )
    rows = [
        {"prompt": _unbegun(tokenizer, prompt), "completion": reflection, "label": correct}
        for prompt, reflection, correct in found
    ]
    lengths = [len(pair_ids(tokenizer, row.prompt, row.reflection)) for row in found]
    # It compares reflections with those of other rows, and so takes two at once at least.
    rows, tokens = _fitting(job, model, rows, lengths, least=2)
    bad = len(found) - good
    config = KTOConfig(
        **_settings(job, model, tokens, len(rows), least=2),
        max_length=None,
        dataloader_drop_last=True,
        desirable_weight=max(1.0, bad / good),
        undesirable_weight=max(1.0, good / bad),
    )
    return _trainer(KTOTrainer, config, model, tokenizer, rows), len(rows)


def _rloo(job: Job) -> tuple[Any, int]:
    tokenizer, model = load_tokenizer(job.model), load_policy(job.model)
    prompts, answer, tokens = _prompts(job, tokenizer, model)
    reward = _reward(job)
    settings = _settings(job, model, tokens, job.task.batch_size or BATCH, least=2)
    batch = _batch(settings)
    answers = math.gcd(batch, ANSWERS) if batch % 2 == 0 else batch
    rows = [
        {"prompt": _unbegun(tokenizer, prompt), "asked": prompt}
        for prompt in _filled(prompts, batch // answers)
    ]

    def rewards(asked: list[str], completion_ids: list[list[int]], **_: object) -> list[float]:
        return reward(asked, completion_ids)

    lengths = {"num_generations": answers, "max_completion_length": answer}
    config = RLOOConfig(**settings, **lengths, temperature=TEMPERATURE)
    trainer = _trainer(RLOOTrainer, config, model, tokenizer, rows, reward_funcs=rewards)
    return trainer, len(prompts)


def _ppo(job: Job) -> tuple[Any, int]:
    tokenizer, model = load_tokenizer(job.model), load_policy(job.model)
    tokenizer.padding_side = "left"
    prompts, answer, tokens = _prompts(job, tokenizer, model)
    reward, value = _reward(job), load_reward_model(_trained(job))
    if not hasattr(value, "score"):
        raise WeightsError(f"PPO can't train models like {job.model}: try --method rloo.")
    inject_adapter_in_model(_lora("SEQ_CLS"), value)
    value.score.requires_grad_(True)
    asked = {
        _unpadded(
            token_ids(tokenizer, prompt_text(tokenizer, prompt)), tokenizer.pad_token_id
        ): prompt
        for prompt in prompts
    }
    settings = _settings(job, model, tokens, job.task.batch_size or BATCH)
    rows = [{"input_ids": list(ids)} for ids in _filled(list(asked), _batch(settings))]
    config = PPOConfig(
        **settings | {"save_strategy": "no"},
        response_length=answer,
        temperature=TEMPERATURE,
        stop_token="eos",  # noqa: S106 - a token of a text
        num_sample_generations=0,
    )
    models = {"ref_model": None, "reward_model": reward.model, "value_model": value}
    made = partial(_PPO, reward, asked, eval_dataset=Dataset.from_list(rows), **models)
    return _trainer(made, config, model, tokenizer, rows), len(prompts)


def _trainer(
    kind_of_trainer: Callable[..., Any],
    config: Any,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: list[dict[str, Any]],
    kind_of_task: str = "CAUSAL_LM",
    **given: Any,
) -> Any:
    """Make a trainer of a LoRA adapter for the model."""
    return kind_of_trainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=_lora(kind_of_task),
        **given,
    )


def _batch(settings: dict[str, Any]) -> int:
    """Return how many rows a step of these settings takes."""
    batch: int = settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"]
    return batch


class _PPO(PPOTrainer):  # type: ignore[misc]
    """PPO by `Reward`: its own takes a model, and sees neither a blank answer nor a missing end."""

    def __init__(self, reward: Reward, asked: dict[tuple[int, ...], str], **given: Any) -> None:
        super().__init__(**given)
        self._reward, self._asked = reward, asked
        self._padding = given["processing_class"].pad_token_id

    def train(self) -> None:
        """Train, while the function that this trainer gets rewards from is ours."""
        original = ppo_trainer.get_reward

        def rewards(model: Any, rows: torch.Tensor, padding: int, context: int) -> Any:
            if model is not self.reward_model:
                return original(model, rows, padding, context)
            prompts = [self._asked[_unpadded(row, padding)] for row in rows[:, :context].tolist()]
            numbers = self._reward(prompts, rows[:, context:].tolist())
            return None, torch.tensor(numbers, device=rows.device), None

        ppo_trainer.get_reward = rewards
        # It collects garbage at each step, through all that the libraries ever made.
        gc.freeze()
        try:
            super().train()
        finally:
            ppo_trainer.get_reward = original
            gc.unfreeze()


TRAINERS: dict[str, Callable[[Job], tuple[Any, int]]] = {
    "reward_model": _reward_model,
    "ppo": _ppo,
    "rloo": _rloo,
    "kto": _kto,
    "dpo": _dpo,
}


def _preferences(job: Job) -> list[Preference]:
    found = preferences(job.pairs, job.task.pairing)
    if not found:
        raise TrainingError(
            f"None of {len(job.pairs)} rated pairs tells a better reflection from a worse one "
            f"(pairing {job.task.pairing}): collect more, or tasks on which returns differ."
        )
    return found


def _prompts(
    job: Job, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel
) -> tuple[list[str], int, int]:
    """List a prompt of each task, and tell the most tokens of an answer, and of both together."""
    tasks = {
        (pair.environment, pair.task, pair.environment_seed): pair.tried[0].prompt
        for pair in reversed(job.pairs)
    }
    prompts = list(dict.fromkeys(reversed(tasks.values())))
    written = (item.reflection for pair in job.pairs for item in pair.tried)
    answer = math.ceil(ROOM * max(len(token_ids(tokenizer, text)) + 1 for text in written))
    lengths = [len(token_ids(tokenizer, prompt_text(tokenizer, text))) + answer for text in prompts]
    prompts, tokens = _fitting(job, model, prompts, lengths)
    return prompts, answer, tokens


def _fitting(
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
        job.warnings.append(f"The {job.task.stage} learned from only {len(kept)} rows.")
    return kept, max(tokens for tokens in lengths if tokens <= most)


def _settings(
    job: Job, model: PreTrainedModel, tokens: int, rows: int, least: int = 1
) -> dict[str, Any]:
    """Give the settings that all trainers share; the batch is no larger than the rows."""
    epochs, rate = DEFAULTS[kind(job.task)]
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
        # A tenth of the steps; the one before is kept, as the last may be cut short.
        "save_strategy": "steps" if kind(job.task) in RESUMABLE else "no",
        "save_steps": 0.1,
        "save_total_limit": 2,
    }


def _lora(kind_of_task: str) -> LoraConfig:
    return LoraConfig(
        task_type=kind_of_task, r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear"
    )


def _trained(job: Job) -> Path:
    if job.reward_model is None:
        said = f"{job.task.method} needs the reward model of this run, and there is none."
        raise TrainingError(said)
    return job.reward_model


def _reward(job: Job) -> Reward:
    folder = _trained(job)
    known = [(item.prompt, item.reflection) for pair in job.pairs for item in pair.tried]
    return Reward(load_reward_model(folder), load_tokenizer(folder), known)


def _unbegun(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    """Format a prompt without the beginning token that these trainers add by themselves."""
    text = prompt_text(tokenizer, prompt)
    begins = list(tokenizer("")["input_ids"])[:1]
    if tokenizer.bos_token_id is not None and begins == [tokenizer.bos_token_id]:
        return text.removeprefix(str(tokenizer.bos_token))
    return text


def _filled(rows: list[Row], least: int) -> list[Row]:
    """Repeat rows until a batch is full, since PPO waits for ever for one that never is."""
    return rows * math.ceil(least / len(rows)) if len(rows) < least else rows


def _unpadded(ids: Sequence[int], padding: int) -> tuple[int, ...]:
    return tuple(dropwhile(lambda token: token == padding, ids))


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(f"{value:.6g}")
        for name, value in logs.items()
        if isinstance(value, int | float) and math.isfinite(value) and name != "step"
    }


def _log(history: Sequence[dict[str, Any]]) -> tuple[LogPoint, ...]:
    """Thin the log evenly, and leave out what never changed."""
    entries = [entry for entry in history if "train_runtime" not in entry]
    count = min(len(entries), MOST_POINTS)
    places = (round(place * (len(entries) - 1) / max(1, count - 1)) for place in range(count))
    chosen = [(int(entries[place]["step"]), _numbers(entries[place])) for place in places]
    seen = defaultdict[str, set[float]](set)
    for _, values in chosen:
        for name, value in values.items():
            seen[name].add(value)
    told = {name for name, values in seen.items() if len(values) > 1 or count == 1}
    return tuple(
        LogPoint(step=step, values={name: values[name] for name in values if name in told})
        for step, values in chosen
    )
