"""A process of its own for each look at a puzzle: it asks the question, or scores an answer.

Several generators follow the order of sets, so Python's hashing has to be fixed, which only a new
process can do. Several scorers evaluate the answer as Python, or by sympy, which does so too: here
nothing but literals and mathematics gets that far, and what never ends is killed with the process.
Run by its path, with JSON on standard input and output; it knows nothing else of the project.
"""

import ast
import contextlib
import difflib
import json
import re
import resource
import sys
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 2 << 30
# What a literal is made of, or a sum of literals; mathematics has names and calls besides.
LITERAL = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Load),
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop),
)
FUNCTION = re.compile(r"a?(sin|cos|tan)h?|sec|csc|cot|exp|log|ln|sqrt|Abs|Rational")
NAME = re.compile(rf"[A-Za-z]|pi|{FUNCTION.pattern}")


def check_expression(text: str, *, symbolic: bool) -> str:
    """Return an expression that is a literal or, if asked, mathematics. Raises an Exception.

    Sympy evaluates the strings in its expressions too, so that these have none.
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
    """Have the package, which is imported here, evaluate harmless expressions alone."""
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


def look(name: str, index: int, seed: int, answer: str | None) -> dict[str, Any]:
    """Return the `question`, or the `score` of an answer. Raises LookupError: no such entry."""
    restrict_evaluation()
    from reasoning_gym import create_dataset
    from reasoning_gym.factory import DATASETS
    from reasoning_gym.utils import extract_answer

    if name not in DATASETS:
        close = difflib.get_close_matches(name, DATASETS) or sorted(DATASETS)
        raise LookupError(f"reasoning-gym has no dataset {name!r}; it has {', '.join(close)}")
    try:
        dataset = create_dataset(name, seed=seed)
    except (AssertionError, TypeError, ValueError) as error:
        raise LookupError(f"{name} can't be made by a seed alone: {error}") from None
    if index >= len(dataset):
        raise LookupError(f"{name} has the entries 0 to {len(dataset) - 1}, not {index}")
    entry = dataset[index]
    if answer is None:
        return {"question": entry["question"]}
    try:
        return {"score": float(dataset.score_answer(extract_answer(answer) or answer, entry))}
    except Exception:  # an answer that breaks its scorer is wrong
        return {"score": 0.0}


def main() -> None:
    """Answer the one request."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    request = json.load(sys.stdin)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = look(**request)
    except ModuleNotFoundError as error:
        found = {"error": f"{error}: puzzles need the extra, pip install 'mull[puzzles]'"}
    except LookupError as error:
        found = {"error": str(error)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
