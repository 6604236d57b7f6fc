"""Stages in processes that are killed, whose checkpoints are damaged, and whose disk is full."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

from activities.training.artifacts import run_folder, write_manifest
from tests.patience import PATIENCE
from tests.training import stages
from tests.training.serving import Trap
from tests.training.stages import RUN, artifacts, lines, outcome, start, task, weights


@pytest.fixture(scope="module")
def rewarded(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts with a reward model, which was trained without a break."""
    root = artifacts(tmp_path_factory.mktemp("rewarded") / "root", base)
    assert outcome(root, task())["done"]["resumed_at"] == []
    return root


def copied(root: Path, folder: Path) -> Path:
    """Copy artifacts, so that a test can spoil them."""
    return Path(shutil.copytree(root, folder / "root"))


def test_killed_reward_model_resumes_exactly(base: Path, rewarded: Path, tmp_path: Path) -> None:
    """A reward model whose process was killed goes on, to the same weights bit by bit."""
    root = artifacts(tmp_path / "root", base)

    lines(start(root, task()), lambda line: line["step"] == 6)
    done = outcome(root, task())["done"]

    assert len(done["resumed_at"]) == 1
    assert 0 < done["resumed_at"][0] <= 6
    assert done["anew"] == 0
    assert weights(root, "reward_model") == weights(rewarded, "reward_model")


@pytest.mark.parametrize(
    ("method", "given", "at", "ended"),
    [
        ("dpo", {}, 6, (1, 0)),
        ("kto", {}, 6, (1, 0)),
        ("rloo", {}, 6, (1, 0)),
        # It can't go on: it begins anew from its input, and counts it.
        ("ppo", {"epochs": 2.0}, 3, (0, 1)),
    ],
)
def test_killed_reflector_resumes_exactly(
    method: str,
    given: dict[str, float],
    at: int,
    ended: tuple[int, int],
    rewarded: Path,
    tmp_path: Path,
) -> None:
    """A reflector whose process was killed comes to the same weights bit by bit."""
    asked = task("reflector", method, **given)
    unbroken, root = copied(rewarded, tmp_path / "one"), copied(rewarded, tmp_path / "two")

    outcome(unbroken, asked)
    lines(start(root, asked), lambda line: line["step"] == at)
    done = outcome(root, asked)["done"]

    assert (len(done["resumed_at"]), done["anew"]) == ended
    assert weights(root, "reflector") == weights(unbroken, "reflector")


def test_done_is_returned_without_training(rewarded: Path, tmp_path: Path) -> None:
    """Whoever asks again for a stage that is done is given its result, and no step is taken."""
    root = copied(rewarded, tmp_path)

    first = lines(start(root, task()), lambda line: "done" in line)

    assert [list(line) for line in first] == [["done"]]


def test_other_task_trains_anew(rewarded: Path, tmp_path: Path) -> None:
    """A result is only of the task that it was made for: another seed is another model."""
    root = copied(rewarded, tmp_path)

    done = outcome(root, task(seed=2, epochs=1.0))["done"]

    assert done["anew"] == 0
    assert weights(root, "reward_model") != weights(rewarded, "reward_model")


def test_damaged_checkpoint_is_passed_over(base: Path, rewarded: Path, tmp_path: Path) -> None:
    """A checkpoint that is not as it was written is passed over, and one line says so."""
    root = artifacts(tmp_path / "root", base)
    lines(start(root, task()), lambda line: line["step"] == 8)
    part = run_folder(root, RUN) / "reward_model.part"
    newest, before = sorted(
        (int(path.parent.name.split("-")[1]) for path in part.glob("*/manifest.json")), reverse=True
    )[:2]
    damaged = part / f"checkpoint-{newest}" / "adapter_model.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)

    done = outcome(root, task())["done"]

    assert done["resumed_at"] == [before]
    assert f"Checkpoint {newest} was damaged or not finished: it was not used." in done["warnings"]
    assert weights(root, "reward_model") == weights(rewarded, "reward_model")


def test_checkpoint_that_is_a_trap_is_refused(base: Path, tmp_path: Path) -> None:
    """A file that was replaced, with its manifest, is not run: one line names its folder."""
    root = artifacts(tmp_path / "root", base)
    lines(start(root, task()), lambda line: line["step"] == 8)
    part = run_folder(root, RUN) / "reward_model.part"
    for manifest in part.glob("*/manifest.json"):
        (manifest.parent / "optimizer.pt").write_bytes(pickle.dumps(Trap(tmp_path / "trap")))
        write_manifest(manifest.parent)

    error = outcome(root, task())["error"]

    assert f"{part}/checkpoint-" in error["message"]
    assert "can't be unpickled: remove that folder" in error["message"]
    assert error["permanent"]
    assert not (tmp_path / "trap").exists()


def test_full_disk_is_one_clear_line(base: Path, tmp_path: Path) -> None:
    """A full disk is said in one line, can be tried again, and leaves nothing that seems done."""
    root = artifacts(tmp_path / "root", base)

    error = lines(start(root, task(), file_bytes=100_000))[-1]["error"]

    assert str(root) in error["message"]
    assert "disk" in error["message"]
    assert "\n" not in error["message"]
    assert not error["permanent"]
    assert not (run_folder(root, RUN) / "reward_model").exists()
    assert "done" in outcome(root, task())


def test_end_of_worker_ends_training(base: Path, tmp_path: Path) -> None:
    """A process whose standard input ends, as when its worker dies, ends at once."""
    root = artifacts(tmp_path / "root", base)
    stage = start(root, task(epochs=1_000.0))
    assert "step" in json.loads(stage.stdout.readline())

    stage.stdin.close()
    stage.process.join(PATIENCE)

    assert stage.process.exitcode == 1
    stage.stdout.close()


def test_two_at_once_train_once(base: Path, tmp_path: Path) -> None:
    """A late first attempt and its retry never train together: the second waits for the result."""
    root = artifacts(tmp_path / "root", base)

    first, second = start(root, task()), start(root, task())
    said = [lines(first), lines(second)]

    assert sorted(any("step" in line for line in each) for each in said) == [False, True]
    assert said[0][-1] == said[1][-1]


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("../base", "../base is neither a folder in"),
        ("/etc", "/etc is neither a folder in"),
        ("bare", "has no tokenizer: save the model's tokenizer there too."),
        ("empty", "has no tokenizer"),
    ],
)
def test_unusable_model_is_final(model: str, line: str, base: Path, tmp_path: Path) -> None:
    """A model that can't be used is one clear line, and is not tried again."""
    root = artifacts(tmp_path / "root", base)
    (root / "empty").mkdir()
    (root / "bare").mkdir()
    shutil.copy(base / "config.json", root / "bare")
    shutil.copy(base / "model.safetensors", root / "bare")

    error = outcome(root, task(model=model))["error"]

    assert line in error["message"]
    assert "\n" not in error["message"]
    assert error["permanent"]


def test_attempts_are_counted_before_the_end(base: Path, tmp_path: Path) -> None:
    """How often a stage was resumed is written down as it is, so that a later kill loses none."""
    root = artifacts(tmp_path / "root", base)

    for step in (3, 6):
        lines(start(root, task()), lambda line, step=step: line["step"] == step)  # type: ignore[misc]

    assert len(stages.attempts(root, "reward_model").resumed_at) == 1
