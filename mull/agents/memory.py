"""The memories of Reflexion's agents and of Retroformer's, as values that keep the source's rules.

Each operation returns a new value, or raises MemoryRuleError where a rule of the source forbids
it. The numbers of the rules are those of the source's equations:

1  reset empties short-term memory        2  `is_done`: the action contains `[answer]`
3  at most 3 reflections are held         4  one is added where fewer than 3 are held
5  Action, Observation, in turn           6  adding appends one item, of the kind that is due
7  Action, Observation, Reward, in turn   8  as 6, for these
9  `train_data` has at most 2 items

Source: FALAA's formal description of Reflexion and Retroformer.
"""

from hashlib import sha256
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, FailFast, Field, model_validator
from pydantic_core import to_json

from mull.request import MOST_LISTED, MOST_MEMBERS, Record, Words

ANSWER = "[answer]"
MOST_REFLECTIONS = 3
MOST_TRAIN_DATA = 2
# What a memory that runs share may take in an event, and of how many reflections it knows.
SHARED_BYTES = 250_000
KNOWN = 1_000


class MemoryRuleError(ValueError):
    """A rule of the source forbids this operation; the message names it."""


class Action(Record):
    """What the planner wrote at a step, from 1: a thought and an action, or the answer."""

    kind: Literal["action"] = "action"
    content: str
    step: int


class Observation(Record):
    """What the environment answered to the action of the same step."""

    kind: Literal["observation"] = "observation"
    content: str
    step: int


class Reward(Record):
    """What the action and the observation of the same step are worth."""

    kind: Literal["reward"] = "reward"
    content: float
    step: int


Item = Annotated[Action | Observation | Reward, Field(discriminator="kind")]


def is_done(action: Action) -> bool:
    """Tell whether an action is the final answer (equation 2)."""
    return ANSWER in action.content


class Trajectory(Record):
    """An episode so far: items in turn, the kinds of `cycle` over and over (equations 5 to 8)."""

    # A trajectory with rewards is none without, though its class is one.
    model_config = ConfigDict(revalidate_instances="subclass-instances")

    cycle: ClassVar[tuple[type[Record], ...]] = (Action, Observation)

    items: Annotated[tuple[Item, ...], FailFast()] = Field((), max_length=MOST_LISTED)

    @property
    def due(self) -> type[Record]:
        """The kind of item that comes next."""
        return self.cycle[len(self.items) % len(self.cycle)]

    def add(self, item: Action | Observation | Reward) -> Self:
        """Append one item of the kind that is due."""
        if not isinstance(item, self.due):
            raise MemoryRuleError(f"{self.due.__name__} is due, not {type(item).__name__}")
        return self.model_copy(update={"items": (*self.items, item)})

    @model_validator(mode="after")
    def _in_turn(self) -> Self:
        for index, item in enumerate(self.items):
            if not isinstance(item, self.cycle[index % len(self.cycle)]):
                raise MemoryRuleError(f"item {index + 1} is {type(item).__name__}, out of turn")
        return self


class RetroformerTrajectory(Trajectory):
    """An episode so far, with a reward for each step."""

    cycle: ClassVar[tuple[type[Record], ...]] = (Action, Observation, Reward)


AnyTrajectory = Trajectory | RetroformerTrajectory


class ShortTermMemory(Record):
    """What is known of the task under way: all of it is gone after a reset."""

    task: str = ""
    answer: str = ""
    trajectory: Trajectory = Trajectory()
    reward: float = 0.0

    def reset(self) -> Self:
        """Empty every attribute (equation 1)."""
        return type(self)()

    def update_task(self, task: str) -> Self:
        """Begin a task."""
        return self.reset().model_copy(update={"task": task})

    def clear_episode(self) -> Self:
        """Empty what belongs to one episode, before the next one begins.

        The source never does, and then breaks its own rules 6 and 8.
        """
        empty = type(self)()
        known = {"answer": "", "trajectory": empty.trajectory, "reward": 0.0}
        return self.model_copy(update=known)

    def add_to_trajectory(self, item: Action | Observation | Reward) -> Self:
        """Append one item to the trajectory, of the kind that is due (equations 6 and 8)."""
        return self.model_copy(update={"trajectory": self.trajectory.add(item)})

    def set_answer(self, answer: str) -> Self:
        """Keep the final answer."""
        return self.model_copy(update={"answer": answer})

    def set_reward(self, reward: float) -> Self:
        """Keep what the episode is worth."""
        return self.model_copy(update={"reward": reward})


class TrainItem(Record):
    """A reflection that was tried: its prompt, its text, and the rewards of the next episode."""

    prompt: str
    reflection: str
    rewards: float


class RetroformerMemory(ShortTermMemory):
    """Retroformer's short-term memory, which also holds what its training collects."""

    trajectory: RetroformerTrajectory = RetroformerTrajectory()
    accumulated_rewards: float = 0.0
    train_data: tuple[TrainItem, ...] = Field((), max_length=MOST_TRAIN_DATA)
    best_reflect: str = ""
    last_reflector_prompt: str = ""

    def set_reward(self, reward: float) -> Self:
        """Keep what the episode is worth: the rewards of its steps and of its end."""
        return super().set_reward(reward).model_copy(update={"accumulated_rewards": reward})

    def begin_choice(self, prompt: str) -> Self:
        """Keep the prompt of the reflections to choose from, before one is the best.

        The source never clears the best one, and might store it again.
        """
        return self.model_copy(update={"best_reflect": "", "last_reflector_prompt": prompt})

    def set_best_reflect(self, reflection: str) -> Self:
        """Keep the best reflection so far."""
        return self.model_copy(update={"best_reflect": reflection})

    def add_train_data(self, item: TrainItem) -> Self:
        """Keep a reflection that was tried (equation 9)."""
        if len(self.train_data) >= MOST_TRAIN_DATA:
            raise MemoryRuleError(f"train_data holds {MOST_TRAIN_DATA} items already")
        return self.model_copy(update={"train_data": (*self.train_data, item)})


class Reflection(Record):
    """A reflection, and where it comes from.

    `workflow_id` and `episode`, from 1, name the failure that it was made of.
    """

    text: Words
    environment: str = ""
    task: str = ""
    workflow_id: str = ""
    episode: int = 0


class SemanticMemory(Record):
    """The reflections that the planner reads, the oldest first: at most 3 (equation 3)."""

    reflections: Annotated[tuple[Reflection, ...], FailFast()] = Field(
        (), max_length=MOST_REFLECTIONS
    )

    def add(self, reflection: Reflection) -> Self:
        """Add one; fewer than 3 are held before (equation 4)."""
        if len(self.reflections) >= MOST_REFLECTIONS:
            raise MemoryRuleError(f"{MOST_REFLECTIONS} reflections are held already")
        return self.model_copy(update={"reflections": (*self.reflections, reflection)})

    def delete_oldest(self) -> Self:
        """Drop the oldest one."""
        return self.model_copy(update={"reflections": self.reflections[1:]})

    def remember(self, reflection: Reflection) -> Self:
        """Add one, after the oldest was dropped where 3 are held."""
        full = len(self.reflections) >= MOST_REFLECTIONS
        return (self.delete_oldest() if full else self).add(reflection)

    def holds(self, text: str) -> bool:
        """Tell whether a reflection in these words is held."""
        return any(text.split() == held.text.split() for held in self.reflections)


class PlannerExample(Record):
    """A task that was solved, to show the planner how."""

    task: str
    trajectory: Trajectory


class ReflectorExample(Record):
    """An episode that failed, and a good reflection on it."""

    context: PlannerExample
    reflection: str


class EpisodicMemory(Record):
    """The examples. None of them may be missing: without, a model answers instead of reflecting."""

    planner_examples: tuple[PlannerExample, ...] = Field(min_length=1)
    reflector_examples: tuple[ReflectorExample, ...] = Field(min_length=1)


class ProceduralMemory(Record):
    """How to work: the limits, the actions that are allowed, and the instructions."""

    episode_limit: int = Field(ge=1)
    step_limit: int = Field(ge=1)
    allowed_actions: tuple[str, ...] = Field(min_length=1)
    planner_instructions: Words
    reflector_instructions: Words


class SharedMemory(Record):
    """The semantic memories of a task family, by scope: what runs of `--memory NAME` share.

    `known` are digests of the newest reflections and where they come from, so that each is added
    once: a workflow's id may be used again, by a run that reflects anew.
    """

    scopes: dict[str, SemanticMemory] = Field(default_factory=dict, max_length=MOST_MEMBERS)
    known: Annotated[tuple[str, ...], FailFast()] = Field((), max_length=KNOWN)

    def of(self, scope: str) -> SemanticMemory:
        """Return what a scope holds."""
        return self.scopes.get(scope, SemanticMemory())

    def remember(self, scope: str, reflection: Reflection) -> "SharedMemory":
        """Add a reflection to a scope, once; the scopes that have been idle longest make room."""
        digest = sha256(reflection.model_dump_json().encode()).hexdigest()[:16]
        if digest in self.known:
            return self
        others = {name: held for name, held in self.scopes.items() if name != scope}
        scopes = {**others, scope: self.of(scope).remember(reflection)}
        while len(scopes) > MOST_MEMBERS or len(to_json(scopes)) > SHARED_BYTES:
            del scopes[next(iter(scopes))]
        return SharedMemory(scopes=scopes, known=(*self.known, digest)[-KNOWN:])

    def clear(self, scope: str | None = None) -> "SharedMemory":
        """Forget what a scope holds, or everything; what comes again is not added again."""
        kept = {name: held for name, held in self.scopes.items() if scope not in {None, name}}
        return SharedMemory(scopes=kept, known=self.known)
