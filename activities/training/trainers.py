"""The stages of training, with TRL's trainers: the reward model, and the reflector by a method.

Each trains a LoRA adapter, and only that is saved. By default these trainers spoil a reflector in
four ways, which are prevented here: rewards for texts without an end, which teach it to write
nothing (`Reward`); PPO's endless wait for a batch that its rows can't fill (`_filled`); pairs
without a difference (`preferences`); and DPO's unlearning of both texts (`_dpo`).
"""

import gc
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import dropwhile
from pickle import UnpicklingError
from typing import Any

import torch
import trl
from datasets import Dataset
from peft import inject_adapter_in_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed
from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

from activities.training import weights
from activities.training.artifacts import TrainingError
from activities.training.job import (
    ROWS,
    Job,
    Row,
    Steps,
    fitting,
    log_points,
    lora,
    recipe,
    settings,
)
from mull.agents.rating import Preference, judgments, preferences
from mull.agents.training_result import StageResult
from mull.text import spaced, tally_words

# How many answers to one prompt RLOO compares.
ANSWERS = 4
# Fewer held-out pairs than this say little about a reward model.
FEW_TESTED = 30
# An answer may be this much longer than the longest reflection of the buffer.
ROOM = 1.25
# A kind of trainer, its settings, its rows, and the number of examples behind these.
Plan = tuple[Callable[..., Any], Any, list[dict[str, Any]], int]


class Reward:
    """The reward of reflections, by the reward model; unusable texts are rewarded below all others.

    Texts without an end, blank ones, and those whose score is not a number are unusable. Their
    reward is also below the lowest score of the replay buffer, which is the same in each batch.
    """

    def __init__(self, job: Job) -> None:
        if job.reward_model is None:
            said = f"{job.task.method} needs the reward model of this run, which does not exist."
            raise TrainingError(said)
        self.folder = job.reward_model
        self.model = weights.load_reward_model(self.folder)
        self._tokenizer = weights.load_tokenizer(self.folder)
        known = [(item.prompt, item.reflection) for pair in job.pairs for item in pair.tried]
        scores = weights.score(self.model, self._tokenizer, known)
        self._lowest = min((number for number in scores if number is not None), default=0.0)

    def __call__(self, prompts: Sequence[str], answers: Sequence[Sequence[int]]) -> list[float]:
        """Reward answers, given as tokens with the end token if they have one."""
        texts = [self._text(answer) for answer in answers]
        pairs = [(prompt, text) for prompt, text in zip(prompts, texts, strict=True) if text]
        scores = iter(weights.score(self.model, self._tokenizer, pairs))
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


def train(job: Job) -> StageResult:
    """Run a stage, and save its model in the job's folder. Raises TrainingError, WeightsError."""
    try:
        return _train(job)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        # On a CPU torch raises a plain RuntimeError for it.
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise TrainingError(_out_of_memory(job)) from error


def _train(job: Job) -> StageResult:
    if not job.pairs:
        raise TrainingError("The replay buffer is empty: no failed episode was reflected on twice.")
    learner, seed, began = job.task.learner, job.task.seed, time.monotonic()
    set_seed(seed)
    tokenizer = weights.load_tokenizer(job.model)
    if learner == "reward_model":
        model = weights.new_reward_model(job.model, seed, tokenizer.pad_token_id)
    else:
        model = weights.load_policy(job.model)
    chosen = recipe(job, model)
    kind, config, rows, examples = PLANS[learner](job, tokenizer, model)
    trainer = kind(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        # The new head, `score`, is trained whole: PEFT adds it for this kind of task.
        peft_config=lora("SEQ_CLS" if learner == "reward_model" else "CAUSAL_LM", chosen),
    )
    trainer.add_callback(Steps(job))
    try:
        trainer.train(**{"resume_from_checkpoint": str(job.resume)} if job.resume else {})
    except UnpicklingError as error:
        said = f"A file of {job.resume} can't be unpickled: remove that folder, and train again."
        raise TrainingError(said) from error
    trained = trainer.model.policy if learner == "ppo" else trainer.model
    tested = right = 0
    if learner == "reward_model":
        tested, right = _tested(job, trained, tokenizer)
    folder, unchanged = job.work / "model", weights.load_tokenizer(job.model)
    weights.save_adapter(trained, unchanged, folder, job.base or job.model)
    if not weights.moved(trained):
        job.warnings.append(
            f"Nothing moved: {learner} left every weight as it was. Raise --learning-rate or "
            "--epochs."
        )
    return StageResult(
        folder=str(folder),
        steps=trainer.state.global_step,
        examples=examples,
        seconds=round(time.monotonic() - began, 1),
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        base_sha256=weights.fingerprint(job.model),
        settings=chosen._asdict() | {"rows_at_once": config.per_device_train_batch_size},
        log=log_points(trainer.state.log_history),
        warnings=tuple(job.warnings),
        tested=tested,
        right=right,
    )


def _out_of_memory(job: Job) -> str:
    """Say what to do if memory ran out."""
    what = f"the {spaced(job.task.stage)} by {job.task.learner}"
    # Without this file the number of rows was not yet chosen: a model did not fit.
    rows = int(kept.read_text()) if (kept := job.work / ROWS).exists() else 1
    at_once = f" with {tally_words(rows, 'row')} at once" if rows > 1 else ""
    fewer = f"--rows-at-once {rows // 2}, or " if rows > 1 else ""
    return (
        f"The memory of the {weights.DEVICE} is too small to train {what}{at_once}: train again "
        f"with {fewer}a smaller --max-length or base model."
    )


def _tested(
    job: Job, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> tuple[int, int]:
    """Count the held-out pairs, and those whose better one the reward model prefers."""
    found = preferences(job.held_out, job.task.pairing)
    if job.held_out and len(found) < FEW_TESTED:
        tested = tally_words(len(found), "pair")
        job.warnings.append(
            f"The reward model was tested on only {tested} held out: hold out more (--held-out)."
        )
    better = weights.score(model, tokenizer, [(pair.prompt, pair.accepted) for pair in found])
    worse = weights.score(model, tokenizer, [(pair.prompt, pair.rejected) for pair in found])
    known = ((a, b) for a, b in zip(better, worse, strict=True) if a is not None and b is not None)
    return len(found), sum(a > b for a, b in known)


def _reward_model(job: Job, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Plan:
    ids = partial(weights.pair_ids, tokenizer)
    rows = [
        {"chosen_ids": ids(prompt, accepted), "rejected_ids": ids(prompt, rejected)}
        for prompt, accepted, rejected in _preferences(job)
    ]
    rows, tokens = fitting(job, model, rows, [max(map(len, row.values())) for row in rows])
    config = trl.RewardConfig(**settings(job, model, 2 * tokens, len(rows)), max_length=None)
    return trl.RewardTrainer, config, rows, len(rows)


def _dpo(job: Job, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Plan:
    found, ids = _preferences(job), partial(weights.pair_ids, tokenizer)
    lengths = [max(len(ids(prompt, text)) for text in texts) for prompt, *texts in found]
    found, tokens = fitting(job, model, found, lengths)
    rows = [
        {"prompt": _unbegun(tokenizer, prompt), "chosen": accepted, "rejected": rejected}
        for prompt, accepted, rejected in found
    ]
    shared = settings(job, model, 2 * tokens, len(rows))
    # With DPO's own loss alone the better text gets less likely too, and its end with it: see
    # https://arxiv.org/abs/2404.19733, which has these weights.
    losses = {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 1.0]}
    config = trl.DPOConfig(**shared, **losses, beta=recipe(job, model).beta, max_length=None)
    return trl.DPOTrainer, config, rows, len(rows)


def _kto(job: Job, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Plan:
    if job.task.pairing == "ordered":
        # Pairs without a difference are refused in the same words as by the other methods.
        _preferences(job)
    found = judgments(job.pairs, job.task.pairing)
    good = sum(row.correct for row in found)
    bad = len(found) - good
    if not good or not bad:
        raise TrainingError(
            f"KTO needs good and bad reflections: of {len(found)} that can be labelled, in "
            f"{len(job.pairs)} rated pairs, {good} are good."
        )
    lengths = [len(weights.pair_ids(tokenizer, row.prompt, row.reflection)) for row in found]
    # TRL measures how far the reflector has moved with the row before, so it needs at least two at
    # once. By `ordered` that is the other reflection of the pair, whose place therefore matters: in
    # a random order a real model gained less on other tasks (bench/RESULTS.md).
    found, tokens = fitting(job, model, found, lengths, least=2)
    rows = [
        {"prompt": _unbegun(tokenizer, prompt), "completion": reflection, "label": correct}
        for prompt, reflection, correct in found
    ]
    config = trl.KTOConfig(
        **settings(job, model, tokens, len(rows), least=2),
        beta=recipe(job, model).beta,
        max_length=None,
        dataloader_drop_last=True,
        desirable_weight=max(1.0, bad / good),
        undesirable_weight=max(1.0, good / bad),
    )
    return trl.KTOTrainer, config, rows, len(rows)


def _rloo(job: Job, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Plan:
    prompts, answer, tokens = _prompts(job, tokenizer, model)
    reward = Reward(job)
    chosen = recipe(job, model)
    shared = settings(job, model, tokens, chosen.batch_size, least=2)
    batch = shared["per_device_train_batch_size"] * shared["gradient_accumulation_steps"]
    answers = math.gcd(batch, ANSWERS) if batch % 2 == 0 else batch
    asked = [[{"role": "user", "content": prompt}] for prompt in prompts]
    rows = [{"prompt": messages} for messages in _filled(asked, batch // answers)]

    def rewards(prompts: list[Any], completion_ids: list[list[int]], **_: object) -> list[float]:
        return reward([message["content"] for (message,) in prompts], completion_ids)

    lengths = {"num_generations": answers, "max_completion_length": answer}
    config = trl.RLOOConfig(**shared, **lengths, beta=chosen.beta, temperature=job.task.temperature)
    return partial(trl.RLOOTrainer, reward_funcs=rewards), config, rows, len(prompts)


def _ppo(job: Job, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Plan:
    tokenizer.padding_side, padding = "left", tokenizer.pad_token_id
    prompts, answer, tokens = _prompts(job, tokenizer, model)
    reward = Reward(job)
    value = weights.merged(weights.load_reward_model(reward.folder))
    if not hasattr(value, "score"):
        raise weights.WeightsError(f"PPO can't train models like {job.model}: try --method rloo.")
    chosen = recipe(job, model)
    inject_adapter_in_model(lora("SEQ_CLS", chosen), value)
    value.score.requires_grad_(True)
    asked = {
        _unpadded(weights.prompt_ids(tokenizer, prompt), padding): prompt for prompt in prompts
    }
    shared = settings(job, model, tokens, chosen.batch_size)
    batch = shared["per_device_train_batch_size"] * shared["gradient_accumulation_steps"]
    config = PPOConfig(
        # Its trainer can't resume from a checkpoint.
        **shared | {"save_strategy": "no"},
        kl_coef=chosen.beta,
        response_length=answer,
        local_rollout_forward_batch_size=shared["per_device_train_batch_size"],
        temperature=job.task.temperature,
        stop_token="eos",  # noqa: S106 - a token of a text
        num_sample_generations=0,
    )
    rows = [{"input_ids": list(row)} for row in _filled(list(asked), batch)]
    return partial(_PPO, reward, asked, value_model=value), config, rows, len(prompts)


class _PPO(PPOTrainer):  # type: ignore[misc]
    """PPO with `Reward`: its own takes a model, and ignores blank answers and missing ends."""

    def __init__(self, reward: Reward, asked: dict[tuple[int, ...], str], **given: Any) -> None:
        models = {"reward_model": reward.model, "ref_model": None}
        super().__init__(**models, **given, eval_dataset=given["train_dataset"])
        self._reward, self._asked = reward, asked

    def train(self) -> None:
        """Train with our own function in place of the one that this trainer gets rewards from."""
        original = ppo_trainer.get_reward

        def rewards(model: Any, rows: torch.Tensor, padding: int, context: int) -> Any:
            if model is not self.reward_model:
                return original(model, rows, padding, context)
            prompts = [self._asked[_unpadded(row, padding)] for row in rows[:, :context].tolist()]
            numbers = self._reward(prompts, rows[:, context:].tolist())
            return None, torch.tensor(numbers, device=rows.device), None

        ppo_trainer.get_reward = rewards
        # The trainer collects garbage at each step: leave the libraries' objects out of that.
        gc.freeze()
        try:
            super().train()
        finally:
            ppo_trainer.get_reward = original
            gc.unfreeze()


PLANS = {"reward_model": _reward_model, "ppo": _ppo, "rloo": _rloo, "kto": _kto, "dpo": _dpo}


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
    """Return a prompt of each task, and the most tokens of an answer, and of both together."""
    tasks = {
        (pair.environment, pair.task, pair.environment_seed): pair.tried[0].prompt
        for pair in reversed(job.pairs)
    }
    prompts = list(dict.fromkeys(reversed(tasks.values())))
    written = (item.reflection for pair in job.pairs for item in pair.tried)
    answer = math.ceil(ROOM * max(len(weights.token_ids(tokenizer, text)) + 1 for text in written))
    lengths = [len(weights.prompt_ids(tokenizer, prompt)) + answer for prompt in prompts]
    prompts, tokens = fitting(job, model, prompts, lengths)
    return prompts, answer, tokens


def _unbegun(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    """Format a prompt without the beginning token that these trainers add by themselves."""
    text = weights.prompt_text(tokenizer, prompt)
    begins = list(tokenizer("")["input_ids"])[:1]
    if tokenizer.bos_token_id is not None and begins == [tokenizer.bos_token_id]:
        return text.removeprefix(str(tokenizer.bos_token))
    return text


def _filled(rows: list[Row], least: int) -> list[Row]:
    """Repeat rows until a batch is full, since PPO would wait for a full one for ever."""
    return rows * math.ceil(least / len(rows)) if len(rows) < least else rows


def _unpadded(ids: Sequence[int], padding: int) -> tuple[int, ...]:
    return tuple(dropwhile(lambda token: token == padding, ids))
