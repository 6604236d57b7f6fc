"""Load and save models as folders, and score reflections with a reward model.

A model is any folder, GGUF file or name that Hugging Face's Transformers can load, or an adapter of
one. It runs on the GPU if there is one (in bf16), otherwise on one thread. A reward model's texts
are tokenized by one function, `pair_ids`, so that it trains on and scores the same end token.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from activities.training import artifacts
from activities.training.artifacts import TrainingError

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "spiece.model", "vocab.json",
    "vocab.txt", "tekken.json",
)  # fmt: skip
# For a base model, which was not made for conversations.
TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
)
ADAPTER_WEIGHTS = "adapter_model.safetensors"
MOST_ROWS = 32
# The longest row if the model's config does not name it.
LONGEST = 4_096

DEVICE, DTYPE = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)

# PyTorch prefers cuDNN's attention on Hopper GPUs. Where all scores of a token are very low, as for
# padding before a text, its gradients are NaN in rows of 64 tokens, 192, 320 and so on:
# https://github.com/pytorch/pytorch/issues/196678
torch.backends.cuda.enable_cudnn_sdp(False)
if DEVICE == "cpu":
    # Threads that contend for two cores take 20 times as long.
    torch.set_num_threads(1)


class WeightsError(TrainingError):
    """The name can't be used as a model, now or later; the message says why in one line."""


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


def load_policy(folder: Path | str, dtype: torch.dtype = DTYPE) -> PreTrainedModel:
    """Load a model that writes; in float32 an adapter is merged. Raises WeightsError."""
    model: PreTrainedModel
    base = base_of(folder)
    if base and _adapter_config(folder).get("task_type") == "SEQ_CLS":
        raise WeightsError(f"{folder} is a reward model, which scores and does not write.")
    model = _load(AutoModelForCausalLM, base or folder, dtype=dtype)
    return (_adapted(model, folder) if base else model).to(DEVICE)


def load_shape(folder: Path | str) -> PreTrainedModel:
    """Build a model that writes, with no weights. Raises WeightsError."""
    config = _load(AutoConfig, folder)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def load_reward_model(folder: Path | str) -> PreTrainedModel:
    """Load a trained reward model. Raises WeightsError, also if it has no head that scores."""
    model: PreTrainedModel
    kind, base = AutoModelForSequenceClassification, base_of(folder)
    if base:
        model = _load(kind, base, dtype=DTYPE, num_labels=1)
        model.config.pad_token_id = load_tokenizer(folder).pad_token_id
        model = _adapted(model, folder)
        missing = _adapter_config(folder).get("task_type") != "SEQ_CLS"
    else:
        model, report = _load(kind, folder, dtype=DTYPE, output_loading_info=True)
        missing = bool(report["missing_keys"])
    if model.config.num_labels != 1 or missing:
        raise WeightsError(f"{folder} is not a reward model: it has no head that gives one score.")
    return model.to(DEVICE)


def base_of(folder: Path | str) -> str | None:
    """Return the base of an adapter, as a path or a name; None for a whole model.

    Raises WeightsError.
    """
    config = Path(folder, artifacts.ADAPTER)
    if not config.is_file():
        return None
    # By itself PEFT looks for missing weights on the hub, and for pickled ones.
    if not Path(folder, ADAPTER_WEIGHTS).is_file():
        raise WeightsError(f"{folder} can't be loaded: it has no {ADAPTER_WEIGHTS}.")
    named = _adapter_config(folder).get("base_model_name_or_path")
    if not isinstance(named, str):
        raise WeightsError(f"{config} does not say which model the adapter is for.")
    beside = Path(folder, named)
    return str(beside.resolve()) if beside.exists() else named


def fingerprint(name: Path | str) -> str:
    """Hash the weights of a whole model, by which its adapters know it; empty if none are here."""
    place = _place(name)
    if not place.exists():
        # One of the hub, whose files Transformers has fetched.
        place = Path(try_to_load_from_cache(str(name), "config.json") or place).parent
    files = [place] if place.is_file() else sorted(place.glob("*.safetensors"))
    return artifacts.hash_of(files) if files else ""


def merged(model: PreTrainedModel) -> PreTrainedModel:
    """Add an adapter to its model's weights, if there is one."""
    return model.merge_and_unload() if isinstance(model, PeftModel) else model


def moved(adapted: PeftModel) -> bool:
    """Tell whether training moved any weight of an adapter that a model was given."""
    return any(
        bool(weights.any()) for name, weights in adapted.named_parameters() if "lora_B" in name
    )


def _adapted(model: PreTrainedModel, folder: Path | str) -> PreTrainedModel:
    """Give a model its adapter; do not merge it in bf16, which would round most of it away.

    Raises WeightsError if the base is not the one that the adapter was trained on.
    """
    with _explained(folder):
        adapted = PeftModel.from_pretrained(model, str(folder))
        done = Path(folder, artifacts.DONE)
        expected = done.exists() and json.loads(done.read_bytes())["result"]["base_sha256"]
    base = base_of(folder) or ""
    if expected and expected != fingerprint(base):
        raise WeightsError(f"{folder} was trained on other weights than {base} has now.")
    return merged(adapted) if adapted.dtype == torch.float32 else adapted


def _adapter_config(folder: Path | str) -> dict[str, Any]:
    with _explained(folder):
        return dict(json.loads(Path(folder, artifacts.ADAPTER).read_bytes()))


def new_reward_model(folder: Path | str, seed: int, padding: int | None) -> PreTrainedModel:
    """Load a model to train as a reward model; its head is new, and drawn by the seed."""
    set_seed(seed)
    kind = AutoModelForSequenceClassification
    model: PreTrainedModel = _load(kind, folder, dtype=DTYPE, num_labels=1).to(DEVICE)
    model.config.pad_token_id = padding
    return model


def save_adapter(
    model: PeftModel, tokenizer: PreTrainedTokenizerBase, folder: Path, base: str
) -> None:
    """Save an adapter with this name of its base; see `save`."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base
    save(model, tokenizer, folder, save_embedding_layers=False)


def save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **given: object
) -> None:
    """Save a model with its tokenizer in a new folder, and wait until it is on the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **given)
    tokenizer.save_pretrained(folder)
    for path in (*folder.iterdir(), folder):
        # Only the owner can read new weights, and the worker that serves may be another user.
        if path.is_file():
            path.chmod(folder.stat().st_mode & 0o666)
        artifacts.sync(path)


def prompt_text(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    """Format a prompt as the one message of a conversation, up to where the model answers."""
    asked = [{"role": "user", "content": prompt}]
    return str(tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True))


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Tokenize a text that already has all its special tokens."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Tokenize a prompt as the one message of a conversation."""
    return token_ids(tokenizer, prompt_text(tokenizer, prompt))


TextOf = Callable[[PreTrainedTokenizerBase, str], str]


def pair_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: str, reflection: str, text_of: TextOf = prompt_text
) -> list[int]:
    """Tokenize a prompt and a reflection, with the end token after it."""
    begun = token_ids(tokenizer, text_of(tokenizer, prompt))
    return [*begun, *token_ids(tokenizer, reflection), tokenizer.eos_token_id]


def score(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    text_of: TextOf = prompt_text,
) -> list[float | None]:
    """Score pairs of prompt and reflection, cut at the start if too long; None: not a number."""
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
    """Return the most tokens that a model reads."""
    return int(getattr(model.config, "max_position_embeddings", None) or LONGEST)


def batch_size(model: PreTrainedModel, tokens: int) -> int:
    """Return how many rows of so many tokens fit the memory, as a power of two.

    Count all memory, not only the free: after a worker is lost the result has to be the same.
    """
    rows = memory() // 4 // (token_bytes(model) * max(tokens, 1))
    return int(min(MOST_ROWS, 1 << max(rows, 1).bit_length() - 1))


def memory() -> int:
    """Return the bytes of memory for models: the GPU's, if there is one."""
    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def token_bytes(model: PreTrainedModel, *, gpu: bool = DEVICE == "cuda") -> int:
    """Estimate the bytes that training holds for a token: layers and logits, with their gradients.

    On a GPU only each layer's input is kept, and one layer at a time is computed again. Logits are
    held eleven times, in float32: measured for KTO by `bench.large_model`.
    """
    config = model.config
    layers, kept = config.num_hidden_layers, 2 * config.hidden_size
    of_layers = 34 * kept + kept * layers if gpu else 34 * kept * layers
    return int(of_layers + 44 * config.vocab_size)


def _load(kind: Any, folder: Path | str, **given: Any) -> Any:
    """Load from a folder, a GGUF file or the hub, or say in one line why that is not possible.

    A model's own code does not run, and weights are not unpickled, which would run code.
    """
    place = _place(folder)
    if place.suffix == artifacts.GGUF:
        given["gguf_file"] = place.name
        place = place.parent
    elif kind not in (AutoTokenizer, AutoConfig):
        given["use_safetensors"] = True
    with _explained(folder):
        loaded = kind.from_pretrained(str(place), trust_remote_code=False, **given)
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    if "gguf_file" in given and isinstance(model, PreTrainedModel):
        # Its weights are plain numbers by now; trainers would refuse a model marked as quantized.
        model.is_quantized, model.hf_quantizer = False, None
    return loaded


def _place(name: Path | str) -> Path:
    return artifacts.toy_weights() if str(name) == artifacts.TOY else Path(name)


@contextmanager
def _explained(folder: Path | str) -> Iterator[None]:
    """Say in one line why a model can't be loaded, and prevent unpickling meanwhile."""
    # Transformers would still unpickle an adapter in the folder. A process loads one at a time.
    unpickle, torch.load = torch.load, _refuse
    try:
        yield
    except Exception as error:  # libraries raise anything for a file that they can't read
        reason = f"{str(error) or type(error).__name__}".strip().splitlines()[0][:300]
        line = f"{folder} can't be loaded: {reason}"
        # The hub may answer later; an unreadable folder or an unknown name fails for good.
        if isinstance(error, OSError) and not (
            Path(folder).exists()
            or "not a valid model identifier" in reason
            or "does not appear to have a file" in reason
            or "Repo id must" in reason
        ):
            raise OSError(line) from error
        raise WeightsError(line) from error
    finally:
        torch.load = unpickle


def _refuse(*_: object, **__: object) -> None:
    raise ValueError("its weights are pickled, but only safetensors can be loaded")
