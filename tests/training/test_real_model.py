"""A model that can speak: the toy's weights, of 135 million parameters, trained for a moment."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel

from activities.training.artifacts import TrainingError, resolve
from activities.training.job import RECIPES
from activities.training.weights import base_of, load_policy, load_tokenizer, prompt_ids
from bench.hints import is_right, puzzle, reflection_prompt
from mull.agents.rating import RatedPair
from tests.training.stages import artifacts, outcome, task
from tests.training.test_trainers import with_gains

PROMPT = reflection_prompt(puzzle("task-0"))


def pair() -> RatedPair:
    """Rate a right reflection and a wrong one."""
    made = with_gains(1.0, 0.0, (f"It is {puzzle('task-0').right}.", "I am a helpful assistant."))
    tried = tuple(item.model_copy(update={"prompt": PROMPT}) for item in made.tried)
    return made.model_copy(update={"tried": tried})


def test_the_toy_is_tuned(base: Path, tmp_path: Path) -> None:
    """By the defaults for its size; what is left is an adapter, which is loaded on the toy."""
    root = artifacts(tmp_path / "artifacts", base, [pair()])
    asked = task(
        "reflector", "dpo", model="toy", epochs=1, batch_size=None, learning_rate=None, seed=0
    )

    done = outcome(root, asked)["done"]

    recipe = RECIPES[1e9]["dpo"]._replace(epochs=1)
    assert done["settings"] == recipe._asdict() | {"rows_at_once": 1}
    folder = root / done["folder"]
    assert base_of(folder) == "toy"
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size < 40 << 20
    # In float64 the adapter is not merged, so one load has both models.
    tuned = load_policy(folder, torch.float64)
    assert isinstance(tuned, PeftModel)
    ids = torch.tensor([prompt_ids(load_tokenizer(folder), PROMPT)])
    with torch.inference_mode():
        after = tuned(ids).logits
        with tuned.disable_adapter():
            assert (tuned(ids).logits - after).abs().max() > 1e-4


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
