"""Tasks in which the right reflection names the right thing, not one fixed word.

A task asks for one of several things. After a failure the environment names a right and a wrong
one; a reflection helps if it names the right one and no other. A seeded generator makes the tasks,
of five kinds. `other-N` has another wording than `task-N`: models learn from these and are measured
on those. `bench.training --real` trains SmolLM2 on them, and examples/README.md says how
to try `mull train` with them on a laptop.
"""

import random
import re
from itertools import permutations
from typing import NamedTuple

from activities.environments.port import Evaluation, StepResult, TaskRef
from mull.agents.memory import (
    Action,
    EpisodicMemory,
    PlannerExample,
    ProceduralMemory,
    ReflectorExample,
    Trajectory,
)
from mull.agents.prompts import reflector_prompt


class Kind(NamedTuple):
    """A kind of task: its question, the things to name, and two wordings of the feedback."""

    question: str
    things: tuple[str, ...]
    told: str
    told_otherwise: str


KINDS = (
    Kind(
        "Which handle opens the gate?",
        ("red", "blue", "green", "black", "white", "yellow"),
        "The {wrong} handle is broken. The {right} handle opens the gate.",
        "Someone pulled the {wrong} handle in vain, but with the {right} one the gate swings open.",
    ),
    Kind(
        "Who has the key of the cellar?",
        ("Anna", "Boris", "Clara", "David", "Emma", "Frank"),
        "{wrong} lost the key. {right} has the key of the cellar.",
        "The key that hung with {wrong} is gone; it is {right} who keeps the key now.",
    ),
    Kind(
        "On which day is the library open?",
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
        "The library is closed on {wrong}. The library is open on {right}.",
        "{wrong} is a holiday of the staff, and readers are let in on {right} alone.",
    ),
    Kind(
        "Which spice is missing from the soup?",
        ("pepper", "cinnamon", "ginger", "saffron", "cumin", "nutmeg"),
        "There is too much {wrong} in the soup. The soup needs {right}.",
        "With {right} the soup would be as it should, and {wrong} spoils it.",
    ),
    Kind(
        "Which tool mends the pump?",
        ("hammer", "wrench", "saw", "file", "drill", "chisel"),
        "The {wrong} is too heavy. The {right} mends the pump.",
        "He tried it with the {wrong} and slipped; the pump ran again after the {right}.",
    ),
)
WRONG = "[answer] nothing"
INSTRUCTIONS = "Answer the question in one short sentence."


def failed(question: str) -> PlannerExample:
    """Show an attempt that failed."""
    return PlannerExample(
        task=question, trajectory=Trajectory(items=(Action(content=WRONG, step=1),))
    )


SHOWN = failed("Which bell calls the cook?")


class Puzzle(NamedTuple):
    """A task: its question, the things to name, the right one, and the feedback on a failure."""

    question: str
    things: tuple[str, ...]
    right: str
    told: str


def puzzle(name: str) -> Puzzle:
    """Make the task of a name, `task-N` or `other-N`: the first 75 of each are all different."""
    kind_of, _, number = name.rpartition("-")
    place, otherwise = int(number), kind_of == "other"
    kind = KINDS[place % len(KINDS)]
    pairs = [*permutations(kind.things, 2)]
    random.Random(kind.question).shuffle(pairs)
    # The others begin in the middle, so that they have other answers, too.
    right, wrong = pairs[(place // len(KINDS) + otherwise * len(pairs) // 2) % len(pairs)]
    told = (kind.told_otherwise if otherwise else kind.told).format(wrong=wrong, right=right)
    return Puzzle(kind.question, kind.things, right, f"{told} {kind.question}")


def named(reflection: str, things: tuple[str, ...]) -> set[str]:
    """List the things that a reflection names."""
    words = set(re.findall(r"\w+", reflection.lower()))
    return {thing for thing in things if thing.lower() in words}


def is_right(made: Puzzle, reflection: str) -> bool:
    """Return True if a reflection names the right thing of a task and no other."""
    return named(reflection, made.things) == {made.right}


class Hints:
    """A question whose answer only a failure's feedback shows."""

    name = "hints"
    instructions = "Answer with one word."
    allowed_actions = ("[answer] WORD",)
    planner_examples = (SHOWN,)
    reflector_examples = (
        ReflectorExample(context=SHOWN, reflection="The brass bell calls the cook."),
    )

    def __init__(self, task: TaskRef) -> None:
        self._puzzle = puzzle(task.task)

    def reset(self, seed: int) -> str:
        """Ask."""
        del seed
        return self._puzzle.question

    def step(self, action: str) -> StepResult:
        """Take the action as the answer: a small model forgets to mark one."""
        return StepResult(observation="That was your answer.", done=True, answer=action)

    def evaluate(self, answer: str | None) -> Evaluation:
        """Accept an answer that names only the right thing; the feedback on others names it."""
        correct = is_right(self._puzzle, answer or "")
        told = "" if correct else self._puzzle.told
        return Evaluation(reward=float(correct), correct=correct, feedback=told)


def reflection_prompt(made: Puzzle) -> str:
    """Write the prompt of a reflection on a task, as a rollout does."""
    how = ProceduralMemory(
        episode_limit=1,
        step_limit=1,
        allowed_actions=Hints.allowed_actions,
        planner_instructions=Hints.instructions,
        reflector_instructions=INSTRUCTIONS,
    )
    examples = EpisodicMemory(
        planner_examples=Hints.planner_examples, reflector_examples=Hints.reflector_examples
    )
    return reflector_prompt(how, examples, made.question, SHOWN.trajectory, 0.0, made.told)
