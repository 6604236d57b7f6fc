"""SmolLM2 as a reflector on the tasks of `bench.hints`: its texts, and how many are right."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from activities.training.weights import load_policy, load_tokenizer, prompt_text
from bench.hints import Puzzle, is_right, puzzle, reflection_prompt
from mull.agents.memory import TrainItem
from mull.agents.rating import RatedPair
from mull.agents.training_result import Measured

# At 0.3 a fifth of its reflections are right, at 0.9 one in 25: too few to learn from.
TEMPERATURE, MOST_TOKENS, ROWS = 0.3, 24, 40
TASKS = {name: puzzle(name) for name in (f"task-{number}" for number in range(50))}
OTHERS = [puzzle(f"other-{number}") for number in range(40)]
ROLLOUTS = 3


def write(
    folder: Path | str, tasks: Sequence[Puzzle], seed: int, temperature: float = TEMPERATURE
) -> list[str]:
    """Sample a reflection on each task; one without an end has no worth, and so is empty."""
    tokenizer, model = load_tokenizer(folder), load_policy(folder).eval()
    tokenizer.padding_side = "left"
    torch.manual_seed(seed)
    texts = list[str]()
    for place in range(0, len(tasks), ROWS):
        some = tasks[place : place + ROWS]
        asked = [prompt_text(tokenizer, reflection_prompt(task)) for task in some]
        rows = tokenizer(asked, add_special_tokens=False, padding=True, return_tensors="pt")
        with torch.inference_mode():
            made = model.generate(
                **rows.to(model.device),
                do_sample=True,
                temperature=temperature,
                top_k=0,
                max_new_tokens=MOST_TOKENS,
            )
        answers = made[:, rows["input_ids"].shape[1] :]
        ended = (answers == tokenizer.eos_token_id).any(dim=1).tolist()
        written = tokenizer.batch_decode(answers, skip_special_tokens=True)
        texts += [text if end else "" for text, end in zip(written, ended, strict=True)]
    return texts


def measure(
    folder: Path | str, tasks: Sequence[Puzzle], seed: int = 0, temperature: float = TEMPERATURE
) -> Measured:
    """Sample a reflection on each task, of which several may be the same, and rate them."""
    right = list(map(is_right, tasks, write(folder, tasks, seed, temperature)))
    by_task = dict[int, tuple[int, int]]()
    for task, good in zip(tasks, right, strict=True):
        counted, made = by_task.get(place := tasks.index(task), (0, 0))
        by_task[place] = counted + good, made + 1
    return Measured(made=len(right), reflections=len(right), good=sum(right), by_task=by_task)


def read(path: Path) -> list[Puzzle]:
    """Read tasks of a file: JSON Lines with the fields of a Puzzle."""
    return [Puzzle(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def rated_pairs(tasks: Mapping[str, Puzzle], rollouts: int, seed: int) -> list[RatedPair]:
    """Collect a replay buffer as rollouts would: two reflections on each failure, both tried."""
    names = list(tasks)
    texts = write("toy", [tasks[name] for name in names for _ in range(2 * rollouts)], seed)
    made = list[RatedPair]()
    for number in range(len(names) * rollouts):
        name = names[number // rollouts]
        both = texts[2 * number : 2 * number + 2]
        items = [
            TrainItem(
                prompt=reflection_prompt(tasks[name]),
                reflection=text,
                rewards=float(is_right(tasks[name], text)),
            )
            for text in both
        ]
        made.append(
            RatedPair(
                environment="hints",
                task=name,
                environment_seed=0,
                rollout=number % rollouts + 1,
                first_return=0.0,
                tried=tuple(items),
                planner=None,
                reflector=None,
                temperature=TEMPERATURE,
                workflow_id=f"made-{number}",
                run_id="made",
            )
        )
    return made
