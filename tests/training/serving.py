"""A folder with a training run's models, and what serves them."""

import asyncio
import json
import pickle
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from activities.language_model.port import ModelCall
from activities.training.served import Served
from activities.training.weights import load_tokenizer, new_reward_model, save

PROMPT = "Task 0: open the red door. The key did not fit. Reflection:"


def call(model: str, seed: int = 1, **given: Any) -> ModelCall:
    """Ask a served model as any other is asked."""
    known = {"prompt": PROMPT, "temperature": 0.9, "max_output_tokens": 40, "timeout_seconds": 60.0}
    return ModelCall.model_validate({"model": model, "seed": seed, **known, **given})


def artifacts(tiny: Path, root: Path) -> Path:
    """Put a base model, a run's two models and a broken one there, and a link that leads out."""
    shutil.copytree(tiny, root / "base")
    shutil.copytree(tiny, root / "train-1" / "reflector")
    shutil.copytree(tiny, root / "broken")
    (root / "broken" / "model.safetensors").write_bytes(b"no weights")
    tokenizer = load_tokenizer(tiny)
    reward_model = new_reward_model(tiny, 0, tokenizer.pad_token_id)
    save(reward_model, tokenizer, root / "train-1" / "reward_model")
    shutil.copytree(tiny, root.parent / "outside")
    (root / "link").symlink_to(root.parent / "outside")
    return root


LOOPS = "{% for a in range(10000) %}" * 3 + "{% endfor %}" * 3


class Trap:
    """What leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        """Be made by making the file."""
        return Path.touch, (self._path,)


def hostile(tiny: Path, root: Path) -> Path:
    """Put models of an attacker there; return the file that exists once code of one has run."""
    trap = root.parent / "trap"
    for name in (
        *("slow", "large", "raising", "several", "named"),
        *("pickled", "adapted", "garbled", "coded"),
    ):
        shutil.copytree(tiny, root / name)
    for name, template in (
        ("slow", LOOPS),
        ("large", "{{ 'x' * 10 ** 12 }}"),
        ("raising", "{{ raise_exception('no system message') }}"),
    ):
        (root / name / "chat_template.jinja").write_text(template)
    (root / "several" / "chat_template.jinja").unlink(missing_ok=True)
    (root / "several" / "additional_chat_templates").mkdir()
    (root / "several" / "additional_chat_templates" / "one.jinja").write_text("one")
    path = root / "named" / "tokenizer_config.json"
    told = json.loads(path.read_text()) | {"extra_special_tokens": {"chat_template": "</s>"}}
    path.write_text(json.dumps(told))
    (root / "pickled" / "model.safetensors").unlink()
    (root / "pickled" / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(trap)))
    peft = {"peft_type": "LORA", "base_model_name_or_path": "base", "target_modules": ["q_proj"]}
    (root / "adapted" / "adapter_config.json").write_text(json.dumps(peft))
    (root / "adapted" / "adapter_model.bin").write_bytes(pickle.dumps(Trap(trap)))
    (root / "garbled" / "tokenizer.json").write_text('{"model": 1}')
    (root / "coded" / "own.py").write_text(f"open({str(trap)!r}, 'w')\n")
    named = {f"Auto{kind}": f"own.{kind}" for kind in ("Config", "ModelForCausalLM")}
    for name, auto in (("config", named), ("tokenizer_config", {"AutoTokenizer": ["own.T", None]})):
        path = root / "coded" / f"{name}.json"
        told = json.loads(path.read_text()) | {"auto_map": auto, "model_type": "own"}
        path.write_text(json.dumps(told | {"tokenizer_class": "T"}))
    return trap


@contextmanager
def serving(root: Path, bases: Sequence[str] = ()) -> Iterator[Served]:
    """Serve these models while the block runs."""
    with asyncio.Runner() as runner:
        made = Served(root, bases=bases)
        runner.run(made.__aenter__())
        yield made
        runner.run(made.__aexit__())
