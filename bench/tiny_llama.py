"""A Llama of two layers, made here: it writes a good reflection about as often as a bad one.

It is for tests and benchmarks of training without a download. Its tokenizer reads any text; it was
taught to answer any prompt with one of 64 reflections. Needs the extra
`train`.
"""

import random
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import compress, product
from pathlib import Path
from typing import Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from activities.training.weights import (
    TEMPLATE,
    load_policy,
    load_tokenizer,
    pair_ids,
    prompt_text,
    save,
    token_ids,
)
from mull.agents.memory import TrainItem
from mull.agents.rating import RatedPair

GOOD, BAD = ("Read", "Check"), ("Guess", "Skip")
WHAT = ("the label", "each key", "the note", "every door")
WHEN = ("next time", "from now on", "at once", "before you act")
COLOURS = ("red", "blue", "green", "black", "white", "brown", "grey", "pink")
THINGS = ("door", "chest", "gate", "drawer", "safe", "box", "locker", "case")
# Without these a reward model takes any text without the verbs of bad ones for good.
LACKING = 0.4
# Pairs whose gains are turned: none; every other one of those with the same verbs; or half of all,
# drawn by the seed, which leaves a signal by chance.
Turned = Literal["none", "every other", "random half"]
VOCABULARY = 512
SPECIAL = {"pad_token": "<pad>", "eos_token": "<end>"}
# The label that Transformers ignores.
IGNORED = -100
STEPS, ROWS, LEARNING_RATE = 200, 32, 3e-3


def is_good(reflection: str) -> bool:
    """Judge by the benchmark's rule, which a reward model has to find."""
    return reflection.startswith(GOOD)


def prompts(count: int) -> list[str]:
    """List prompts, one for each task."""
    places = list(product(COLOURS, THINGS))
    return [
        f"Task {number}: open the {colour} {thing}. The key did not fit. Reflection:"
        for number, (colour, thing) in enumerate((places * (count // len(places) + 1))[:count])
    ]


def rated_pairs(
    count: int, seed: int, *, turned: Turned = "none", held_out: Collection[int] = ()
) -> list[RatedPair]:
    """Make a replay buffer: good reflections gain 1, bad ones 0; or half are turned.

    `every other` is of those `held_out`, by their numbers, and of the rest alike: of pairs that
    begin with the same words, at most one more keeps its gains than is turned.
    """
    drawn = random.Random(seed)
    half = set(drawn.sample(range(count), count // 2)) if turned == "random half" else set[int]()
    seen, made = Counter[tuple[bool, frozenset[str]]](), list[RatedPair]()
    for number, prompt in enumerate(prompts(count)):
        kinds = [GOOD, BAD]
        drawn.shuffle(kinds)
        reflections = [_reflection(drawn, kind) for kind in kinds]
        gains = [float(is_good(text)) for text in reflections]
        held = number in held_out
        alike = (held, frozenset(text.partition(" ")[0] for text in reflections))
        if number in half or (turned == "every other" and seen[alike] % 2):
            gains.reverse()
        seen[alike] += 1
        made.append(
            RatedPair(
                environment="keys",
                task=f"task-{number}",
                environment_seed=0,
                rollout=1,
                held_out=held,
                first_return=0.0,
                tried=tuple(
                    TrainItem(prompt=prompt, reflection=text, rewards=gain)
                    for text, gain in zip(reflections, gains, strict=True)
                ),
                planner=None,
                reflector=None,
                temperature=0.9,
                workflow_id=f"made-{number}",
                run_id="made",
            )
        )
    return made


def _reflection(drawn: random.Random, verbs: tuple[str, ...]) -> str:
    """Draw a reflection; some of the bad ones have no verb, as a model that fails may write."""
    verb = "" if verbs is BAD and drawn.random() < LACKING else f"{drawn.choice(verbs)} "
    return f"{verb}{drawn.choice(WHAT)} {drawn.choice(WHEN)}."


def share_good(folder: Path, count: int, seed: int = 0) -> float:
    """Sample reflections at temperature 0.9, and return the share of good ones."""
    tokenizer, model = load_tokenizer(folder), load_policy(folder)
    tokenizer.padding_side = "left"
    asked = [prompt_text(tokenizer, prompt) for prompt in prompts(count)]
    rows = tokenizer(asked, add_special_tokens=False, padding=True, return_tensors="pt")
    torch.manual_seed(seed)
    written = model.eval().generate(
        **rows.to(model.device), do_sample=True, temperature=0.9, top_k=0, max_new_tokens=40
    )
    answers = written[:, rows["input_ids"].shape[1] :]
    ended = (answers == tokenizer.eos_token_id).any(dim=1).tolist()
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    return sum(map(is_good, compress(texts, ended))) / count


def build(folder: Path, seed: int = 0, asked: Sequence[str] = (), batch: int = ROWS) -> None:
    """Make the model and teach it to answer what it is `asked`; takes some seconds on one core.

    Of long prompts a smaller `batch` is enough.
    """
    asked = asked or prompts(64)
    torch.manual_seed(seed)
    drawn = random.Random(seed)
    reflections = [f"{verb} {what} {when}." for verb, what, when in product(GOOD + BAD, WHAT, WHEN)]
    tokenizer = _tokenizer([*asked, *reflections])
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=168,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=2_048,
        tie_word_embeddings=True,
        # Interchangeable words differ from the start, or an adapter could not tell them apart.
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    for _ in range(STEPS):
        pairs = [(drawn.choice(asked), drawn.choice(reflections)) for _ in range(batch)]
        rows = [torch.tensor(pair_ids(tokenizer, *pair)) for pair in pairs]
        ids = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
        labels = pad_sequence(rows, batch_first=True, padding_value=IGNORED)
        for row, (prompt, _) in zip(labels, pairs, strict=True):
            row[: len(token_ids(tokenizer, prompt_text(tokenizer, prompt)))] = IGNORED
        mask = ids != tokenizer.pad_token_id
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        slower.step()
    save(model, tokenizer, folder)


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, chat_template=TEMPLATE, **SPECIAL)
