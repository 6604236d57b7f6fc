"""Agents with a scripted model, in an environment that counts up to the task's number."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from temporalio.client import Client

from activities.environments.port import Evaluation, Named, StepResult, TaskError, TaskRef, Verdict
from activities.language_model.port import LanguageModel
from activities.tools.activity import ToolActivities
from mull.agents.memory import Action, Observation, PlannerExample, ReflectorExample, Trajectory
from mull.agents.result import ReflexionResult
from tests import conftest
from tests.conftest import Handle, begin

EXAMPLE = PlannerExample(
    task="Count to 1.",
    trajectory=Trajectory(
        items=(
            Action(content="add[1]", step=1),
            Observation(content="The sum is 1.", step=1),
            Action(content="Done. [answer] 1", step=2),
        )
    ),
)


class Counting:
    """`add[N]` adds to a sum; the answer is the task's number. It keeps count of its lives."""

    name = "counting"
    instructions = "Count up to the number, then answer with it."
    allowed_actions = ("add[N]: adds N", "[answer] N: the final answer")
    planner_examples = (EXAMPLE,)
    reflector_examples = (ReflectorExample(context=EXAMPLE, reflection="I should have added 1."),)

    made: list["Counting"] = []  # noqa: RUF012 - what a test looks at

    def __init__(self, task: TaskRef) -> None:
        if not task.task.isdigit():
            raise TaskError(f"{task.task!r} is no number")
        self.wanted, self.sum = int(task.task), 0
        self.taken: list[str] = []
        Counting.made.append(self)

    def reset(self, seed: int) -> str:
        """Begin at the seed."""
        self.sum = seed
        return f"Count to {self.wanted}."

    def step(self, action: str) -> StepResult:
        """Add a number; half of what is right is earned on the way."""
        self.taken.append(action)
        if "add[" not in action:
            return StepResult(observation="Nothing happens.")
        self.sum += int(action.partition("add[")[2].partition("]")[0])
        reached = self.sum == self.wanted
        return StepResult(observation=f"The sum is {self.sum}.", reward=0.5 if reached else 0.0)

    def evaluate(self, answer: str | None) -> Evaluation:
        if answer is None:
            return Evaluation(reward=0, correct=False, feedback="There is no answer.")
        right = answer == str(self.wanted)
        return Evaluation(reward=0.5 * right, correct=right, feedback=f"It said {answer}.")


class HiddenCounting(Counting):
    """The same with a hidden test, which only the number seven passes."""

    name = "hidden"

    def verify(self, answer: str) -> Verdict:
        return Verdict(passed=answer == "7", status="ok")


def served(
    client: Client, model: LanguageModel, *makers: Any, **options: Any
) -> AbstractAsyncContextManager[None]:
    named = [Named(kind.name, kind) for kind in makers or (Counting, HiddenCounting)]
    known: dict[str, Any] = {"called": ToolActivities({}), "environments": named}
    return conftest.served(client, model, **known | options)


async def run(client: Client, request: dict[str, Any] | None = None) -> ReflexionResult:
    return await ended(await start(client, request))


async def solve(
    client: Client, model: LanguageModel, request: dict[str, Any] | None = None, *makers: Any
) -> ReflexionResult:
    async with served(client, model, *makers):
        return await run(client, request)


async def start(
    client: Client, request: dict[str, Any] | None = None, workflow: str = "ReflexionWorkflow"
) -> Handle:
    whole = {"environment": "counting", "task": "7", "max_attempts": 1} | (request or {})
    return await begin(client, whole, workflow)


async def ended(handle: Handle) -> ReflexionResult:
    return ReflexionResult.model_validate(await conftest.ended(handle))
