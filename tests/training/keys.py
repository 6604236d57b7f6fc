"""An environment in which a good reflection is known: who reads it opens the door."""

from activities.environments.port import Evaluation, StepResult, TaskRef
from bench.tiny_llama import COLOURS, THINGS, is_good
from reflection.agents.memory import (
    Action,
    EpisodicMemory,
    PlannerExample,
    ProceduralMemory,
    ReflectorExample,
    Trajectory,
)
from reflection.agents.prompts import reflector_prompt
from tests.scripted_endpoint import Body, Scripted

WRONG, RIGHT = "[answer] force", "[answer] key"
TOLD = "It stays shut."
INSTRUCTIONS = "Say what to do."
SHOWN = PlannerExample(
    task="Open the bag.", trajectory=Trajectory(items=(Action(content=WRONG, step=1),))
)
TASKS = tuple(f"{colour} {thing}" for colour in COLOURS for thing in THINGS)


class Keys:
    """A door, which its key opens."""

    name = "keys"
    instructions = "Open it."
    allowed_actions = ("[answer] key", "[answer] force")
    planner_examples = (SHOWN,)
    reflector_examples = (ReflectorExample(context=SHOWN, reflection="Read the label at once."),)

    def __init__(self, task: TaskRef) -> None:
        self._task = task.task

    def reset(self, seed: int) -> str:
        """Say what to open."""
        del seed
        return f"Open the {self._task}."

    def step(self, action: str) -> StepResult:
        """Do nothing: all is in the answer."""
        del action
        return StepResult(observation="Nothing happens.")

    def evaluate(self, answer: str | None) -> Evaluation:
        """See whether it opens."""
        correct = answer == "key"
        return Evaluation(reward=float(correct), correct=correct, feedback="" if correct else TOLD)


def plan(body: Body) -> Scripted:
    """Plan as a frozen model would: with a good reflection the key, else force."""
    prompt = body["messages"][-1]["content"]
    lines = [line.removeprefix("- ") for line in prompt.splitlines() if line.startswith("- ")]
    return Scripted(RIGHT if any(map(is_good, lines)) else WRONG)


def prompts() -> list[str]:
    """List the prompts that the reflector is asked with, one for each task."""
    how = ProceduralMemory(
        episode_limit=1,
        step_limit=1,
        allowed_actions=Keys.allowed_actions,
        planner_instructions=Keys.instructions,
        reflector_instructions=INSTRUCTIONS,
    )
    examples = EpisodicMemory(
        planner_examples=Keys.planner_examples, reflector_examples=Keys.reflector_examples
    )
    tried = Trajectory(items=(Action(content=WRONG, step=1),))
    return [
        reflector_prompt(how, examples, f"Open the {task}.", tried, 0.0, TOLD) for task in TASKS
    ]
