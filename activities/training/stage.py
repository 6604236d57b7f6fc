"""The program that runs one stage of a training run, in a process of its own.

    python -m activities.training.stage < a StageTask as one line of JSON

Standard output has JSON lines: {"step", "of", "values"} at each step, and at the end {"done": a
StageResult} or {"error": {"message", "permanent"}}. The process ends as soon as standard input
does, and so with the worker that started it.

A stage works in `reward_model.part` or `reflector.part`, and becomes `reward_model` or `reflector`
by one renaming, together with its `done.json`: there is never half a model. Whoever runs the stage
again is given that result, as long as the task and all that it learns from are the same.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

from filelock import FileLock, Timeout
from pydantic import ValidationError

from activities.training.artifacts import (
    TrainingError,
    read_buffer,
    run_folder,
    sync,
    write_whole,
)
from activities.training.port import BUFFER, VARIABLE, StageTask
from reflection.agents.training_result import StageResult
from reflection.request import Record

DONE, ATTEMPTS, MANIFEST = "done.json", "attempts.json", "manifest.json"
# What another worker may need to notice that its attempt was given up.
LOCK_SECONDS = 60.0
Tell = Callable[[int, int, dict[str, float]], None]
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# What libraries say of a full disk that do not raise Python's OSError.
FULL_WORDS = (
    "No space left on device",
    "File too large",
    "Disk quota exceeded",
    "file write failed",
    "unexpected pos",
)


class Done(Record):
    """A stage that is done; `origin` is the hash of all that its model was made from."""

    origin: str
    result: StageResult


class Attempts(Record):
    """How a stage went on so far: at which steps it was resumed, how often it began anew."""

    origin: str
    resumed_at: tuple[int, ...] = ()
    anew: int = 0


def main() -> None:
    """Run the stage that standard input names."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What libraries print is no result.
    os.dup2(2, 1)
    given = sys.stdin.readline()
    Thread(target=_end_with_input, daemon=True).start()

    def tell(line: dict[str, object]) -> None:
        print(json.dumps(line), file=lines, flush=True)

    root = Path(os.environ[VARIABLE])
    try:
        task = StageTask.model_validate_json(given)
        result = run(
            task, root, lambda step, of, values: tell({"step": step, "of": of, "values": values})
        )
    except Exception as error:
        permanent = isinstance(error, (TrainingError, ValidationError))
        tell({"error": {"message": explain(error, root), "permanent": permanent}})
        if not permanent:
            raise
        sys.exit(1)
    tell({"done": result.model_dump(mode="json")})


def run(task: StageTask, root: Path, tell: Tell) -> StageResult:
    """Run a stage, or read its result if it is done. Raises TrainingError, OSError."""
    folder = run_folder(root, task.run)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{task.stage}.lock")
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise OSError(f"Another worker is still at {task.stage} of {task.run}.") from None
    with lock:
        origin = _origin(task, folder)
        with contextlib.suppress(OSError, ValidationError):
            done = Done.model_validate_json((folder / task.stage / DONE).read_bytes())
            if done.origin == origin:
                return done.result
        return _train(task, root, origin, tell)


def explain(error: BaseException, root: Path) -> str:
    """Say in one line what went wrong."""
    chain = list(_chain(error))
    if any(
        getattr(each, "errno", None) in FULL or any(word in str(each) for word in FULL_WORDS)
        for each in chain
    ):
        free = shutil.disk_usage(root).free >> 20
        return f"The disk of {root} is full, or a file got too large for it ({free} MB are free)."
    words = str(error).strip().splitlines()
    if isinstance(error, TrainingError):
        return words[0]
    return f"{type(error).__name__}: {words[0][:500]}" if words else type(error).__name__


def resolve(root: Path, name: str) -> str:
    """Find a model: a folder in `root`, else a Hugging Face name. Raises TrainingError."""
    root = root.resolve()
    path = (root / name).resolve()
    if path.is_dir() and path != root and path.is_relative_to(root):
        return str(path)
    if HUB_NAME.fullmatch(name):
        return name
    raise TrainingError(f"{name} is neither a folder in {root} nor a Hugging Face name.")


def _train(task: StageTask, root: Path, origin: str, tell: Tell) -> StageResult:
    folder = run_folder(root, task.run)
    work, began = folder / f"{task.stage}.part", time.monotonic()
    model = resolve(root, task.model)
    if Path(model).is_dir():
        # Read when Transformers is imported: nothing else may be looked for elsewhere.
        os.environ["HF_HUB_OFFLINE"] = "1"
    from activities.training import trainers, weights

    warnings = list[str]()
    resumable = trainers.kind(task) in trainers.RESUMABLE
    attempts, resume = _attempt(work, origin, warnings, resumable=resumable)
    reward_model = folder / "reward_model"
    job = trainers.Job(
        task=task,
        model=model,
        pairs=read_buffer(folder),
        work=work,
        reward_model=reward_model if (reward_model / DONE).exists() else None,
        resume=resume,
        tell=tell,
        saved=_sign,
        warnings=warnings,
    )
    trained = trainers.train(job)
    final = folder / task.stage
    result = StageResult(
        folder=final.relative_to(root).as_posix(),
        steps=trained.steps,
        examples=trained.examples,
        seconds=round(time.monotonic() - began, 1),
        device=weights.device_name(),
        log=trained.log,
        resumed_at=attempts.resumed_at,
        anew=attempts.anew,
        warnings=tuple(job.warnings),
    )
    done = Done(origin=origin, result=result)
    write_whole(trained.folder / DONE, done.model_dump_json().encode())
    if final.exists():
        final.rename(work / "before")
    trained.folder.rename(final)
    sync(folder)
    shutil.rmtree(work, ignore_errors=True)
    return result


def _origin(task: StageTask, folder: Path) -> str:
    """Hash what a stage learns from: its task, the replay buffer, and the reward model."""
    parts = [task.model_dump_json().encode()]
    needed = [folder / BUFFER]
    if task.stage == "reflector" and task.method in {"ppo", "rloo"}:
        needed.append(folder / "reward_model" / DONE)
    parts += [path.read_bytes() if path.exists() else b"" for path in needed]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _attempt(
    work: Path, origin: str, warnings: list[str], *, resumable: bool
) -> tuple[Attempts, Path | None]:
    """Note a new attempt, and find the checkpoint that it goes on from, if there is one."""
    attempts, resume = Attempts(origin=origin), None
    try:
        before = Attempts.model_validate_json((work / ATTEMPTS).read_bytes())
    except (OSError, ValidationError):
        before = None
    if before is not None and before.origin == origin:
        resume = _newest_checkpoint(work, warnings) if resumable else None
        if resume is None:
            attempts = before.model_copy(update={"anew": before.anew + 1})
        else:
            steps = (*before.resumed_at, _step(resume))
            attempts = before.model_copy(update={"resumed_at": steps})
    if resume is None:
        shutil.rmtree(work, ignore_errors=True)
    write_whole(work / ATTEMPTS, attempts.model_dump_json().encode())
    return attempts, resume


def _newest_checkpoint(work: Path, warnings: list[str]) -> Path | None:
    """Find the newest checkpoint that is as it was written, and remove those that are not."""
    for path in sorted(work.glob("checkpoint-*"), key=_step, reverse=True):
        try:
            whole = json.loads((path / MANIFEST).read_bytes()) == _contents(path)
        except (OSError, ValueError):
            whole = False
        if whole:
            return path
        warnings.append(f"Checkpoint {_step(path)} was damaged or not finished: it was not used.")
        shutil.rmtree(path)
    return None


def _sign(checkpoint: Path) -> None:
    """Write down what a checkpoint holds, since its files are not written at once."""
    write_whole(checkpoint / MANIFEST, json.dumps(_contents(checkpoint)).encode())


def _contents(folder: Path) -> dict[str, list[object]]:
    """List the files of a folder with their sizes and hashes."""
    found = dict[str, list[object]]()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = [path.stat().st_size, digest]
    return found


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
