"""The request of a Reflexion run, of a memory that runs share, and how a model is trained."""

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import Annotated, Literal, Self

from pydantic import FailFast, Field, StringConstraints, model_validator
from pydantic_core import to_json

from mull.agents.memory import PlannerExample, ReflectorExample, SharedMemory
from mull.agents.prompts import examples_bytes
from mull.agents.training_result import Method
from mull.multipath.request import Folder
from mull.option import OnlyWith, bound_option, model_option, option
from mull.request import Bounded, Frozen, ModelName, Request, Seconds, Words, output_limit, time_out

# The environment whose actions run as untrusted code.
CODE = "code"
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

LEARNING: OnlyWith = {"strategy": ("reflexion", "last_episode_and_reflexion")}
task_option, episode_option = partial(option, "Task"), partial(option, "Episodes")
memory_option, prompt_option = partial(option, "Memory"), partial(option, "Prompts")
training_option = partial(option, "Training")
SUITED = "by default as suits the method and the model"
OWN, OWN_EXAMPLES = (
    "Your own, in place of those that are there.",
    "Your own, as JSON, in place of the environment's.",
)


class Acting(Frozen):
    """An environment to act in, and what each episode and call there is held to."""

    environment: Name = task_option(
        ..., "Where to act: code, documents, puzzles, textworld or one of yours.", flag="--env"
    )
    docs: Folder | None = task_option(
        None, "A folder to search, on the worker's machine, for documents.", "folder", common=True
    )
    environment_seed: int = task_option(
        0, "The seed by which each episode begins.", flag="--env-seed", ge=0, le=2**31
    )
    step_limit: int = episode_option(15, "The most steps of an episode.", ge=1, le=MOST_STEPS)
    temperature: float = model_option(
        0.0, "The planner's and the reflector's.", ge=0, le=2, allow_inf_nan=False
    )
    max_output_tokens: int | None = output_limit("reply", 2_000, model_option, common=True)
    planner_instructions: Instructions | None = prompt_option(None, OWN, "text")
    reflector_instructions: Instructions | None = prompt_option(None, OWN, "text")
    call_timeout_seconds: float | None = time_out("call of a model")
    step_timeout_seconds: float = bound_option(
        60, "Seconds for one action.", flag="--step-timeout", ge=1, le=600, allow_inf_nan=False
    )


class Tuning(Frozen):
    """How a model is trained. What is None suits the size of the model, or its memory.

    `max_length` is in tokens. `beta` is PPO's and RLOO's weight of the KL divergence, and KTO's and
    DPO's beta.
    """

    method: Method = training_option(
        "ppo", "What tunes the reflector: kto and dpo gained most where measured.", common=True
    )
    seed: int = training_option(0, "The seed of sampling and of training.", ge=0, le=2**31)
    epochs: float | None = training_option(
        None, f"Passes over the rows; {SUITED}.", gt=0, le=1_000, allow_inf_nan=False
    )
    learning_rate: float | None = training_option(
        None, f"The learning rate of a step; {SUITED}.", gt=0, le=1, allow_inf_nan=False
    )
    lora_rank: int | None = training_option(
        None, f"The rank of the adapter; {SUITED}.", ge=1, le=1_024
    )
    lora_alpha: float | None = training_option(
        None,
        f"The adapter is scaled by this over its rank; {SUITED}.",
        gt=0,
        le=4_096,
        allow_inf_nan=False,
    )
    batch_size: int | None = training_option(None, f"Rows of a step; {SUITED}.", ge=1, le=1_024)
    rows_at_once: int | None = training_option(
        None,
        "Rows of a step that are computed at once; by default what fits the memory.",
        ge=1,
        le=1_024,
    )
    beta: float | None = training_option(
        None,
        "How strongly the reflector is held to its base: PPO's and RLOO's weight of "
        f"the KL divergence, KTO's and DPO's beta; {SUITED}.",
        ge=0,
        le=100,
        allow_inf_nan=False,
    )
    max_length: int | None = training_option(
        None, "Tokens of a row; by default what the model reads.", ge=16, le=131_072
    )


class ReflexionRequest(Acting, Bounded):
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
        default=None,
        description="The file of the task, on the worker's machine, for code and documents.",
    )
    review_timeout_seconds: Seconds | None = Field(
        default=None, description="Not used: no person reviews these runs."
    )
    strategy: Strategy = episode_option(
        "reflexion", "What the next episode is told: nothing, the last one, reflections or both."
    )
    episode_limit: int | None = episode_option(
        None, "The most episodes; 5, or 2 with a judge.", common=True, ge=1, le=MOST_EPISODES
    )
    plateau_episodes: int = episode_option(
        5,
        "Stop after so many episodes without gain on a best return above 0; 0: never.",
        ge=0,
        le=MOST_EPISODES,
    )
    memory: MemoryName | None = memory_option(
        None,
        "A memory that other runs of this name read and add to.",
        common=True,
        only_with=LEARNING,
    )
    scope: Scope = memory_option(
        "task",
        "Whose reflections are read: of this task, environment, or all.",
        only_with={"memory": None},
    )
    judge: ModelName | None = model_option(
        None, "A model that says whether an episode succeeded, in place of the tests."
    )
    reflector: ModelName | None = model_option(None, "The model that reflects.", only_with=LEARNING)
    planner_examples: Annotated[tuple[PlannerExample, ...] | None, FailFast()] = prompt_option(
        None,
        OWN_EXAMPLES,
        "json",
        expected=f"a list of objects with {' and '.join(PlannerExample.model_fields)}",
        min_length=1,
        max_length=20,
    )
    reflector_examples: Annotated[tuple[ReflectorExample, ...] | None, FailFast()] = prompt_option(
        None,
        OWN_EXAMPLES,
        "json",
        expected=f"a list of objects with {' and '.join(ReflectorExample.model_fields)}",
        min_length=1,
        max_length=20,
    )
    seed: int | None = model_option(None, "The model's seed, if it takes one.", ge=0, le=2**31)

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
