"""A model that can speak: the toy's weights, of 135 million parameters, trained for a moment."""

from pathlib import Path

import pytest
import torch

from activities.training.artifacts import TrainingError, resolve
from activities.training.job import RECIPES
from activities.training.weights import base_of, load_policy, load_tokenizer, prompt_text
from bench.hints import is_right, puzzle, reflection_prompt
from mull.agents.rating import RatedPair
from tests.training.stages import artifacts, outcome, task
from tests.training.test_trainers import with_gains

NAMES = [f"task-{number}" for number in range(4)]


def pairs() -> list[RatedPair]:
    """Of each task a right reflection and a wrong one."""
    made = list[RatedPair]()
    for name in NAMES:
        prompt, right = reflection_prompt(puzzle(name)), puzzle(name).right
        pair = with_gains(1.0, 0.0, (f"It is {right}.", "I am a helpful assistant."))
        tried = tuple(item.model_copy(update={"prompt": prompt}) for item in pair.tried)
        made.append(pair.model_copy(update={"task": name, "tried": tried}))
    return made


def test_the_toy_is_tuned(base: Path, tmp_path: Path) -> None:
    """By the defaults for its size; what is left is an adapter, which is loaded on the toy."""
    root = artifacts(tmp_path / "artifacts", base, pairs())
    asked = task(
        "reflector", "dpo", model="toy", epochs=1, batch_size=None, learning_rate=None, seed=0
    )

    done = outcome(root, asked)["done"]

    recipe = RECIPES[1e9]["dpo"]._replace(epochs=1)
    assert done["settings"] == recipe._asdict() | {"rows_at_once": 4}
    folder = root / done["folder"]
    assert base_of(folder) == "toy"
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size < 40 << 20
    tokenizer, toy, tuned = load_tokenizer(folder), load_policy("toy"), load_policy(folder)
    text = prompt_text(tokenizer, reflection_prompt(puzzle(NAMES[0])))
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    with torch.inference_mode():
        difference = (toy(ids).logits - tuned(ids).logits).abs().max()
    assert difference > 1e-4


def test_a_reflection_is_right_by_what_it_names() -> None:
    """The right thing and no other, whatever words are around it."""
    made = puzzle("other-1")
    wrong = next(thing for thing in made.things if thing != made.right)

    assert is_right(made, f"Next time ask {made.right}.")
    assert not is_right(made, f"Ask {made.right} or {wrong}.")
    assert not is_right(made, f"Ask {wrong}.")
    assert not is_right(made, "")


def test_no_two_tasks_are_alike() -> None:
    """What is held out was never learned from, and the others are of other answers besides."""
    tasks = [puzzle(f"task-{number}").told for number in range(75)]
    assert len({*tasks, *[puzzle(f"other-{number}").told for number in range(75)]}) == 150


def test_the_toy_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of that name comes first; where its weights are not there it is refused."""
    assert resolve(tmp_path, "toy") == "toy"
    monkeypatch.setattr("activities.language_model.toy_file.weights", lambda: None)
    with pytest.raises(TrainingError, match="toy's weights are not on this machine"):
        resolve(tmp_path, "toy")
    (tmp_path / "toy").mkdir()

    assert resolve(tmp_path, "toy") == str(tmp_path / "toy")


def test_an_adapter_is_no_base(tmp_path: Path) -> None:
    """What was tuned is a part of a model alone; it is refused before anything is collected."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "adapter_config.json").write_text("{}")

    with pytest.raises(TrainingError, match="first is an adapter"):
        resolve(tmp_path, "first")
