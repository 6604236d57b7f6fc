"""Agents with a scripted model, in an environment that counts up to the task's number."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from temporalio.client import Client, WorkflowHandle

import worker
from activities.environments.port import (
    Evaluation,
    Named,
    StepResult,
    TaskError,
    TaskRef,
    Verdict,
)
from activities.language_model.port import ModelCall, ModelError, ModelReply
from activities.tools.activity import ToolActivities
from adapters import QUEUES
from mull.agents.memory import (
    Action,
    Observation,
    PlannerExample,
    ReflectorExample,
    Trajectory,
)
from mull.agents.result import ReflexionResult
from mull.run import Spending
from tests.conftest import STRICT, begin
from tests.patience import PATIENCE

Handle = WorkflowHandle[Any, Any]
Said = str | ModelError | Callable[[ModelCall], Any]

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
        """Compare the answer."""
        if answer is None:
            return Evaluation(reward=0, correct=False, feedback="There is no answer.")
        right = answer == str(self.wanted)
        return Evaluation(reward=0.5 * right, correct=right, feedback=f"It said {answer}.")


class HiddenCounting(Counting):
    """The same with a hidden test, which only the number seven passes."""

    name = "hidden"

    def verify(self, answer: str) -> Verdict:
        """Say whether it is seven."""
        return Verdict(passed=answer == "7", status="ok")


class ScriptedAgent:
    """Reply to each call with the next line of its kind: plan, reflect or judge.

    A line is a text, an error, or a function of the call. A call that is not foreseen fails the
    run, loudly.
    """

    def __init__(
        self,
        plans: Sequence[Said] = (),
        reflections: Sequence[Said] = (),
        verdicts: Sequence[Said] = (),
    ) -> None:
        self._lines = {"plan": [*plans], "reflect": [*reflections], "judge": [*verdicts]}
        self.calls: list[ModelCall] = []

    async def complete(self, call: ModelCall) -> ModelReply:
        """Reply by the script. Raises the script's errors."""
        self.calls.append(call)
        lines = self._lines[kind_of(call)]
        said = lines.pop(0) if lines else ModelError(f"no line for a {kind_of(call)}")
        said = said(call) if callable(said) else said
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, ModelError):
            raise said
        return ModelReply(
            text=said,
            model="scripted/model",
            provider="scripted",
            finish_reason="stop",
            spending=Spending(
                calls=1, input_tokens=80, output_tokens=20, cached_tokens=0, cost_usd=0.001
            ),
        )

    def prompts(self, kind: str) -> list[str]:
        """List the prompts of the calls of this kind."""
        return [call.prompt for call in self.calls if kind_of(call) == kind]


def kind_of(call: ModelCall) -> str:
    """Tell the planner's, the reflector's and a judge's calls apart by what they are shown."""
    if "Judge whether its answer" in call.prompt:
        return "judge"
    return "reflect" if call.prompt.endswith("Reflection:") else "plan"


@asynccontextmanager
async def served(client: Client, model: Any, *makers: Any, **options: Any) -> AsyncIterator[None]:
    """Serve agents with this model and these environments."""
    named = [Named(kind.name, kind) for kind in makers or (Counting, HiddenCounting)]
    async with AsyncExitStack() as stack:
        for one in worker.build(
            client,
            QUEUES,
            model,
            called=ToolActivities({}),
            environments=named,
            **(STRICT | options),
        ):
            await stack.enter_async_context(one)
        yield


async def run(client: Client, request: dict[str, Any]) -> ReflexionResult:
    """Run an agent to its end."""
    handle = await start(client, request)
    return ReflexionResult.model_validate(await asyncio.wait_for(handle.result(), PATIENCE))


async def start(
    client: Client, request: dict[str, Any], workflow: str = "ReflexionWorkflow"
) -> Handle:
    """Start an agent as any client would, with one JSON object."""
    whole = {"environment": "counting", "task": "7", "max_attempts": 1} | request
    return await begin(client, whole, workflow)


async def calls_of(handle: Handle) -> list[str]:
    """List the activities of a run in the order in which they began, but for local ones."""
    history = await handle.fetch_history()
    begun = [event.activity_task_scheduled_event_attributes for event in history.events]
    return [one.activity_type.name for one in begun if one.activity_id]
