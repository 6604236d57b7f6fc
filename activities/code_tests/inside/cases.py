"""Evaluate calls of the code under test, and print each value as a Python expression.

Only the worker knows what the values should be.
"""

import builtins
from types import ModuleType
from typing import Any

from .harness import SOLUTION, Channel, UnplainError, asked, frames, load, said, written

# As they are before the code may replace them.
BUILTINS = dict(vars(builtins))


def main() -> None:
    """Import the code once, and evaluate the calls in order."""
    task = asked()
    channel = Channel(task["nonce"])
    solution = load(channel)
    if solution is None:
        return
    for number, call in enumerate(task["calls"]):
        channel.say(case=number, **_answer(call, _names(solution, task["entry"])))
    channel.say(end=True)


def _names(solution: ModuleType, entry: str | None) -> dict[str, Any]:
    """Return what a call may use: the code's own names, but Python's own by theirs."""
    own = {
        name: value
        for name, value in vars(solution).items()
        if name not in BUILTINS or name == entry
    }
    return {**own, "__builtins__": dict(BUILTINS)}


def _answer(call: str, names: dict[str, Any]) -> dict[str, str]:
    try:
        value = eval(compile(call, "<test>", "eval", dont_inherit=True), names)  # noqa: S307 its purpose
        return {"value": written(value)}
    except UnplainError as error:
        return {"message": f"returns {error}"}
    except BaseException as error:  # the code may raise anything, SystemExit too
        return {"message": f"raises {said(error)}", "traceback": frames(error, {SOLUTION})}
