"""Models as folders: how they are loaded, saved, and how a reward model scores reflections.

A model is any folder or name that Hugging Face's Transformers can load, on the GPU where there is
one (in bf16), and else on one thread. What a reward model is trained on and what it scores is made
by one function, `pair_ids`, so that both end in the same token.
"""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from activities.training.artifacts import TrainingError, sync

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "spiece.model", "vocab.json",
    "vocab.txt", "tekken.json",
)  # fmt: skip
# For a base model, which was made with no conversations in mind.
TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
)
MOST_ROWS = 32
# Nothing says how long a row may be where the model's config does not.
LONGEST = 4_096

DEVICE, DTYPE = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)

if DEVICE == "cpu":
    # Threads that contend for two cores take 20 times as long.
    torch.set_num_threads(1)


class WeightsError(TrainingError):
    """What was named can't be used as a model, now or later; says why in one line."""


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """Load a tokenizer that can pad and format a conversation. Raises WeightsError."""
    if Path(folder).is_dir() and not any(Path(folder, name).exists() for name in TOKENIZER_FILES):
        raise WeightsError(f"{folder} has no tokenizer: save the model's tokenizer there too.")
    tokenizer: PreTrainedTokenizerBase = _load(AutoTokenizer, folder)
    if tokenizer.eos_token_id is None:
        raise WeightsError(f"The tokenizer of {folder} has no end token (eos_token).")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if not tokenizer.chat_template:
        tokenizer.chat_template = TEMPLATE
    return tokenizer


def load_policy(folder: Path | str) -> PreTrainedModel:
    """Load a model that writes. Raises WeightsError."""
    model: PreTrainedModel = _load(AutoModelForCausalLM, folder, dtype=DTYPE).to(DEVICE)
    return model


def load_reward_model(folder: Path | str) -> PreTrainedModel:
    """Load a trained reward model. Raises WeightsError, also where it has no head that scores."""
    model: PreTrainedModel
    model, report = _load(
        AutoModelForSequenceClassification, folder, dtype=DTYPE, output_loading_info=True
    )
    if model.config.num_labels != 1 or report["missing_keys"]:
        raise WeightsError(f"{folder} is not a reward model: it has no head that gives one score.")
    return model.to(DEVICE)


def new_reward_model(folder: Path | str, seed: int, padding: int | None) -> PreTrainedModel:
    """Load a model to train as a reward model; its head is new, and drawn by the seed."""
    set_seed(seed)
    kind = AutoModelForSequenceClassification
    model: PreTrainedModel = _load(kind, folder, dtype=DTYPE, num_labels=1).to(DEVICE)
    model.config.pad_token_id = padding
    return model


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Save a whole model with its tokenizer in a new folder, and wait until the disk has it."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in (*folder.iterdir(), folder):
        sync(path)


def prompt_text(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    """Format a prompt as the one message of a conversation, up to where the model answers."""
    asked = [{"role": "user", "content": prompt}]
    return str(tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True))


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Tokenize a text that has all its special tokens already."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


TextOf = Callable[[PreTrainedTokenizerBase, str], str]


def pair_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: str, reflection: str, text_of: TextOf = prompt_text
) -> list[int]:
    """Tokenize a prompt and a reflection, with the end token after it."""
    return [
        *token_ids(tokenizer, text_of(tokenizer, prompt)),
        *token_ids(tokenizer, reflection),
        tokenizer.eos_token_id,
    ]


def score(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    text_of: TextOf = prompt_text,
) -> list[float | None]:
    """Score prompts with a reflection each, by their ends if too long; None is no number."""
    rows = [pair_ids(tokenizer, *pair, text_of)[-longest(model) :] for pair in pairs]
    size = batch_size(model, max(map(len, rows), default=1))
    batches = (rows[start : start + size] for start in range(0, len(rows), size))
    training, scores = model.training, list[float]()
    model.eval()
    with torch.inference_mode():
        for batch in batches:
            padding = tokenizer.pad_token_id
            ids = pad_sequence([torch.tensor(row) for row in batch], True, padding)
            mask = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in batch], True)
            given = {"input_ids": ids, "attention_mask": mask}
            logits = model(**{name: rows.to(model.device) for name, rows in given.items()}).logits
            scores += logits[:, 0].float().tolist()
    model.train(training)
    return [number if math.isfinite(number) else None for number in scores]


def longest(model: PreTrainedModel) -> int:
    """Tell how many tokens a model reads at most."""
    return int(getattr(model.config, "max_position_embeddings", None) or LONGEST)


def batch_size(model: PreTrainedModel, tokens: int) -> int:
    """Tell how many rows of so many tokens fit the memory, as a power of two.

    All memory counts, not what is free: after a worker is lost the answer has to be the same.
    """
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(model.device).total_memory
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    config = model.config
    # Of each token: what each layer keeps for the gradient, and the logits with theirs, in bytes.
    each = 68 * config.hidden_size * config.num_hidden_layers + 12 * config.vocab_size
    rows = memory // 4 // (each * max(tokens, 1))
    return int(min(MOST_ROWS, 1 << max(rows, 1).bit_length() - 1))


def _load(kind: Any, folder: Path | str, **given: Any) -> Any:
    """Load from a folder or from the hub, and say in one line why that is not possible.

    No code that comes with a model runs, and no weights are unpickled, which would run code.
    """
    safe = {} if kind is AutoTokenizer else {"use_safetensors": True}
    # An adapter in the folder would be unpickled all the same. A process loads one at a time.
    unpickle, torch.load = torch.load, _refuse
    try:
        return kind.from_pretrained(str(folder), trust_remote_code=False, **safe, **given)
    except Exception as error:  # libraries raise anything for a file that they can't read
        reason = f"{str(error) or type(error).__name__}".strip().splitlines()[0][:300]
        line = f"{folder} can't be loaded: {reason}"
        # The hub may answer later; a folder that can't be read, and a name it does not know, won't.
        if isinstance(error, OSError) and not (
            Path(folder).is_dir()
            or "not a valid model identifier" in reason
            or "does not appear to have a file" in reason
            or "Repo id must" in reason
        ):
            raise OSError(line) from error
        raise WeightsError(line) from error
    finally:
        torch.load = unpickle


def _refuse(*_: object, **__: object) -> None:
    raise ValueError("its weights are pickled, and only safetensors are loaded")
