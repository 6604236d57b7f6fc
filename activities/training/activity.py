"""Train the stages of a run, and keep its replay buffer, in the folder of MULL_ARTIFACTS."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.training import artifacts
from activities.training.artifacts import TrainingError, run_folder
from activities.training.port import (
    BUFFER,
    STAGE_PROGRESS,
    VARIABLE,
    BaseModelTask,
    BufferResult,
    BufferTask,
    ControlTask,
    PairTask,
    ResultTask,
    Scores,
    ScoreTask,
    StageTask,
)
from mull.agents.rating import count
from mull.agents.training_result import StageResult, StageStep
from mull.connection import heartbeating

PROGRAM = (sys.executable, "-m", "activities.training.stage")
# The worker's variables that a process with models gets: no provider's key, but Hugging Face's
# token, if there is one.
KEPT = {
    "PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
}  # fmt: skip
KEPT_PREFIXES = ("HF_", "CUDA_")
LONGEST_LINE = 16 << 20
# How often a stage reports its progress to its run: each report is three events of history.
SHOWN_STEPS = 50


class TrainingActivities:
    """Activities that train in `root`, one stage at a time, in a process of its own."""

    def __init__(
        self,
        root: Path,
        client: Client | None = None,
        program: Sequence[str] = PROGRAM,
        aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Train below a folder; `aside` unloads other models meanwhile.

        Without a client, stages do not report their progress to their runs.
        """
        self._root = root.resolve()
        self._client = client
        self._program = program
        self._turn, self._aside = asyncio.Lock(), aside

    @activity.defn
    async def find_base_model(self, task: BaseModelTask) -> None:
        """Find the model that a run will train. Raises ApplicationError if there is none."""
        with refusing():
            artifacts.resolve(self._root, task.model)

    @activity.defn
    async def train_stage(self, task: StageTask) -> StageResult:
        """Run a stage, and heartbeat each of its steps.

        Raises ApplicationError: TrainingError, which is final, or TrainingFailed.
        """
        async with heartbeating() as beat, self._turn, self._aside():
            return await self._run(task, beat)

    @activity.defn
    async def keep_pair(self, task: PairTask) -> None:
        """Keep two rated reflections of a run."""
        folder = run_folder(self._root, task.run)
        await asyncio.to_thread(artifacts.keep_pair, folder, task.execution, task.pair)

    @activity.defn
    async def assemble_buffer(self, task: BufferTask) -> BufferResult:
        """Write the kept pairs to one file, in order, and count them. Raises ApplicationError."""
        folder = run_folder(self._root, task.run)
        with refusing():
            pairs = await asyncio.to_thread(artifacts.kept_pairs, folder, task.execution)
        return BufferResult(
            path=(folder / BUFFER).relative_to(self._root).as_posix(),
            counts=count(pairs, task.pairing),
            sha256=await asyncio.to_thread(artifacts.write_buffer, folder, pairs),
        )

    @activity.defn
    async def shuffle_labels(self, task: ControlTask) -> None:
        """Copy a replay buffer for another run, and shuffle the gains that it learns from."""
        with refusing():
            pairs = await asyncio.to_thread(artifacts.read_buffer, run_folder(self._root, task.run))
        gains = [gain for pair in pairs if not pair.held_out for gain in pair.gains]
        Random(task.seed).shuffle(gains)  # noqa: S311 - not a secret
        drawn = iter(gains)
        shuffled = [
            pair if pair.held_out else pair.gaining(next(drawn), next(drawn)) for pair in pairs
        ]
        await asyncio.to_thread(
            artifacts.write_buffer, run_folder(self._root, task.control), shuffled
        )

    @activity.defn
    async def keep_result(self, task: ResultTask) -> None:
        """Keep the result of a run in its folder, and in its tuned reflector, if any."""
        folder, written = run_folder(self._root, task.run), task.result.model_dump_json(indent=1)
        for place in (folder, *folder.glob("reflector")):
            await asyncio.to_thread(
                artifacts.write_whole, place / artifacts.RESULT, written.encode()
            )

    async def _tell(self, step: StageStep) -> None:
        info = activity.info()
        if self._client is not None:
            name = info.workflow_id or ""
            run = self._client.get_workflow_handle(name, run_id=info.workflow_run_id)
            with suppress(RPCError):
                await run.signal(STAGE_PROGRESS, step)

    async def _run(self, task: StageTask, beat: Callable[..., None]) -> StageResult:
        folder = run_folder(self._root, task.run)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{task.stage}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=variables(os.environ, self._root),
                # Ctrl-C is for the worker.
                start_new_session=True,
                limit=LONGEST_LINE,
            )
        try:
            return await self._follow(process, task, beat)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _follow(
        self, process: asyncio.subprocess.Process, task: StageTask, beat: Callable[..., None]
    ) -> StageResult:
        """Follow a training process, and report its steps. Raises ApplicationError."""
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a training process has no pipes")
        with suppress(ConnectionError):
            # Keep it open, since the process ends with it.
            process.stdin.write(f"{task.model_dump_json()}\n".encode())
            await process.stdin.drain()
        told = 0
        async for line in process.stdout:
            said = json.loads(line)
            if "done" in said:
                return StageResult.model_validate(said["done"])
            if "error" in said:
                permanent = bool(said["error"]["permanent"])
                raise ApplicationError(
                    said["error"]["message"],
                    type="TrainingError" if permanent else "TrainingFailed",
                    non_retryable=permanent,
                )
            beat(said)
            activity.heartbeat(said)
            if (done := SHOWN_STEPS * said["step"] // said["of"]) > told:
                told = done
                await self._tell(StageStep(stage=task.stage, step=said["step"], of=said["of"]))
        code = await process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        raise ApplicationError(
            f"The training process of {task.stage} was ended {how}; its log is {task.stage}.log in "
            "the folder of the run. Where memory ran out, train again with --rows-at-once.",
            type="TrainingFailed",
        )


class ScoringActivities:
    """The activity that scores reflections with a reward model."""

    def __init__(self, score: Callable[[ScoreTask], Awaitable[Scores]]) -> None:
        """Score with this function, which raises ApplicationError."""
        self._score = score

    @activity.defn
    async def score_reflections(self, task: ScoreTask) -> Scores:
        """Score reflections. An unusable reward model is a non-retryable error."""
        async with heartbeating():
            return await self._score(task)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a TrainingError into a non-retryable ApplicationError of one line."""
    try:
        yield
    except TrainingError as error:
        raise ApplicationError(str(error), type="TrainingError", non_retryable=True) from None


def variables(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Choose the variables of a process with models, without providers' keys."""
    kept = {
        name: value
        for name, value in environment.items()
        # Proxy variables may also be in lower case.
        if name.upper() in KEPT or name.startswith(KEPT_PREFIXES)
    }
    return kept | {
        VARIABLE: str(root),
        "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
        # Threads that contend for a few cores take 20 times as long.
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # PPO is one of its experiments, and its version is pinned.
        "TRL_EXPERIMENTAL_SILENCE": "1",
        # Users do not need the progress and warnings that libraries print while they load.
        "TQDM_DISABLE": "1",
        "HF_HUB_VERBOSITY": "error",
        "PYTHONWARNINGS": "ignore",
    }
