"""A training worker that trains nothing: what it is asked, and scripted scores and stages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.training.port import (
    TASK_QUEUE,
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
from mull.agents.rating import RatedPair, count
from mull.agents.training_result import LogPoint, StageResult

Scored = Sequence[float | None] | ApplicationError


class ScriptedTraining:
    """Keep pairs, and answer each request for scores with the next line of the script."""

    def __init__(
        self, scores: Sequence[Scored] = (), stage: ApplicationError | None = None
    ) -> None:
        self._scores, self._stage = [*scores], stage
        self.scored: list[ScoreTask] = []
        self.kept: list[PairTask] = []
        self.stages: list[StageTask] = []
        self.controls: list[ControlTask] = []
        self.results: list[ResultTask] = []
        self.hangs = self.full = False
        self.shuffles: asyncio.Event | None = None
        self.cancelled = 0

    @property
    def pairs(self) -> list[RatedPair]:
        return [kept.pair for kept in self.kept]

    @activity.defn
    async def score_reflections(self, task: ScoreTask) -> Scores:
        self.scored.append(task)
        said = self._scores.pop(0)
        if isinstance(said, ApplicationError):
            raise said
        return Scores(scores=tuple(said))

    @activity.defn
    async def find_base_model(self, task: BaseModelTask) -> None:
        """Find any model but one that is missing."""
        if task.model == "missing":
            said = "missing is neither a folder nor a Hugging Face name."
            raise ApplicationError(said, type="TrainingError", non_retryable=True)

    @activity.defn
    async def keep_pair(self, task: PairTask) -> None:
        self.kept.append(task)

    @activity.defn
    async def assemble_buffer(self, task: BufferTask) -> BufferResult:
        pairs = [kept.pair for kept in self.kept if kept.run == task.run]
        counts, path = count(pairs, task.pairing), f"{task.run}/replay-buffer.jsonl"
        return BufferResult(path=path, counts=counts, sha256="0" * 64)

    @activity.defn
    async def shuffle_labels(self, task: ControlTask) -> None:
        """Note it."""
        self.controls.append(task)
        if self.shuffles is not None:
            await self.shuffles.wait()

    @activity.defn
    async def keep_result(self, task: ResultTask) -> None:
        """Keep a result, unless the disk is full."""
        if self.full:
            raise ApplicationError("The disk is full.", non_retryable=True)
        self.results.append(task)

    @activity.defn
    async def train_stage(self, task: StageTask) -> StageResult:
        self.stages.append(task)
        if self._stage is not None:
            raise self._stage
        try:
            while self.hangs:
                activity.heartbeat()
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        log = tuple(LogPoint(step=step, values={"loss": 1 / step}) for step in (1, 2, 3))
        folder = f"{task.run}/{task.stage}"
        return StageResult(
            folder=folder, steps=3, examples=2, seconds=1.5, device="cpu", log=log, resumed_at=(2,)
        )


@asynccontextmanager
async def trains(client: Client, training: ScriptedTraining) -> AsyncIterator[None]:
    activities: list[Callable[..., Any]] = [
        training.score_reflections, training.find_base_model, training.keep_pair,
        training.assemble_buffer, training.train_stage, training.shuffle_labels,
        training.keep_result,
    ]  # fmt: skip
    soon = timedelta(seconds=1)
    async with Worker(
        client, task_queue=TASK_QUEUE, activities=activities, max_heartbeat_throttle_interval=soon
    ):
        yield
