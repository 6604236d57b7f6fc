"""The environment `puzzles`: questions that reasoning-gym makes from a seed, and its own scorers.

A task is the name of a dataset, `chain_sum`, or one of its entries, counted from 0: `chain_sum:3`.
In most datasets the seed and the entry are added up: entry 1 of seed 0 is entry 0 of seed 1.

Several scorers evaluate the answer as Python, or by sympy, which does so too: they only get
literals and mathematics. For this, and for endless calls, puzzles need a process of their own.
"""

import ast
import difflib
import math
import re
import sys
from collections.abc import Callable
from typing import Any

from activities.environments.port import Environment, Evaluation, StepResult, TaskError, TaskRef
from activities.environments.tasks import episode
from mull.agents.memory import ReflectorExample
from mull.text import EXTRA

ONLY_ANSWER = (
    "There is nothing to act on here. Reason about the question, then write the marker of an "
    "answer and, after it, the answer alone, in the format that the question asks for."
)
SUM = "State the final answer to the following arithmetic problem: 57 + 87 - 70 ="
SORTED = "Sort these numbers in ascending order: 3, -1, 2. Answer as a list: [1, 2, 3]"
# The nodes of a literal, or a sum of literals; mathematics also has names and calls.
LITERAL = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Load),
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop),
)
FUNCTION = re.compile(r"a?(sin|cos|tan)h?|sec|csc|cot|exp|log|ln|sqrt|Abs|Rational")
NAME = re.compile(rf"[A-Za-z]|pi|{FUNCTION.pattern}")


class Puzzles(Environment):
    """One entry of a dataset."""

    name = "puzzles"
    instructions = (
        "Answer the question. Reason first; the answer is checked by a program, so give it alone "
        "and in the format that the question asks for."
    )
    allowed_actions = ("[answer] ANSWER",)
    planner_examples = (episode(SUM, "57 + 87 = 144, and 144 - 70 = 74. [answer] 74"),)
    reflector_examples = (
        ReflectorExample(
            context=episode(
                SORTED,
                "Which of them is the smallest?",
                ONLY_ANSWER,
                "In order: 2, 3, -1. [answer] 2, 3, -1",
            ),
            reflection="I took -1 for the largest number, by its digit, and left out the brackets. "
            "Next time I put negative numbers first, and copy the format that was asked for: "
            "[-1, 2, 3].",
        ),
    )

    def __init__(self, task: TaskRef) -> None:
        known = re.fullmatch(r"([\w-]+)(?::(\d{1,9}))?", task.task.strip())
        if known is None:
            raise TaskError(f"a puzzle is NAME or NAME:INDEX, such as chain_sum:3: {task.task!r}")
        self._name, self._index = known[1].replace("-", "_"), int(known[2] or 0)
        self._dataset: Any = None
        self._entry: Any = None

    def reset(self, seed: int) -> str:
        """Make the dataset, and return the question. Raises TaskError."""
        name, index = self._name, self._index
        try:
            restrict_evaluation()
            from reasoning_gym import create_dataset
            from reasoning_gym.factory import DATASETS
        except ModuleNotFoundError as error:
            extra = EXTRA.format("puzzles")
            raise TaskError(f"{error}: puzzles need the extra, {extra}") from None
        if name not in DATASETS:
            close = difflib.get_close_matches(name, DATASETS) or sorted(DATASETS)
            raise TaskError(f"reasoning-gym has no dataset {name!r}; it has {', '.join(close)}")
        try:
            self._dataset = create_dataset(name, seed=seed)
        except (AssertionError, TypeError, ValueError) as error:
            raise TaskError(f"{name} can't be made by a seed alone: {error}") from None
        if index >= len(self._dataset):
            raise TaskError(f"{name} has the entries 0 to {len(self._dataset) - 1}, not {index}")
        self._entry = self._dataset[index]
        return str(self._entry["question"])

    def step(self, action: str) -> StepResult:  # noqa: ARG002 - whatever it says
        """Say that giving the answer is the only action."""
        return StepResult(observation=ONLY_ANSWER)

    def evaluate(self, answer: str | None) -> Evaluation:
        """Score the answer as the package does, from 0 to 1; 1 is correct, and nothing less.

        Scorers give parts of a point to an answer in the right form, or to a longer text with the
        answer in it, and some give a little to every text.
        """
        from reasoning_gym.utils import extract_answer

        if answer is None or not (answer := answer.strip()):
            return Evaluation(reward=0.0, correct=False, feedback="No answer was given.")
        try:
            found = float(self._dataset.score_answer(extract_answer(answer) or answer, self._entry))
        except Exception:  # an answer that breaks its scorer is wrong
            found = 0.0
        score = 0.0 if math.isnan(found) else min(1.0, max(0.0, found))
        told = "right" if score == 1 else "not right" if score else "wrong, or in another format"
        said = f"The answer is {told}: the scorer gives it {score:.3g} of 1."
        return Evaluation(reward=score, correct=score == 1, feedback=said)


def check_expression(text: str, *, symbolic: bool) -> str:
    """Return an expression that is a literal or, if asked, mathematics. Raises an Exception.

    Sympy evaluates the strings in its expressions too, so these must not have any.
    """
    for node in ast.walk(ast.parse(text.strip(), mode="eval")):
        match node:
            case ast.Name(name) | ast.Call(ast.Name(name), _, []) if symbolic:
                wanted = NAME if isinstance(node, ast.Name) else FUNCTION
                allowed = wanted.fullmatch(name) is not None
            case ast.Constant(value) if symbolic:
                allowed = isinstance(value, int | float)
            case _:
                allowed = isinstance(node, LITERAL)
        if not allowed:
            raise ValueError(f"{type(node).__name__} is neither a literal nor mathematics")
    return text.strip()


def restrict_evaluation() -> None:
    """Import the package, and make it evaluate only harmless expressions."""
    import sympy
    from sympy.parsing import sympy_parser

    parse: Callable[..., Any] = sympy_parser.parse_expr

    def parse_checked(text: str, *given: Any, **named: Any) -> Any:
        return parse(check_expression(text, symbolic=True), *given, **named)

    def evaluate_checked(text: str) -> Any:
        return eval(check_expression(text, symbolic=False), {})  # noqa: S307 - checked

    sympy_parser.parse_expr = sympy.parse_expr = parse_checked
    import reasoning_gym  # noqa: F401 - its modules are looked at below

    for name, module in list(sys.modules.items()):
        if name.startswith("reasoning_gym"):
            vars(module)["eval"] = evaluate_checked
