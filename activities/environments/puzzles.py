"""The environment `puzzles`: questions that reasoning-gym makes from a seed, and its own scorers.

A task is the name of a dataset, `chain_sum`, or one of its entries, counted from 0: `chain_sum:3`.
In most datasets the seed and the entry are added up: entry 1 of seed 0 is entry 0 of seed 1.
"""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from activities.environments.port import Evaluation, StepResult, TaskError, TaskRef
from reflection.agents.memory import (
    Action,
    Observation,
    PlannerExample,
    ReflectorExample,
    Trajectory,
)

PROCESS = Path(__file__).with_name("puzzle_process.py")
SECONDS = 30
ONLY_ANSWER = (
    "There is nothing to act on here. Reason about the question, then write [answer] and, after "
    "it, the answer alone, in the format that the question asks for."
)
SUM = "State the final answer to the following arithmetic problem: 57 + 87 - 70 ="
SORTED = "Sort these numbers in ascending order: 3, -1, 2. Answer as a list: [1, 2, 3]"


class Puzzles:
    """One entry of a dataset."""

    name = "puzzles"
    instructions = (
        "Answer the question. Reason first; the answer is checked by a program, so give it alone "
        "and in the format that the question asks for."
    )
    allowed_actions: tuple[str, ...] = ("[answer] ANSWER",)
    planner_examples: tuple[PlannerExample, ...] = (
        PlannerExample(
            task=SUM,
            trajectory=Trajectory(
                items=(Action(content="57 + 87 = 144, and 144 - 70 = 74. [answer] 74", step=1),)
            ),
        ),
    )
    reflector_examples: tuple[ReflectorExample, ...] = (
        ReflectorExample(
            context=PlannerExample(
                task=SORTED,
                trajectory=Trajectory(
                    items=(
                        Action(content="Which of them is the smallest?", step=1),
                        Observation(content=ONLY_ANSWER, step=1),
                        Action(content="In order: 2, 3, -1. [answer] 2, 3, -1", step=2),
                    )
                ),
            ),
            reflection="I took -1 for the largest number, by its digit, and left out the brackets. "
            "Next time I put negative numbers first, and copy the format that was asked for: "
            "[-1, 2, 3].",
        ),
    )

    def __init__(self, task: TaskRef) -> None:
        self._task = task.task
        self._seed = task.seed

    def reset(self, seed: int) -> str:
        """Return the question. Raises TaskError."""
        self._seed = seed
        return str(self._look(None)["question"])

    def step(self, action: str) -> StepResult:  # noqa: ARG002 - whatever it says
        """Say that the answer is all there is to do."""
        return StepResult(observation=ONLY_ANSWER)

    def evaluate(self, answer: str | None) -> Evaluation:
        """Score the answer as the package does, from 0 to 1; 1 is correct, and nothing less.

        A scorer gives parts of a point for an answer in the right form, or a longer text with the
        answer in it, and some give a little to every text.
        """
        if answer is None or not answer.strip():
            return Evaluation(reward=0.0, correct=False, feedback="No answer was given.")
        try:
            found = float(self._look(answer.strip())["score"])
        except subprocess.TimeoutExpired:
            said = f"The answer could not be scored within {SECONDS} s."
            return Evaluation(reward=0.0, correct=False, feedback=said)
        score = 0.0 if math.isnan(found) else min(1.0, max(0.0, found))
        told = "right" if score == 1 else "not right" if score else "wrong, or in another format"
        said = f"The answer is {told}: the scorer gives it {score:.3g} of 1."
        return Evaluation(reward=score, correct=score == 1, feedback=said)

    def _look(self, answer: str | None) -> dict[str, Any]:
        known = re.fullmatch(r"([\w-]+)(?::(\d{1,9}))?", self._task.strip())
        if known is None:
            raise TaskError(f"a puzzle is NAME or NAME:INDEX, such as chain_sum:3: {self._task!r}")
        name, index = known[1].replace("-", "_"), int(known[2] or 0)
        request = {"name": name, "index": index, "seed": self._seed, "answer": answer}
        # A few variables alone, so that no secret is there.
        kept = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
        done = subprocess.run(  # noqa: S603 - the worker's own Python and file
            [sys.executable, "-P", "-s", str(PROCESS)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
            env={**kept, "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RuntimeError(f"{self._task}: {lines[-1]}")
        reply: dict[str, Any] = json.loads(done.stdout)
        if "error" in reply:
            raise TaskError(reply["error"])
        return reply
