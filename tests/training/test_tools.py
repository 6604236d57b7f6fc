"""What a training leaves, moved and merged; and what it would need, before it is begun."""

import json
import os
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

from activities.training.artifacts import TrainingError
from activities.training.tools import merge, needed
from activities.training.weights import (
    WeightsError,
    fingerprint,
    load_policy,
    load_shape,
    token_bytes,
)
from tests import forks
from tests.training.stages import RUN, artifacts, outcome, task


@pytest.fixture(scope="module")
def root(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose reflector is tuned."""
    made = artifacts(tmp_path_factory.mktemp("tools") / "artifacts", base)
    outcome(made, task("reflector", "dpo"))
    return made


def mull(root: Path | str, *words: str) -> CompletedProcess[str]:
    known = {**os.environ, "MULL_ARTIFACTS": str(root)}
    return forks.run("starter.py", "train", *words, environment=known)


def test_a_whole_model_is_written(root: Path, tmp_path: Path) -> None:
    """In float32, so that no step is rounded away; it writes as the adapter does on its base."""
    done = mull(root, "merge", RUN, str(tmp_path / "whole"))

    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'whole'}\n")
    assert done.stderr.splitlines() == [f"Writing 0.0 GB to {tmp_path / 'whole'} ..."]
    whole, adapted = load_policy(tmp_path / "whole"), load_policy(root / RUN / "reflector")
    base = load_policy(root / "base")
    name = "model.layers.0.self_attn.q_proj.weight"
    weights = [model.state_dict()[name] for model in (whole, adapted, base)]
    assert weights[0].dtype == torch.float32
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("run", "said"),
    [("nobody", "There is no tuned reflector nobody in"), ("base", "There is no tuned reflector")],
)
def test_what_is_no_adapter_is_not_merged(root: Path, tmp_path: Path, run: str, said: str) -> None:
    """Nothing is written."""
    with pytest.raises(TrainingError, match=said):
        merge(root, run, tmp_path / "whole")

    assert not (tmp_path / "whole").exists()


def test_a_reward_model_is_not_merged(root: Path, tmp_path: Path) -> None:
    """It does not write. What can't be merged is said in one line."""
    outcome(root, task())

    done = mull(root, "merge", f"{RUN}/reward_model", str(tmp_path / "whole"))

    assert (done.returncode, done.stdout) == (1, "")
    assert "is a reward model, which scores and does not write" in done.stderr.splitlines()[-1]
    assert [*tmp_path.glob("whole*")] == []


def test_nothing_is_written_over(root: Path, tmp_path: Path) -> None:
    """A folder that is there already stays as it is."""
    with pytest.raises(TrainingError, match="already exists"):
        merge(root, RUN, tmp_path)


def test_an_adapter_is_for_the_base_that_it_was_trained_on(root: Path, base: Path) -> None:
    """It says so by a hash, and is not loaded on other weights of the same name."""
    done = json.loads((root / RUN / "reflector" / "done.json").read_text())["result"]
    assert done["base_sha256"] == fingerprint(base)
    assert len(done["data_sha256"]) == 64

    weights = root / "base" / "model.safetensors"
    before = weights.read_bytes()
    try:
        weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with pytest.raises(WeightsError, match="was trained on other weights than"):
            load_policy(root / RUN / "reflector")
    finally:
        weights.write_bytes(before)


def test_what_a_training_needs(root: Path) -> None:
    """PPO holds three models and RLOO two; more rows at once need more, and a GPU about half."""
    model = load_shape(root / "base")

    def of(method: str, rows: int, *, gpu: bool = False) -> int:
        return needed(task("reflector", method, rows_at_once=rows), model, 1_000, gpu=gpu)[0]

    row = 1_000 * token_bytes(model, gpu=False)
    # A pair has two texts.
    held = [of("dpo", 1) - 2 * row, of("rloo", 1) - row, of("ppo", 1) - row]
    assert held[0] > 4 * load_policy(root / "base").num_parameters()
    assert held == [held[0], 2 * held[0], 3 * held[0]]
    assert of("rloo", 3) - of("rloo", 1) == 2 * row
    assert of("rloo", 1, gpu=True) < of("rloo", 1)


def test_an_estimate_starts_nothing(root: Path, tmp_path: Path) -> None:
    """It needs no server."""
    (tmp_path / "tasks.txt").write_text("a\nb\n")

    done = mull(
        root, "--env", "mine", "--tasks", str(tmp_path / "tasks.txt"), "--base-model", "base",
        "--reflector", "hosted_vllm/base", "--method", "rloo", "--step-limit", "5", "--estimate",
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    # Two tasks, three rollouts each, of three episodes and two reflections.
    assert "to collect: at most 102 calls of models" in done.stdout
    assert "base: 0.1 million parameters" in done.stdout
    assert "to measure" not in done.stdout
    needs = (
        r"reflector: 0\.\d GB on a GPU, 1\.\d GB on a CPU, with \d+ rows of 1,000 tokens at once"
    )
    assert re.search(needs, done.stdout)


def test_an_estimate_counts_the_measuring(tmp_path: Path) -> None:
    """Of the tasks held out, and once more for the control, also where no models are."""
    (tmp_path / "tasks.txt").write_text("".join(f"{number}\n" for number in range(60)))

    done = mull(
        "", "--env", "mine", "--tasks", str(tmp_path / "tasks.txt"), "--base-model", "base",
        "--reflector", "reflector/base", "--tuned", "reflector/first", "--id", "first", "--control",
        "--step-limit", "1", "--estimate",
    )  # fmt: skip

    assert "to collect: at most 900 calls of models" in done.stdout
    assert "to measure: at most 360 calls of models" in done.stdout


def test_a_7b_fits_one_gpu(tmp_path: Path) -> None:
    """By what is known of Qwen2.5-7B: PPO with two rows of 1,000 tokens, in 80 GB."""
    config = {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text(json.dumps(config))
    model = load_shape(tmp_path / "qwen")

    most, _ = needed(task("reflector", "ppo", rows_at_once=2), model, 1_000, gpu=True)

    assert 7.5e9 < model.num_parameters() < 7.7e9
    assert 45e9 < most < 80e9
