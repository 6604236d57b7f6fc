"""Environments that behave badly, for a process of their own."""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from activities.environments.port import Evaluation, StepResult, TaskError, TaskRef
from activities.environments.tasks import episode
from mull.agents.memory import PlannerExample, ReflectorExample


class Toy:
    """It counts its steps, and does to its process what an action says."""

    name = "toy"
    instructions = "Do as you like."
    allowed_actions: tuple[str, ...] = ("wait",)
    planner_examples: tuple[PlannerExample, ...] = (episode("Wait.", "wait"),)
    reflector_examples: tuple[ReflectorExample, ...] = (
        ReflectorExample(context=episode("Wait.", "go"), reflection="I wait."),
    )

    def __init__(self, task: TaskRef) -> None:
        self.task = task.task
        self.steps: list[str] = []

    def reset(self, seed: int) -> str:
        if self.task == "none":
            raise TaskError("there is no such toy")
        if self.task == "stuck":
            time.sleep(600)
        self.allowed_actions = ("wait", f"say {seed}")
        return f"toy {self.task}"

    def step(self, action: str) -> StepResult:
        known: dict[str, Callable[[], Any]] = {
            "variables": lambda: json.dumps(dict(os.environ)),
            "process": lambda: str(os.getpid()),
            "exit": lambda: sys.exit(3),
            "end": lambda: os._exit(4),
            "crash": lambda: ctypes.string_at(0),
            # In C, with the interpreter's lock held.
            "hang": lambda: ctypes.PyDLL(None).sleep(600),
            "fill": lambda: bytearray(3 << 30),
            "print": lambda: print("\0" * 100_000),
            "large": lambda: "x" * 1_000_000,
        }
        if action == "raise":
            raise ValueError("no such verb")
        if action == "refuse":
            raise TaskError("no such task")
        self.steps.append(action)
        said = known.get(action, lambda: None)()
        return StepResult(observation=said or f"{len(self.steps)}: {action}, {hash('a')}")

    def evaluate(self, answer: str | None) -> Evaluation:
        if answer == "endless":
            return Evaluation(reward=float(9**9**9**9), correct=True)
        if answer == "exit":
            os._exit(1)
        return Evaluation(reward=len(self.steps), correct=True)
