"""Trainings for tests, at each of their phases."""

from typing import Any

from mull.agents.retroformer import RolloutResult
from mull.agents.training import Planned, RetroformerTrainingRequest, Training
from mull.agents.training_result import (
    BufferCounts,
    LogPoint,
    RetroformerTrainingResult,
    StageResult,
)
from mull.run import usage
from tests.unit.runs import START

FIRST = Planned(0, 1)
LOG = (
    LogPoint(step=1, values={"loss": 0.7, "accuracy": 0.5}),
    LogPoint(step=2, values={"loss": 0.3, "accuracy": 1.0}),
    LogPoint(step=2, values={"train_runtime": 3.5}),
)


def training(*tasks: str) -> Training:
    """A training that has collected two rollouts of each task."""
    request = RetroformerTrainingRequest(
        environment="counting", tasks=tasks, reflector="base", base_model="tiny", rollouts=2
    )
    state = Training(request=request, workflow_id="first", execution="1")
    state.begin("collecting")
    for planned in state.planned():
        state.ended(planned, rollout(tasks[planned.task], planned.rollout, (0.0, 1.0)))
    state.buffer, state.counts = "first/replay-buffer.jsonl", BufferCounts(pairs=2, preferences=2)
    state.decide("2 pairs of reflections rated", START)
    return state


def rollout(task: str, number: int, gains: tuple[float, ...], **fields: Any) -> RolloutResult:
    """A rollout whose reflections gained this."""
    return RolloutResult(
        task=task,
        rollout=number,
        solved=False,
        gains=gains,
        helped=tuple(gain > 0 for gain in gains),
        usage=usage({}, 0, 0),
        stop_reason="episode_limit",
        stop_explanation="two reflections were tried",
        **fields,
    )


def trained(state: Training) -> RetroformerTrainingResult:
    """End it once the reflector is tuned and measured."""
    known: dict[str, Any] = {"examples": 4, "seconds": 1.6, "device": "cpu", "log": LOG}
    state.stages = {
        "reward_model": StageResult(folder="first/m", steps=2, resumed_at=(1,), **known),
        "reflector": StageResult(
            folder="first/r", steps=2, anew=1, settings={"learning_rate": 2e-5}, **known
        ),
    }
    state.begin("measuring")
    state.ended(FIRST, rollout("7", 1, (1.0, 1.0)))
    state.decide("the reflector was tuned by ppo", START, "trained")
    return state.record()
