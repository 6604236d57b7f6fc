"""Run a user's script of tests beside the code, which it may import as `solution`."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from .asserting import Assertions
from .channel import Channel, asked
from .faults import frames, said
from .loading import FOLDER, SOLUTION, also_named, load, public
from .rewriting import HOOK, rewritten
from .source import asserts, calls, judges, statement

CHECK = "check"
NOTHING = (
    "the script checks nothing: write what shall hold as an assertion, such as assert f(2) == 4"
)
UNCHECKED = "none of the script's assertions ran: pytest runs a file that is named test_*.py"


class _UncheckedError(Exception):
    """The script can't check the code; the message says why."""


class _Script(NamedTuple):
    """A script that is ready to run; `test_at` gives the source of the statement at a line.

    `asserts` says that it has assertions, `judges` that it may refuse the code otherwise, and
    `checks` that it doesn't call its own check().
    """

    code: CodeType
    path: str
    asserts: bool
    judges: bool
    checks: bool
    test_at: Callable[[int], str]


def main() -> None:
    """Import the code, run the script, and say how many assertions held and which failed."""
    task = asked()
    channel = Channel(task["nonce"])
    solution = load(channel)
    script = _parsed(channel, task["file"]) if solution else None
    if solution is None or script is None:
        return
    also_named(solution, task["entry"])
    assertions = Assertions(channel.say)
    error = _outcome(script, solution, assertions, task["entry"])
    more = {"end": True} if error is None else _failure(error, script)
    channel.say(passed=assertions.passed, **more)


def _parsed(channel: Channel, name: str) -> _Script | None:
    path = str(FOLDER / name)
    text = Path(path).read_text(encoding="utf-8")
    try:
        tree, original = rewritten(text, path)
        code = compile(tree, path, "exec", dont_inherit=True)
    except Exception as error:  # a file that is no Python fails in several ways
        channel.say(unreadable=said(error))
        return None
    return _Script(
        code=code,
        path=path,
        asserts=asserts(original),
        judges=judges(original),
        checks=not calls(original, CHECK),
        test_at=lambda line: statement(original, text, line),
    )


def _outcome(
    script: _Script, solution: ModuleType, assertions: Assertions, entry: str | None
) -> BaseException | None:
    """Run the script, and return what it raised; it may end itself, and the code may not."""
    try:
        _run(script, solution, assertions, entry)
    except BaseException as error:  # the code may raise anything, SystemExit too
        left = isinstance(error, SystemExit) and not error.code
        if not left or frames(error, {SOLUTION}):
            return error
    if assertions.ran or (script.judges and not script.asserts):
        return None
    return _UncheckedError(UNCHECKED if script.asserts else NOTHING)


def _run(script: _Script, solution: ModuleType, assertions: Assertions, entry: str | None) -> None:
    module = ModuleType("__main__")
    vars(module).update(public(solution), __file__=script.path, **{HOOK: assertions})
    sys.modules["__main__"] = module
    exec(script.code, module.__dict__)  # noqa: S102 its purpose
    check = vars(module).get(CHECK)
    if script.checks and isinstance(check, FunctionType) and _takes_one(check, script.path):
        check(_candidate(solution, entry))


def _takes_one(check: FunctionType, path: str) -> bool:
    code = check.__code__
    return code.co_filename == path and code.co_argcount == 1


def _candidate(solution: ModuleType, entry: str | None) -> object:
    if entry is None:
        return _only_function(solution)
    if not hasattr(solution, entry):
        raise _UncheckedError(f"the code defines no {entry}")
    return getattr(solution, entry)


def _only_function(solution: ModuleType) -> object:
    functions = [
        value
        for name, value in vars(solution).items()
        if isinstance(value, FunctionType)
        and value.__code__.co_filename == SOLUTION
        and not name.startswith("_")
    ]
    if len(functions) != 1:
        raise _UncheckedError("nobody said which function to check: name it as the entry")
    return functions[0]


def _failure(error: BaseException, script: _Script) -> dict[str, Any]:
    """Say which test failed: the assertion, or the statement whose evaluation raised."""
    compared = dict(getattr(error, "compared", {}))
    message = str(error) if isinstance(error, _UncheckedError) else said(error)
    if "message" in compared:
        compared["message"] = f"{message}: {compared['message']}"
    traceback = frames(error, {SOLUTION, script.path})
    test = script.test_at(_line(error, script.path))
    return {"test": test, "message": message, "traceback": traceback, **compared}


def _line(error: BaseException, path: str) -> int:
    line, at = 0, error.__traceback__
    while at:
        line = at.tb_lineno if at.tb_frame.f_code.co_filename == path else line
        at = at.tb_next
    return line
