"""A folder with a training run's models, and what serves them."""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from activities.training.served import Served
from activities.training.weights import load_tokenizer, new_reward_model, save


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


@contextmanager
def serving(root: Path, bases: Sequence[str] = ()) -> Iterator[Served]:
    """Serve these models while the block runs."""
    with asyncio.Runner() as runner:
        made = Served(root, bases=bases)
        runner.run(made.__aenter__())
        yield made
        runner.run(made.__aexit__())
