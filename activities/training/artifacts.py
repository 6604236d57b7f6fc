"""The files of training runs in MULL_ARTIFACTS: their folders, replay buffers and checkpoints.

Files are written whole or not at all, since another worker may read them at any time.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from pydantic import ValidationError

from activities.language_model import toy_file
from activities.training.port import BUFFER
from mull.agents.rating import RatedPair
from mull.request import explain

# Less than file systems allow, since other names are derived from it.
LONGEST_NAME = 200
GGUF, TOY, ADAPTER = ".gguf", "toy", "adapter_config.json"
KEPT, MANIFEST, DONE, RESULT = "buffer", "manifest.json", "done.json", "result.json"
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class TrainingError(ValueError):
    """The training is not possible, now or later; the message says why in one line."""


def resolve(root: Path, name: str) -> str:
    """Find a model: a folder or GGUF file in `root`, the toy, or a Hugging Face name.

    Raises TrainingError.
    """
    root = root.resolve()
    path = (root / name).resolve()
    found = path.is_dir() or (path.suffix == GGUF and path.is_file())
    if (path / ADAPTER).is_file():
        raise TrainingError(f"{name} is an adapter: only a whole model can be trained.")
    if found and path != root and path.is_relative_to(root):
        return str(path)
    if name == TOY:
        toy_weights()
        return name
    if HUB_NAME.fullmatch(name):
        return name
    raise TrainingError(f"{name} is neither a folder in {root} nor a Hugging Face name.")


def toy_weights() -> Path:
    """Find the toy model's file. Raises TrainingError."""
    if (found := toy_file.weights()) is None:
        raise TrainingError("The toy's weights are not on this machine: run `mull dev --toy` once.")
    return found


def run_folder(root: Path, run: str) -> Path:
    """Name the folder of a training run, whose id may hold any character."""
    name = quote(run, safe="").replace(".", "%2E")
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 64] + hashlib.sha256(run.encode()).hexdigest()
    return root / name


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        part.write_bytes(content)
        sync(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def keep_pair(folder: Path, execution: str, pair: RatedPair) -> None:
    """Keep a rated pair of a run's execution, in a file of its task and rollout."""
    place = pair.model_dump_json(include={"environment", "task", "environment_seed", "rollout"})
    name = hashlib.sha256(place.encode()).hexdigest()[:32]
    write_whole(
        folder / KEPT / quote(execution, safe="") / f"{name}.json", pair.model_dump_json().encode()
    )


def kept_pairs(folder: Path, execution: str) -> list[RatedPair]:
    """Read the pairs that an execution kept, always in one order. Raises TrainingError."""
    kept = folder / KEPT / quote(execution, safe="")
    pairs = list[RatedPair]()
    for path in kept.glob("*.json"):
        try:
            pairs.append(RatedPair.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            raise TrainingError(f"{path} can't be read: {explain(error)}") from None
    names = "rollout", "environment", "task", "environment_seed", "workflow_id"
    return sorted(pairs, key=attrgetter(*names))


def write_buffer(folder: Path, pairs: Iterable[RatedPair]) -> str:
    """Write the replay buffer, a line for each pair; return its SHA-256."""
    content = "".join(f"{pair.model_dump_json()}\n" for pair in pairs).encode()
    write_whole(folder / BUFFER, content)
    return hashlib.sha256(content).hexdigest()


def read_buffer(folder: Path) -> list[RatedPair]:
    """Read the replay buffer. Raises TrainingError."""
    path, pairs = folder / BUFFER, list[RatedPair]()
    try:
        for line in path.read_bytes().splitlines():
            pairs.append(RatedPair.model_validate_json(line))
    except FileNotFoundError:
        raise TrainingError(f"There is no replay buffer at {path}.") from None
    except ValidationError as error:
        said = f"{path} can't be read at line {len(pairs) + 1}: {explain(error)}"
        raise TrainingError(said) from None
    return pairs


def newest_checkpoint(work: Path, warnings: list[str]) -> Path | None:
    """Find the newest undamaged checkpoint, and remove the damaged ones that are newer."""
    for path in sorted(work.glob("checkpoint-*"), key=step_of, reverse=True):
        with suppress(OSError, ValueError, RecursionError):
            if json.loads((path / MANIFEST).read_bytes()) == _contents(path):
                return path
        warnings.append(f"Checkpoint {step_of(path)} was damaged or not finished: it was not used.")
        shutil.rmtree(path)
    return None


def write_manifest(checkpoint: Path) -> None:
    """List a checkpoint's files with hashes, which reveal damage, but not a deliberate change."""
    write_whole(checkpoint / MANIFEST, json.dumps(_contents(checkpoint)).encode())


def step_of(checkpoint: Path) -> int:
    """Read a checkpoint's step from its name."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def hash_of(paths: Iterable[Path]) -> str:
    """Hash files, in their order."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _contents(folder: Path) -> dict[str, str]:
    """Hash the files of a folder, each by its path there."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): hash_of([path]) for path in files}
