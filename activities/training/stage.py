"""The program that runs one stage of a training run, in a process of its own.

    python -m activities.training.stage < a StageTask as one line of JSON

Standard output has JSON lines: {"step", "of", "values"} at each step, and at the end {"done": a
StageResult} or {"error": {"message", "permanent"}}. The process ends as soon as standard input
does, and so with the worker that started it.

A stage works in `reward_model.part` or `reflector.part`, and becomes `reward_model` or `reflector`
by one renaming, together with its `done.json`, so models are never incomplete. Running the stage
again returns that result, as long as the task and all that it learns from are the same.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

from filelock import FileLock, Timeout
from pydantic import ValidationError

from activities.training import artifacts
from activities.training.artifacts import TrainingError, run_folder
from activities.training.port import BUFFER, VARIABLE, StageTask
from mull.agents.training_result import StageResult
from mull.request import Record

ATTEMPTS = "attempts.json"
# The time that another worker may need to notice that its attempt was given up.
LOCK_SECONDS = 60.0
Tell = Callable[[dict[str, object]], None]
# How Python and libraries report a full disk.
FULL = (
    "No space left on device", "File too large", "Disk quota exceeded", "file write failed",
    "unexpected pos",
)  # fmt: skip


class Done(Record):
    """A stage that is done; `origin` is the hash of all that its model was made from."""

    origin: str
    result: StageResult


class Attempts(Record):
    """The attempts of a stage: the steps at which it resumed, and how often it began anew."""

    origin: str
    resumed_at: tuple[int, ...] = ()
    anew: int = 0


def main() -> None:
    """Run the stage that standard input names."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Keep what libraries print apart from the results.
    os.dup2(2, 1)
    given = sys.stdin.readline()
    Thread(target=end_with_input, daemon=True).start()

    def tell(line: dict[str, object]) -> None:
        print(json.dumps(line), file=lines, flush=True)

    root = Path(os.environ[VARIABLE])
    try:
        task = StageTask.model_validate_json(given)
        result = run(task, root, tell)
    except Exception as error:
        permanent = isinstance(error, (TrainingError, ValidationError))
        tell({"error": {"message": error_line(error, root), "permanent": permanent}})
        raise
    tell({"done": result.model_dump(mode="json")})


def run(task: StageTask, root: Path, tell: Tell) -> StageResult:
    """Run a stage, or read its result if it is done. Raises TrainingError, OSError."""
    folder = run_folder(root, task.run)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{task.stage}.lock")
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise OSError(f"Another worker still trains {task.stage} of {task.run}.") from None
    with lock:
        origin = _origin(task, folder)
        with contextlib.suppress(OSError, ValidationError):
            done = Done.model_validate_json((folder / task.stage / artifacts.DONE).read_bytes())
            if done.origin == origin:
                return done.result
        return _train(task, root, origin, tell)


def error_line(error: BaseException, root: Path) -> str:
    """Describe an error in one line."""
    if any(words in str(each) for each in _chain(error) for words in FULL):
        free = shutil.disk_usage(root).free >> 20
        return f"The disk of {root} is full, or a file got too large for it ({free} MB are free)."
    said = next(iter(str(error).strip().splitlines()), "")[:500]
    return said if isinstance(error, TrainingError) else f"{type(error).__name__}: {said}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _train(task: StageTask, root: Path, origin: str, tell: Tell) -> StageResult:
    folder = run_folder(root, task.run)
    work, final = folder / f"{task.stage}.part", folder / task.stage
    model = artifacts.resolve(root, task.model)
    base = os.path.relpath(model, final) if Path(model).exists() else model
    if base != model or model == artifacts.TOY:
        # Transformers reads this when it is imported: do not look for other files on the hub.
        os.environ["HF_HUB_OFFLINE"] = "1"
    from activities.training import trainers
    from activities.training.job import Job

    buffer = artifacts.read_buffer(folder)
    pairs, held_out = ([pair for pair in buffer if pair.held_out is held] for held in (False, True))
    job = Job(task, model, pairs, work, base, held_out=held_out, tell=tell)
    attempts, job.resume = _attempt(work, origin, job.warnings)
    if (folder / "reward_model" / artifacts.DONE).exists():
        job.reward_model = folder / "reward_model"
    trained = trainers.train(job)
    made = Path(trained.folder)
    known = {
        "folder": final.relative_to(root).as_posix(),
        "data_sha256": artifacts.hash_of([folder / BUFFER]),
    }
    result = trained.model_copy(update=known | attempts.model_dump(exclude={"origin"}))
    done = Done(origin=origin, result=result)
    artifacts.write_whole(made / artifacts.DONE, done.model_dump_json().encode())
    if final.exists():
        final.rename(work / "before")
    made.rename(final)
    artifacts.sync(folder)
    shutil.rmtree(work, ignore_errors=True)
    return result


def _origin(task: StageTask, folder: Path) -> str:
    """Hash everything a stage learns from: its task, the replay buffer, and the reward model."""
    parts = [task.model_dump_json().encode()]
    needed = [folder / BUFFER]
    if task.learner in {"ppo", "rloo"}:
        needed.append(folder / "reward_model" / artifacts.DONE)
    parts += [path.read_bytes() if path.exists() else b"" for path in needed]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _attempt(work: Path, origin: str, warnings: list[str]) -> tuple[Attempts, Path | None]:
    """Note a new attempt, and find the checkpoint that it resumes from, if there is one."""
    before, resume = Attempts(origin=""), None
    with contextlib.suppress(OSError, ValidationError):
        before = Attempts.model_validate_json((work / ATTEMPTS).read_bytes())
    if before.origin != origin:
        attempts = Attempts(origin=origin)
    elif resume := artifacts.newest_checkpoint(work, warnings):
        attempts = before.model_copy(
            update={"resumed_at": (*before.resumed_at, artifacts.step_of(resume))}
        )
    else:
        attempts = before.model_copy(update={"anew": before.anew + 1})
    if resume is None:
        shutil.rmtree(work, ignore_errors=True)
    artifacts.write_whole(work / ATTEMPTS, attempts.model_dump_json().encode())
    return attempts, resume


def end_with_input() -> None:
    """End this process once standard input ends, as it does when the worker dies."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
