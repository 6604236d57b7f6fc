"""What the trainers are given, and what would spoil a reflector if they were given it."""

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from activities.training import weights
from activities.training.artifacts import TrainingError, run_folder, write_buffer
from activities.training.job import RECIPES, Job, Steps, recipe, settings
from activities.training.trainers import Reward, train
from activities.training.weights import (
    TEMPLATE,
    WeightsError,
    base_of,
    batch_size,
    load_policy,
    load_reward_model,
    load_tokenizer,
    new_reward_model,
    pair_ids,
    prompt_text,
    save,
    score,
    token_bytes,
)
from bench.tiny_llama import prompts, rated_pairs
from mull.agents.rating import RatedPair
from mull.text import tally_words
from tests.training.stages import RUN, artifacts, outcome, task

# TRL's own use of what Transformers will remove, at each step; versions of both are pinned.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

KINDS = AutoTokenizer, AutoModelForCausalLM, AutoModelForSequenceClassification
PROMPT = prompts(1)[0]
GOOD, BAD = "Read the label next time.", "Skip the label next time."


def job(base: Path, work: Path, pairs: list[RatedPair], **given: object) -> Job:
    """Ask for a stage in this process."""
    return Job(task(**given), str(base), pairs, work)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def reward_model(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model that knows good reflections from bad ones."""
    work = tmp_path_factory.mktemp("reward")
    asked = job(base, work, rated_pairs(96, 0), epochs=6.0, learning_rate=3e-3)
    return Path(train(asked).folder)


@pytest.fixture
def reward(base: Path, reward_model: Path, tmp_path: Path) -> Reward:
    asked = job(base, tmp_path, [with_gains(1.0, 0.0)], stage="reflector", method="rloo")
    asked.reward_model = reward_model
    return Reward(asked)


def staged(method: str) -> dict[str, str]:
    """Name the stage that a method trains."""
    if method == "reward_model":
        return {"stage": method, "method": "ppo"}
    return {"stage": "reflector", "method": method}


def with_gains(first: float, second: float, texts: tuple[str, str] = (GOOD, BAD)) -> RatedPair:
    """Rate two reflections."""
    pair = rated_pairs(1, 0)[0]
    tried = tuple(
        item.model_copy(update={"reflection": text, "rewards": rewards})
        for item, text, rewards in zip(pair.tried, texts, (first, second), strict=True)
    )
    return pair.model_copy(update={"tried": tried})


@pytest.mark.parametrize(
    ("gigabytes", "tokens", "rows"),
    [(141, 64, 32), (141, 1_024, 2), (24, 1_024, 1), (24, 200, 2), (1, 4_096, 1)],
)
def test_a_gpu_is_used_as_its_memory_allows(
    gigabytes: int, tokens: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bf16, and of a batch as many rows at once as a quarter of all memory holds."""
    known = SimpleNamespace(total_memory=gigabytes * 10**9)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: known)
    # As large as a model of 1.5 billion parameters.
    config = SimpleNamespace(hidden_size=1_536, num_hidden_layers=28, vocab_size=151_936)
    model: Any = SimpleNamespace(
        device=torch.device("cuda"), config=config, num_parameters=lambda: 1.5e9
    )

    given = settings(job(tmp_path, tmp_path, [], batch_size=32), model, tokens, 100)

    assert (given["per_device_train_batch_size"], batch_size(model, tokens)) == (rows, rows)
    assert rows * given["gradient_accumulation_steps"] == 32
    assert (given["bf16"], given["use_cpu"]) == (True, False)


def test_reward_model_tells_good_from_bad(reward_model: Path) -> None:
    """A reward model that was trained and saved whole scores the better reflection higher."""
    model, tokenizer = load_reward_model(reward_model), load_tokenizer(reward_model)

    good, bad = score(model, tokenizer, [(PROMPT, GOOD), (PROMPT, BAD)])

    assert good is not None
    assert bad is not None
    assert good > bad + 1


def test_scored_as_trained(base: Path) -> None:
    """A row ends with the end token, and a score does not depend on the rows beside it."""
    tokenizer = load_tokenizer(base)
    model = new_reward_model(base, 3, tokenizer.pad_token_id).eval()
    row = pair_ids(tokenizer, PROMPT, GOOD)

    with torch.inference_mode():
        alone = model(input_ids=torch.tensor([row])).logits[0, 0].item()
    beside, _ = score(model, tokenizer, [(PROMPT, GOOD), (PROMPT, GOOD * 5)])

    assert row[-1] == tokenizer.eos_token_id
    assert beside == pytest.approx(alone, abs=1e-5)


def test_new_head_is_drawn_by_the_seed(base: Path) -> None:
    """The head of a new reward model depends on the seed alone."""
    first, again, other = (new_reward_model(base, seed, 0).score.weight for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    "answer",
    ["", "<end>", "  <end>", GOOD, f"{GOOD[:-1]}"],
    ids=["nothing", "empty", "blank", "no end", "cut short"],
)
def test_text_without_words_or_end_is_below_all(answer: str, reward: Reward, base: Path) -> None:
    """An empty text, or one that has no end, gets less than the worst reflection with an end."""
    tokenizer = load_tokenizer(base)
    answers = [
        tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in (answer, f"{GOOD}<end>", f"{BAD}<end><pad><pad>")
    ]

    spoiled, good, bad = reward([PROMPT] * 3, answers)

    assert spoiled < bad < good


def test_score_that_is_no_number_is_below_all(reward: Reward, base: Path) -> None:
    """A reward model that computes no number rewards nobody for it."""
    tokenizer = load_tokenizer(base)
    answer = tokenizer(f"{GOOD}<end>", add_special_tokens=False)["input_ids"]
    worst = reward([PROMPT], [[]])
    with torch.no_grad():
        reward.model.score.weight.fill_(math.nan)

    assert score(reward.model, tokenizer, [(PROMPT, GOOD)]) == [None]
    assert reward([PROMPT], [answer]) == worst


@pytest.mark.parametrize("method", ["ppo", "rloo"])
@pytest.mark.parametrize("count", [1, 3])
def test_fewer_prompts_than_a_batch_end(
    method: str, count: int, base: Path, reward_model: Path, tmp_path: Path
) -> None:
    """Fewer prompts than a batch are taken more than once, and training ends."""
    given = {**staged(method), "epochs": 1.0, "batch_size": 8}
    asked = job(base, tmp_path, rated_pairs(count, 0) * 2, **given)
    asked.reward_model = reward_model

    trained = train(asked)

    assert trained.steps >= 1
    assert trained.examples == count


@pytest.mark.parametrize("method", ["reward_model", "ppo", "rloo", "kto", "dpo"])
@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        ([], "The replay buffer is empty"),
        ([with_gains(1.0, 1.0), with_gains(0.0, 0.0)], "None of 2 rated pairs tells"),
        ([with_gains(1.0, 0.0, (GOOD, GOOD))], "None of 1 rated pairs tells"),
    ],
    ids=["empty", "equal gains", "equal texts"],
)
def test_nothing_to_learn_is_said(
    method: str, pairs: list[RatedPair], line: str, base: Path, tmp_path: Path
) -> None:
    """An empty buffer, and pairs that tell nothing, are refused in words by the reward model."""
    asked = job(base, tmp_path, pairs, **staged(method))
    if pairs and method in {"ppo", "rloo"}:
        pytest.skip("learns from a reward model")

    with pytest.raises(TrainingError, match=line):
        train(asked)


def test_kto_needs_both_labels(base: Path, tmp_path: Path) -> None:
    """KTO refuses reflections that are all good or all bad, as the source labels them."""
    given = {"stage": "reflector", "method": "kto", "pairing": "positive"}
    asked = job(base, tmp_path, [with_gains(0.0, 0.0)], **given)

    with pytest.raises(TrainingError, match="of 2 that can be labelled, in 1 rated pairs, 0 are"):
        train(asked)


@pytest.mark.parametrize("method", ["reward_model", "dpo", "kto"])
def test_one_pair_is_enough(method: str, base: Path, tmp_path: Path) -> None:
    """One pair is trained on, and a warning says how few that is."""
    asked = job(base, tmp_path, [with_gains(1.0, 0.0)], **staged(method))

    trained = train(asked)

    assert trained.steps == 4
    learned = f"The {asked.task.stage.replace('_', ' ')} learned from only"
    assert asked.warnings == [f"{learned} {tally_words(trained.examples, 'row')}."]


def test_ppo_without_a_reward_model_is_refused(base: Path, tmp_path: Path) -> None:
    """PPO and RLOO learn from the trained reward model alone."""
    asked = job(base, tmp_path, rated_pairs(4, 0), stage="reflector", method="rloo")

    with pytest.raises(TrainingError, match="needs the reward model"):
        train(asked)


def test_long_rows_are_left_out(base: Path, tmp_path: Path) -> None:
    """Rows above max_length are left out with a warning; where all are, training is refused."""
    pairs = [*rated_pairs(30, 0), with_gains(1.0, 0.0, (GOOD * 30, BAD))]
    asked = job(base, tmp_path, pairs, epochs=1.0, max_length=64)

    trained = train(asked)

    assert trained.examples == 30
    assert asked.warnings == [
        "1 of 31 rows are longer than 64 tokens and were left out of training."
    ]
    with pytest.raises(TrainingError, match="raise max_length"):
        train(job(base, tmp_path, pairs[-1:], max_length=16))


def test_log_is_the_trainers_and_thinned(base: Path, tmp_path: Path) -> None:
    """Each step is told as it happens; of the log at most 100 are kept."""
    told = list[dict[str, object]]()
    asked = job(base, tmp_path, rated_pairs(8, 0), epochs=120.0)
    asked.tell = told.append

    trained = train(asked)

    assert [(said["step"], said["of"]) for said in told] == [(step, 120) for step in range(1, 121)]
    assert all(said["values"] for said in told)
    assert len(trained.log) == 100
    assert (trained.log[0].step, trained.log[-1].step) == (1, 120)
    assert {"loss", "accuracy"} <= trained.log[0].values.keys()


@pytest.fixture
def plain(base: Path, tmp_path: Path) -> Path:
    """The tiny Llama as a base model: with no template, and no token to pad with."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template, tokenizer.pad_token = None, None
    save(load_policy(base), tokenizer, tmp_path / "plain")
    return tmp_path / "plain"


def test_base_model_gets_a_template_that_is_saved(plain: Path, tmp_path: Path) -> None:
    """What is served reads prompts as what was trained: the template is saved with the model."""
    trained = train(job(plain, tmp_path, rated_pairs(4, 0), epochs=1.0))

    saved = AutoTokenizer.from_pretrained(trained.folder)

    assert saved.chat_template == TEMPLATE
    assert saved.pad_token == saved.eos_token
    assert prompt_text(saved, PROMPT) == f"{PROMPT}\n"


def test_what_may_be_loaded_is_stated_at_each_load() -> None:
    """No code that comes with a model, no weights but safetensors, whatever the defaults are."""
    asked = list[tuple[Any, dict[str, Any]]]()

    def load(kind: Any, _: object, /, **given: Any) -> None:
        asked.append((kind, given))
        raise EOFError

    with pytest.MonkeyPatch.context() as patch:
        for kind in KINDS:
            patch.setattr(kind, "from_pretrained", classmethod(load))
        for loading in (load_tokenizer, load_policy, load_reward_model):
            with pytest.raises(WeightsError, match="can't be loaded: EOFError"):
                loading("some/model")
        with pytest.raises(WeightsError, match="can't be loaded: EOFError"):
            new_reward_model("some/model", 0, None)

    assert [given.pop("trust_remote_code") for _, given in asked] == [False] * 4
    safe = [given.get("use_safetensors", kind is AutoTokenizer) for kind, given in asked]
    assert safe == [True] * 4
    calls = [
        path.name
        for path in Path(weights.__file__).parent.glob("*.py")
        for _ in re.findall(r"\.from_pretrained\(", path.read_text("utf-8"))
    ]
    # Models and tokenizers by the one, adapters by the other.
    assert calls == ["weights.py"] * 2


@pytest.mark.parametrize("method", ["reward_model", "ppo", "rloo", "kto", "dpo"])
def test_an_adapter_is_saved(method: str, base: Path, reward_model: Path, tmp_path: Path) -> None:
    """It is a part of its base's size, names its base, and is loaded on it: another model then."""
    asked = job(base, tmp_path, rated_pairs(16, 0), **staged(method), epochs=1.0)
    asked.reward_model, asked.base = reward_model, "../base"
    (tmp_path / "base").symlink_to(base)

    folder = Path(train(asked).folder)

    assert not (folder / "model.safetensors").exists()
    # Whoever may read one file of it may read all.
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    assert base_of(folder) == str(base.resolve())
    kind, load = (
        (new_reward_model(base, 1, 0), load_reward_model)
        if method == "reward_model"
        else (load_policy(base), load_policy)
    )
    adapted = load(folder)
    assert adapted.num_parameters() == kind.num_parameters()
    name = "model.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(adapted.state_dict()[name], kind.state_dict()[name])


def test_dpo_makes_the_better_text_more_likely(base: Path, tmp_path: Path) -> None:
    """By its own loss alone it grows less likely, and with it that a text ends at all."""
    asked = job(base, tmp_path, rated_pairs(48, 0), stage="reflector", method="dpo", epochs=8.0)

    learned = train(asked).log[-1].values

    assert learned["rewards/chosen"] > 0 > learned["rewards/rejected"]


@pytest.mark.parametrize(
    ("parameters", "rates"), [(127_000, (5e-4, 1e-3)), (135e6, (1e-5, 1e-3)), (7e9, (1e-6, 1e-4))]
)
def test_settings_suit_the_size_of_the_model(
    parameters: float, rates: tuple[float, float], tmp_path: Path
) -> None:
    """By a table; what the request names comes first, and all that was used is told."""
    model: Any = SimpleNamespace(num_parameters=lambda: parameters)
    nothing = dict.fromkeys(("epochs", "learning_rate", "batch_size"))
    for method in ("ppo", "rloo", "kto", "dpo"):
        asked = job(tmp_path, tmp_path, [], stage="reflector", method=method, **nothing)
        least, most = rates
        assert least <= recipe(asked, model).learning_rate <= most
        assert recipe(asked, model).beta > 0
    asked = job(tmp_path, tmp_path, [], lora_rank=3, lora_alpha=5, beta=0.2, batch_size=7)

    assert recipe(asked, model)[2:] == (3, 5, 7, 0.2)


def test_what_was_used_is_told(base: Path, tmp_path: Path) -> None:
    """Also where the request names none of it."""
    asked = job(
        base, tmp_path, rated_pairs(24, 0), epochs=None, learning_rate=None, batch_size=None
    )

    assert train(asked).settings == RECIPES[1e7]["reward_model"]._asdict() | {"rows_at_once": 16}


def test_rows_at_once_are_those_of_before(base: Path, tmp_path: Path) -> None:
    """Whoever goes on computes as many at once as whoever began, whatever its memory is."""
    model = load_policy(base)
    asked = job(base, tmp_path, [], batch_size=8, rows_at_once=2)

    first = settings(asked, model, 64, 100)
    again = settings(job(base, tmp_path, [], batch_size=8, rows_at_once=4), model, 64, 100)

    assert first["per_device_train_batch_size"] == again["per_device_train_batch_size"] == 2
    assert first["gradient_accumulation_steps"] == 4


@pytest.mark.parametrize(("most", "at_once"), [(12, 8), (9, 8), (5, 4), (3, 2), (1, 1), (99, 16)])
def test_rows_at_once_leave_the_batch(base: Path, tmp_path: Path, most: int, at_once: int) -> None:
    """Whatever the bound is, a step learns from as many rows."""
    asked = job(base, tmp_path, [], batch_size=16, rows_at_once=most)

    found = settings(asked, load_policy(base), 64, 100)

    assert found["per_device_train_batch_size"] == at_once
    assert found["gradient_accumulation_steps"] * at_once == 16


def test_nothing_learns_from_what_is_held_out(base: Path, tmp_path: Path) -> None:
    """It tests the reward model alone, which says so where that is little."""
    root = artifacts(tmp_path / "root", base)
    pairs = [
        one.model_copy(update={"held_out": place % 4 == 0})
        for place, one in enumerate(rated_pairs(24, 0))
    ]
    write_buffer(run_folder(root, RUN), pairs)
    asked = task(), task("reflector", "dpo")
    [rewarding, tuning] = [outcome(root, one)["done"] for one in asked]

    assert (rewarding["examples"], rewarding["tested"]) == (18, 6)
    assert any("tested on only 6 pairs held out" in said for said in rewarding["warnings"])
    assert (tuning["examples"], tuning["tested"]) == (18, 0)


def test_too_little_memory_is_no_passing_trouble(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage ends, and says what to do: it would happen again."""

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("trl.RewardTrainer.train", full)

    with pytest.raises(TrainingError, match="train again with --rows-at-once 4, or a smaller"):
        train(job(base, tmp_path, rated_pairs(24, 0), batch_size=8))


def test_a_model_that_does_not_fit_is_no_passing_trouble(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU torch has no error of its own for it; any other error is as it was."""
    said = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 30 bytes"

    def full(*_: object, **__: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr("activities.training.weights.new_reward_model", full)

    with pytest.raises(TrainingError, match="reward_model: train again with a smaller --max"):
        train(job(base, tmp_path, rated_pairs(24, 0)))
    said = "shapes do not match"
    with pytest.raises(RuntimeError, match=said):
        train(job(base, tmp_path, rated_pairs(24, 0)))


def test_rows_on_a_gpu_are_computed_anew_layer_by_layer(base: Path) -> None:
    """So a token takes little there; what is left are the logits."""
    model = load_policy(base)
    config = model.config

    on_gpu, on_cpu = token_bytes(model, gpu=True), token_bytes(model, gpu=False)

    assert on_cpu == 68 * config.hidden_size * config.num_hidden_layers + 44 * config.vocab_size
    assert (
        on_gpu == (68 + 2 * config.num_hidden_layers) * config.hidden_size + 44 * config.vocab_size
    )


def test_nothing_moved_is_said(base: Path, tmp_path: Path) -> None:
    """Where every step was too small to change a weight, nobody takes the model for a tuned one."""
    asked = job(base, tmp_path, rated_pairs(24, 0), epochs=1.0, learning_rate=1e-45)

    train(asked)

    assert any(said.startswith("Nothing moved") for said in asked.warnings)


def test_padding_before_a_row_leaves_gradients_finite(base: Path) -> None:
    """On a Hopper GPU cuDNN's attention makes them NaN at 192 tokens, so it is never used."""
    model = load_policy(base)
    mask = torch.ones(2, 192, dtype=torch.long, device=model.device)
    mask[0, :9] = 0

    model(input_ids=torch.full_like(mask, 5), attention_mask=mask).logits[:, 9:].sum().backward()

    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in model.parameters())


def test_nan_gradient_ends_a_stage(base: Path, tmp_path: Path) -> None:
    """It would make all weights so, and the model write nothing that any library can sample."""
    broken, model = tmp_path / "broken", load_policy(base)
    model.model.norm.weight.data[0] = math.nan
    save(model, load_tokenizer(base), broken)
    asked = job(broken, tmp_path, rated_pairs(24, 0))

    with pytest.raises(
        TrainingError, match=r"Step \d has a loss or gradient of NaN or inf: .*-rate\."
    ):
        train(asked)


@pytest.mark.parametrize(
    ("method", "advice"),
    [("ppo", "-rate, or with a --reflector-temperature nearer to 1."), ("kto", "--learning-rate.")],
)
def test_nan_loss_ends_a_stage(method: str, advice: str, base: Path, tmp_path: Path) -> None:
    """PPO's trainer logs no gradient; the temperature matters only where texts are sampled."""
    steps = Steps(job(base, tmp_path, [], stage="reflector", method=method))
    state = SimpleNamespace(global_step=3, max_steps=9)

    steps.on_log(None, state, None, {"loss/value_avg": 0.5, "val/ratio": math.nan})
    with pytest.raises(TrainingError, match=r"Step 3 has a loss") as failed:
        steps.on_log(None, state, None, {"loss/value_avg": math.nan})
    assert str(failed.value).endswith(advice)


def test_policy_is_no_reward_model(base: Path) -> None:
    """A model without a head that scores is refused, and never scores by chance."""
    with pytest.raises(WeightsError, match="is not a reward model"):
        load_reward_model(base)
