"""The training of a reflector: its request, how far it came, and its result.

The steps are the source's: reflections are collected and rated, a reward model learns from the
pairs, and the reflector is tuned on that reward. A measurement follows where the tuned reflector
can be reached.
"""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import FailFast, Field, FiniteFloat, model_validator

from reflection.agents.rating import Pairing
from reflection.agents.request import MOST_STEPS, Instructions, Name, TaskName
from reflection.multipath.request import Folder
from reflection.request import Bounded, ModelName, Record, Words
from reflection.run import Usage

Method = Literal["ppo", "rloo", "kto", "dpo"]
Stage = Literal["reward_model", "reflector"]
Phase = Literal["collecting", "reward_model", "reflector", "measuring"]
MOST_TASKS = 500
MOST_POINTS = 100


class LogPoint(Record):
    """What the trainer logged at a step, from 1: numbers by the names that TRL gives them."""

    step: int
    values: dict[str, FiniteFloat]


class BufferCounts(Record):
    """What a replay buffer holds.

    `good` reflections have a gain above 0. Of the pairs, `equal` have equal gains, `identical`
    the same text twice, and `preferences` are left for pairwise training.
    """

    pairs: int = 0
    good: int = 0
    equal: int = 0
    identical: int = 0
    preferences: int = 0

    @property
    def share_good(self) -> float | None:
        """The share of good reflections; None where there are none at all."""
        return self.good / (2 * self.pairs) if self.pairs else None


class RetroformerTrainingRequest(Bounded):
    """Tasks of an environment, the model to tune on them, and how.

    The tasks are named, never quoted. `reflector` is the model as it is called while reflections
    are collected, `base_model` the same one's weights: a folder in MULL_ARTIFACTS, or the name of a
    Hugging Face model. Without `tuned` it is not measured how good the tuned reflections are.
    """

    subject_field = "environment"

    environment: Name = Field(
        description="Where to act: code, documents, puzzles, textworld or one of yours."
    )
    tasks: Annotated[tuple[TaskName, ...], FailFast()] = Field(
        min_length=1, max_length=MOST_TASKS, description="The tasks' names."
    )
    task_file: Folder | None = Field(
        None, description="The file of the tasks, on the worker's machine, for code and documents."
    )
    docs: Folder | None = Field(
        None, description="A folder to search, on the worker's machine, for documents."
    )
    environment_seed: int = Field(
        0, ge=0, le=2**31, description="The seed by which each episode begins."
    )
    method: Method = Field("ppo", description="What tunes the reflector.")
    reflector: ModelName = Field(description="The model to tune, as it is called.")
    base_model: ModelName = Field(
        description="Its weights: a folder in MULL_ARTIFACTS, or a Hugging Face name."
    )
    tuned: ModelName | None = Field(
        None, description="The tuned model as it is called, to measure what was gained."
    )
    rollouts: int = Field(3, ge=1, le=10, description="How often each task is tried.")
    concurrency: int = Field(4, ge=1, le=50, description="The most tasks tried at once.")
    pairing: Pairing | None = Field(
        None,
        description="Pairs: ordered by gain, or a gain above 0 (positive); else the method's own.",
    )
    step_limit: int = Field(15, ge=1, le=MOST_STEPS, description="The most steps of an episode.")
    temperature: float = Field(
        0.0, ge=0, le=2, allow_inf_nan=False, description="The planner's: low, as it is frozen."
    )
    reflector_temperature: float = Field(
        0.9, gt=0, le=2, allow_inf_nan=False, description="That of sampled reflections."
    )
    planner_instructions: Instructions | None = None
    reflector_instructions: Instructions | None = None
    seed: int = Field(0, ge=0, le=2**31, description="The seed of sampling and of training.")
    epochs: float | None = Field(None, gt=0, le=1_000, allow_inf_nan=False)
    learning_rate: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    batch_size: int | None = Field(None, ge=1, le=1_024)
    max_length: int | None = Field(None, ge=16, le=131_072, description="Tokens of a row.")
    max_output_tokens: int = Field(2_000, ge=1, le=32_768, description="Tokens of one reply.")
    call_timeout_seconds: float = Field(
        120, ge=1, le=3_600, allow_inf_nan=False, description="Seconds for one call of a model."
    )
    step_timeout_seconds: float = Field(
        60, ge=1, le=600, allow_inf_nan=False, description="Seconds for one action."
    )
    stage_timeout_seconds: float = Field(
        86_400, ge=1, le=30 * 86_400, allow_inf_nan=False, description="Seconds for one stage."
    )
