"""The request of a Reflexion run, of a memory that runs share, and how a model is trained."""

from collections.abc import Iterator
from math import inf
from typing import Annotated, Literal, Self

from pydantic import FailFast, Field, StringConstraints, model_validator
from pydantic_core import to_json

from mull.agents.memory import PlannerExample, ReflectorExample, SharedMemory
from mull.agents.prompts import examples_bytes
from mull.agents.training_result import Method
from mull.multipath.request import Folder
from mull.request import Bounded, Frozen, ModelName, Request, Words, output_limit, time_out

MOST_EPISODES = 12
MOST_STEPS = 50
JUDGED_EPISODES = 2
EXAMPLES_BYTES = 100_000

Strategy = Literal["none", "last_episode", "reflexion", "last_episode_and_reflexion"]
Scope = Literal["task", "environment", "agent"]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,39}$")]
TaskName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
MemoryName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$")]
Instructions = Annotated[Words, Field(max_length=10_000)]


class Acting(Frozen):
    """An environment to act in, and what each episode and call there is held to."""

    environment: Name = Field(
        description="Where to act: code, documents, puzzles, textworld or one of yours."
    )
    docs: Folder | None = Field(
        None, description="A folder to search, on the worker's machine, for documents."
    )
    environment_seed: int = Field(
        0, ge=0, le=2**31, description="The seed by which each episode begins."
    )
    step_limit: int = Field(15, ge=1, le=MOST_STEPS, description="The most steps of an episode.")
    planner_instructions: Instructions | None = None
    reflector_instructions: Instructions | None = None
    temperature: float = Field(
        0.0, ge=0, le=2, allow_inf_nan=False, description="The planner's and the reflector's."
    )
    max_output_tokens: int | None = output_limit("reply", 2_000)
    call_timeout_seconds: float | None = time_out("call of a model")
    step_timeout_seconds: float = Field(
        60, ge=1, le=600, allow_inf_nan=False, description="Seconds for one action."
    )


class Tuning(Frozen):
    """How a model is trained. What is None suits the size of the model, or its memory.

    `max_length` is in tokens. `beta` is PPO's and RLOO's weight of the KL divergence, and KTO's and
    DPO's beta.
    """

    method: Method = Field("ppo", description="What tunes the reflector.")
    seed: int = Field(0, ge=0, le=2**31, description="The seed of sampling and of training.")
    epochs: float | None = Field(
        None, gt=0, le=1_000, allow_inf_nan=False, description="Passes over the rows."
    )
    learning_rate: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="The learning rate of a step."
    )
    lora_rank: int | None = Field(None, ge=1, le=1_024, description="The rank of the adapter.")
    lora_alpha: float | None = Field(
        None,
        gt=0,
        le=4_096,
        allow_inf_nan=False,
        description="The adapter is scaled by this over its rank.",
    )
    batch_size: int | None = Field(None, ge=1, le=1_024, description="Rows of a step.")
    rows_at_once: int | None = Field(
        None, ge=1, le=1_024, description="Rows of a step that are computed at once."
    )
    beta: float | None = Field(
        None,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="How strongly the reflector is held to its base: PPO's and RLOO's weight of "
        "the KL divergence, KTO's and DPO's beta.",
    )
    max_length: int | None = Field(None, ge=16, le=131_072, description="Tokens of a row.")


class ReflexionRequest(Bounded, Acting):
    """A task of an environment, and what the agent's episodes are held to.

    The task is named, never quoted: what belongs to it lies with the worker. With a `judge` a model
    says whether an episode succeeded, and no more than two are tried: without feedback from outside
    self-correction makes answers worse. Examples replace those of the environment.
    """

    subject_field = "task"
    # What an environment shows of each step is long.
    result_bytes = inf

    task: TaskName
    tasks: Folder | None = Field(
        None, description="The file of the task, on the worker's machine, for code and documents."
    )
    strategy: Strategy = Field(
        "reflexion",
        description="What the next episode is told: nothing, the last one, reflections or both.",
    )
    episode_limit: int | None = Field(
        None, ge=1, le=MOST_EPISODES, description="The most episodes; 5, or 2 with a judge."
    )
    plateau_episodes: int = Field(
        5,
        ge=0,
        le=MOST_EPISODES,
        description="Stop after so many episodes without gain on a best return above 0; 0: never.",
    )
    memory: MemoryName | None = Field(
        None, description="A memory that other runs of this name read and add to."
    )
    scope: Scope = Field(
        "task", description="Whose reflections are read: of this task, environment, or all."
    )
    judge: ModelName | None = Field(
        None, description="A model that says whether an episode succeeded, in place of the tests."
    )
    reflector: ModelName | None = Field(None, description="The model that reflects.")
    planner_examples: Annotated[tuple[PlannerExample, ...] | None, FailFast()] = Field(
        None, min_length=1, max_length=20
    )
    reflector_examples: Annotated[tuple[ReflectorExample, ...] | None, FailFast()] = Field(
        None, min_length=1, max_length=20
    )
    seed: int | None = Field(None, ge=0, le=2**31, description="The model's seed, if it takes one.")

    @property
    def episodes(self) -> int:
        """The most episodes."""
        return self.episode_limit or (JUDGED_EPISODES if self.judge else 5)

    @property
    def reflects(self) -> bool:
        """Whether a failed episode is reflected on."""
        return "reflexion" in self.strategy

    def most_calls(self) -> Iterator[tuple[str | None, int]]:
        """Yield the models of a run, each with the most calls of it."""
        yield self.model, self.episodes * self.step_limit
        if self.reflects:
            yield self.reflector or self.model, self.episodes
        if self.judge is not None:
            yield self.judge, 2 * self.episodes

    @property
    def scope_key(self) -> str:
        """Name whose reflections are read and added to in a shared memory."""
        if self.scope != "task":
            return self.environment if self.scope == "environment" else "*"
        if not (self.environment_seed or self.tasks or self.docs):
            return f"{self.environment}/{self.task}"
        # The same name is another task in another file, or by another seed.
        of = [self.environment, self.task, self.environment_seed, self.tasks, self.docs]
        return to_json(of).decode()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.judge is not None and self.episodes > JUDGED_EPISODES:
            most = f"at most {JUDGED_EPISODES} where a model judges"
            raise ValueError(f"episode_limit: {most}, since it makes answers worse to go on")
        size = examples_bytes(self.planner_examples or (), self.reflector_examples or ())
        if size > EXAMPLES_BYTES:
            raise ValueError(f"examples: {size:,} bytes exceed the limit of {EXAMPLES_BYTES:,}")
        return self


class MemoryRequest(Request):
    """A memory that runs share, by its name; `held` is what an earlier history had of it."""

    subject_field = "name"

    name: MemoryName
    held: SharedMemory = SharedMemory()
