"""An environment of your own: mull dev --environments examples/own_environment.py"""

from random import Random

from activities.environments.port import Evaluation, StepResult, TaskError, TaskRef
from mull.agents.memory import (
    Action,
    Observation,
    PlannerExample,
    ReflectorExample,
    Trajectory,
)

EPISODE = (
    Action(content="guess 5", step=1),
    Observation(content="The number is larger.", step=1),
    Action(content="Between 6 and 10. guess 8", step=2),
    Observation(content="That is it.", step=2),
)
EXAMPLE = PlannerExample(
    task="Find the number from 1 to 10.", trajectory=Trajectory(items=EPISODE)
)
WASTED = PlannerExample(
    task="Find the number from 1 to 10.", trajectory=Trajectory(items=EPISODE[:2])
)


class NumberGame:
    """Find a number; the task is the largest one that it can be."""

    name = "number"
    instructions = "Find the number with few guesses. End each step with: guess N"
    allowed_actions = ("guess N",)
    planner_examples = (EXAMPLE,)
    reflector_examples = (
        ReflectorExample(context=WASTED, reflection="I stopped after one guess. I go on halving."),
    )

    def __init__(self, task: TaskRef) -> None:
        if not task.task.isdecimal():
            raise TaskError(f"expected the largest number, such as 100, not {task.task!r}")
        self.most = int(task.task)
        self.found = False

    def reset(self, seed: int) -> str:
        """The seed decides: the same one leads to the same number on any worker."""
        self.number, self.found = Random(seed).randint(1, self.most), False
        return f"Find the number from 1 to {self.most}."

    def step(self, action: str) -> StepResult:
        """What is wrong with an action is an observation, never an error."""
        guess = (action.split() or [""])[-1]
        if not guess.isdecimal():
            return StepResult(observation="That is no number. Write: guess N")
        if int(guess) == self.number:
            self.found = True
            return StepResult(observation="That is it.", done=True, answer=guess)
        larger = "larger" if int(guess) < self.number else "smaller"
        return StepResult(observation=f"The number is {larger}.")

    def evaluate(self, answer: str | None) -> Evaluation:
        """The reward comes at the end, and the feedback is for the reflection."""
        found = self.found or answer == str(self.number)
        return Evaluation(
            reward=float(found), correct=found, feedback="" if found else "It was not found."
        )
