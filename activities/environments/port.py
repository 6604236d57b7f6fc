"""The port to environments: their methods and tasks, and the results of actions.

An environment is a class with a name, instructions, actions and examples, made for one task. Its
state can be rebuilt: `reset` with the same seed and the same actions lead to the same state, on any
worker. Its methods may be `async`; those that are not run in a thread.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import Field, FiniteFloat

from activities.tools.functions import members_of
from mull.agents.memory import PlannerExample, ReflectorExample
from mull.agents.result import VerifiedBy
from mull.request import Record

# Bounds keep sums finite, and short names leave a result room for all metrics.
Worth = Annotated[float, Field(ge=-1e9, le=1e9)]
MetricName = Annotated[str, Field(max_length=100)]


class TaskError(Exception):
    """The task does not exist, or is not available here; a retry would not help."""


class TaskRef(Record):
    """A task of an environment, by name: its place, without its content.

    `tasks` is a file of tasks and `docs` a folder of documents, both on the worker's machine.
    """

    environment: str
    task: str
    seed: int = 0
    tasks: str | None = None
    docs: str | None = None


class StepResult(Record):
    """An environment's answer to an action.

    `done` ends the episode without the marker of an answer, like a game that is over; `answer` is
    then the agent's answer, if there was one.
    """

    observation: str
    reward: Worth = 0.0
    done: bool = False
    answer: str | None = None


class Evaluation(Record):
    """The worth of an episode, beside the rewards of its steps; `feedback` is for the reflector.

    `correct` is True if the task is solved. `metrics` are further ones of the environment, by name.
    `verified_by` is as in a Verdict.
    """

    reward: Worth
    correct: bool
    feedback: str = ""
    metrics: dict[MetricName, FiniteFloat] = Field(default_factory=dict, max_length=50)
    verified_by: VerifiedBy | None = None


class Verdict(Record):
    """The hidden test's verdict on the final answer, given once, and how its program ended.

    `verified_by` is `script` if it ran beside the code, which could forge that, or else `cases`.
    """

    passed: bool
    status: str = ""
    verified_by: VerifiedBy | None = None


class Environment(Protocol):
    """One task, from `reset` on. A method may be `async`.

    It may also have `close()`; `replay(action)`, which repeats an action's change of the state
    without observing it, for actions whose observations may differ each time; and
    `verify(answer)`, which runs a hidden test on the final answer and returns a Verdict.
    """

    name: str
    instructions: str
    allowed_actions: tuple[str, ...]
    planner_examples: tuple[PlannerExample, ...]
    reflector_examples: tuple[ReflectorExample, ...]

    def reset(self, seed: int) -> str | Awaitable[str]:
        """Begin an episode, and return the task in words. Raises TaskError."""
        ...

    def step(self, action: str) -> StepResult | Awaitable[StepResult]:
        """Take an action; report a wrong one as an observation, not as an error."""
        ...

    def evaluate(self, answer: str | None) -> Evaluation | Awaitable[Evaluation]:
        """Judge the episode by its answer, or None without one."""
        ...


Maker = Callable[[TaskRef], Environment]


class Named(NamedTuple):
    """An environment's name, and its maker."""

    name: str
    make: Maker


def environments_in(module: str) -> Iterator[Named]:
    """Import a module, by its name or the path of its file, and find the environments in it.

    These are its classes with `reset`, `step` and `evaluate`, each made with a TaskRef. Raises
    ValueError if it can't be imported or has no such classes.
    """
    found = members_of(module, "environments")
    own = found["__name__"]
    kinds: list[Any] = [
        kind
        for kind in found.values()
        if inspect.isclass(kind)
        and kind.__module__ == own
        and all(callable(getattr(kind, name, None)) for name in ("reset", "step", "evaluate"))
    ]
    if not kinds:
        raise ValueError(f"{module} has no class with reset, step and evaluate")
    for kind in kinds:
        lacks = [name for name in Environment.__annotations__ if not getattr(kind, name, None)]
        if lacks:
            missing = ", ".join(lacks)
            raise ValueError(f"{module}: {kind.__name__} lacks, or has empty: {missing}")
        yield Named(kind.name, kind)
