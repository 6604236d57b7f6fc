"""Run a user's script of tests beside the code, which it may import as `solution`.

The script is rewritten first: its assertions count themselves and report what they compared, and
its statements are printed before they run, so that the last line names one that never ends.
Pytest's own rewriting does not do that, and importing it takes longer than all of this.
"""

import ast
import builtins
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from . import harness

CHECK = "check"
NOTHING = (
    "the script checks nothing: write what must hold as an assertion, such as assert f(2) == 4"
)
UNCHECKED = "none of the script's assertions ran: a file for pytest is named test_*.py"
# Python's grammar does not allow these names, so they can't hide the script's.
HOOK, GOT, EXPECTED = "@assertions", "@got", "@expected"
COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Delete, ast.Raise)
# Statements that are skipped if they need a value that is not known yet.
LEFT_OUT = (*COMPOUND, ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert)
TEST = 500
REFUSING = {"raises", "fail", "exit", "quit", "_exit", "abort"}
SAME = {"==", "is"}
IN_WORDS = 200
STARTED_BYTES = 60_000


def _source(lines: list[str], node: ast.stmt, *, whole: bool = True) -> str:
    """Return the text of a statement, or its first line; at most TEST characters.

    The lines are split once: ast.get_source_segment splits them anew for each node.
    """
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    # The columns of a node count bytes.
    end = lines[last].encode()[: node.end_col_offset].decode()
    kept = [*lines[first:last], end][: TEST if whole else 1]
    begun = kept[0].encode()[node.col_offset :].decode()
    return "\n".join([begun, *kept[1:]])[:TEST]


def _refuses(node: ast.AST) -> bool:
    """Tell whether a node raises, ends the program, or calls a function that may."""
    match node:
        case ast.Raise():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.startswith("assert") or name in REFUSING
    return False


class UnknownError(BaseException):
    """The code has not been called with these arguments yet; tests must not catch this."""


class StandIn:
    """Stands for the tested function in a process without the code.

    It returns the code's answer to the same call from `answers`, and keeps the calls without an
    answer yet; a call with an argument that is not plain data is kept as an empty text.
    """

    def __init__(self, answers: list[dict[str, str]]) -> None:
        self.asked: list[str] = []
        self._answers: dict[str, list[dict[str, str]]] = {}
        for answer in answers:
            self._answers.setdefault(answer["call"], []).append(answer)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Return the answer to the call, or raise what the code raised."""
        try:
            call = harness.written([given, named])
        except harness.UnplainError:
            call = ""
        if not (known := self._answers.get(call)):
            self.asked.append(call)
            raise UnknownError
        answer = known.pop(0)
        if "message" in answer:
            name, _, text = answer["message"].removeprefix("raises ").partition(": ")
            kind: Any = vars(builtins).get(name)
            # StopIteration would end the test's own loop or generator too early.
            own = isinstance(kind, type) and issubclass(kind, Exception)
            if own and not issubclass(kind, StopIteration | StopAsyncIteration):
                error = kind.__new__(kind, text)
                # Some need more than a text.
                with suppress(TypeError):
                    error.__init__(text)
                raise error
            raise RuntimeError(answer["message"])
        # The worker wrote these, as literals alone.
        names = {"inf": math.inf, "nan": math.nan}
        value, changed = (eval(answer.get(part, "[]"), names) for part in ("value", "changed"))  # noqa: S307 its purpose
        for mine, now in zip((*given, *named.values()), changed, strict=False):
            if isinstance(mine, list | set | dict):
                mine.clear()
                (mine.extend if isinstance(mine, list) else mine.update)(now)
        kind = answer.get("iterates", "")
        begun = _unread if kind == "'begun'" else tuple
        return View(value) if kind == "'view'" else chain(value, begun()) if kind else value


def _unread() -> Iterator[Any]:
    """Stop the test after the values that were drawn from the code."""
    raise UnknownError
    yield


class View(Sequence[Any]):
    """Values that can be iterated and counted, and do not equal a list."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        """Count the values."""
        return len(self._values)

    def __getitem__(self, place: Any) -> Any:
        """Return one value, or a slice."""
        return self._values[place]


class Assertions:
    """Counts the assertions that hold, and makes the error of one that fails.

    `say` prints the statement that runs next, in case the program ends within it, and returns the
    printed bytes.
    """

    def __init__(self, say: Callable[..., int], standing: StandIn | None = None) -> None:
        self.passed = 0
        self._standing = standing
        self.ran = False
        self._say = say
        self._left = STARTED_BYTES
        self._started: str | None = None

    @property
    def missing(self) -> Any:
        """The errors that skip a statement: all of them, once an answer was missing."""
        return BaseException if self._standing and self._standing.asked else ()

    def begin(self, statement: str) -> None:
        """Say which statement begins, unless it is the same as before.

        After STARTED_BYTES stop naming statements, rather than name a wrong one.
        """
        if statement != self._started and self._left > 0:
            self._started = statement
            self._left -= self._say(started=statement, held=self.passed)
            if self._left <= 0:
                self._say(started=None)

    def hold(self) -> None:
        """Count an assertion that holds."""
        self.passed += 1
        self.ran = True

    def failure(self, test: str, words: str, got: object, *more: object) -> AssertionError:
        """Make the error of an assertion: its source, its operator, and the compared values."""
        self.ran = True
        error = AssertionError(*[message for message in more[-1:] if message is not None])
        compared = {"test": test, "got": harness.shown(got)}
        if words in SAME:
            compared["expected"] = harness.shown(more[0])
        value = harness.shown(got, IN_WORDS)
        said_of = {"": "is not true", "not": "is not false"}
        other = said_of.get(words) or f"{words} {harness.shown(more[0], IN_WORDS)} is false"
        compared["message"] = f"{value} {other}"
        error.__dict__["compared"] = compared
        return error


class _Rewriter(ast.NodeTransformer):
    def __init__(self, lines: list[str], left_out: tuple[type[ast.stmt], ...]) -> None:
        self._lines, self._left_out = lines, left_out

    def visit(self, node: ast.AST) -> Any:
        """Rewrite the parts of a statement, and print it first if it calls something."""
        made = super().visit(node)
        if isinstance(node, (*COMPOUND, *SIMPLE)) and any(
            isinstance(inner, ast.Call) for inner in ast.walk(node)
        ):
            source = _source(self._lines, node, whole=isinstance(node, SIMPLE))
            made = [_begin(source, node), made]
        if isinstance(node, self._left_out):
            missing = ast.Attribute(_name(HOOK), "missing", ast.Load())
            leave = ast.ExceptHandler(missing, None, [ast.Pass()])
            body = made if isinstance(made, list) else [made]
            return ast.copy_location(ast.Try(body, [leave], [], []), node)
        return made

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        source = _source(self._lines, node)
        message = node.msg or ast.Constant(None)
        words, set_up, holds, values = _comparison(node.test) or _truth(node.test)
        failure = _call("failure", ast.Constant(source), ast.Constant(words), *values, message)
        decide = ast.If(holds, [ast.Expr(_call("hold"))], [ast.Raise(failure)])
        made: list[ast.stmt] = [*set_up, decide]
        return [_begin(source, node), *(ast.copy_location(step, node) for step in made)]


def _begin(source: str, node: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Expr(_call("begin", ast.Constant(source))), node)


_Parts = tuple[str, list[ast.stmt], ast.expr, list[ast.expr]]


def _comparison(test: ast.expr) -> _Parts | None:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    words = ast.unparse(ast.Compare(_name("x"), [operator], [_name("y")])).split(maxsplit=1)
    set_up = [_assign(GOT, left), _assign(EXPECTED, right)]
    holds = ast.Compare(_name(GOT), [operator], [_name(EXPECTED)])
    order = [GOT, EXPECTED]
    if words[1].startswith(tuple(SAME)) and _literal(left) and not _literal(right):
        order.reverse()
    return words[1].rpartition(" ")[0], set_up, holds, [_name(name) for name in order]


def _truth(test: ast.expr) -> _Parts:
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    value = test.operand if isinstance(test, ast.UnaryOp) and negated else test
    holds: ast.expr = ast.UnaryOp(ast.Not(), _name(GOT)) if negated else _name(GOT)
    return "not" if negated else "", [_assign(GOT, value)], holds, [_name(GOT)]


def _literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _call(method: str, *values: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(_name(HOOK), method, ast.Load()), list(values), [])


class _UncheckedError(Exception):
    """The script can't check the code; the message says why."""


class _Script:
    """A script that is ready to run. Raises anything if its text is not Python.

    `asserts`: it has assertions. `judges`: it may refuse the code in another way. `checks`: it
    does not call its own check().
    """

    def __init__(self, path: str, *, apart: bool) -> None:
        self.path = path
        text = Path(path).read_text(encoding="utf-8")
        self._lines = text.split("\n")
        self._nodes = list(ast.walk(ast.parse(text, path)))
        tree = _Rewriter(self._lines, LEFT_OUT if apart else ()).visit(ast.parse(text, path))
        self.code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        called = [node.func for node in self._nodes if isinstance(node, ast.Call)]
        self.asserts = any(isinstance(node, ast.Assert) for node in self._nodes)
        self.judges = any(map(_refuses, self._nodes))
        self.checks = not any(isinstance(name, ast.Name) and name.id == CHECK for name in called)

    def statement(self, line: int) -> str:
        """Return the source of the innermost statement that covers a line."""
        covering = [
            node
            for node in self._nodes
            if isinstance(node, ast.stmt)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        if not covering:
            return ""
        inner = min(covering, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
        return _source(self._lines, inner)


def main() -> None:
    """Import the code, run the script, and say how many assertions held and which failed."""
    task = harness.asked()
    channel = harness.Channel(task["nonce"])
    solution = harness.load(channel)
    if solution is None:
        return
    standing = None
    if "apart" in task:
        standing = StandIn(task["apart"])
        vars(solution)[task["entry"]] = standing
        random.seed(0)
    try:
        script = _Script(str(harness.FOLDER / task["file"]), apart="apart" in task)
    except Exception as error:  # a file that is not Python fails in several ways
        channel.say(unreadable=harness.said(error))
        return
    harness.also_named(solution, task["entry"])
    assertions = Assertions(channel.say, standing)
    raised = _outcome(script, solution, assertions, task["entry"])
    if standing is not None:
        for call in standing.asked:
            channel.say(asked=call)
            raised = raised or UnknownError()
        channel.say(asking=len(standing.asked))
    more = {"end": True} if raised is None else _failure(raised, script)
    channel.say(passed=assertions.passed, **more)


def _outcome(
    script: _Script, solution: ModuleType, assertions: Assertions, entry: str | None
) -> BaseException | None:
    """Run the script and return what it raised. It may end itself; the code may not."""
    try:
        _run(script, solution, assertions, entry)
    except BaseException as error:  # the code may raise anything, SystemExit too
        left = isinstance(error, SystemExit) and not error.code
        if not left or harness.frames(error, {harness.SOLUTION}):
            return error
    if assertions.ran or (script.judges and not script.asserts):
        return None
    return _UncheckedError(UNCHECKED if script.asserts else NOTHING)


def _run(script: _Script, solution: ModuleType, assertions: Assertions, entry: str | None) -> None:
    module = ModuleType("__main__")
    vars(module).update(harness.public(solution), __file__=script.path, **{HOOK: assertions})
    sys.modules["__main__"] = module
    exec(script.code, module.__dict__)  # noqa: S102 its purpose
    check = vars(module).get(CHECK)
    if not script.checks or not isinstance(check, FunctionType):
        return
    if check.__code__.co_filename == script.path and check.__code__.co_argcount == 1:
        check(_candidate(solution, entry))


def _candidate(solution: ModuleType, entry: str | None) -> object:
    """Return the function to check: the entry, or the only one that the code defines."""
    if entry is not None:
        if not hasattr(solution, entry):
            raise _UncheckedError(f"the code defines no {entry}")
        return getattr(solution, entry)
    functions = [
        value
        for name, value in vars(solution).items()
        if isinstance(value, FunctionType)
        and value.__code__.co_filename == harness.SOLUTION
        and not name.startswith("_")
    ]
    if len(functions) != 1:
        raise _UncheckedError("the function to check is not known: name it as the entry")
    return functions[0]


def _failure(error: BaseException, script: _Script) -> dict[str, Any]:
    """Describe the failed test: the assertion, or the statement that raised."""
    compared = dict(getattr(error, "compared", {}))
    message = str(error) if isinstance(error, _UncheckedError) else harness.said(error)
    if "message" in compared:
        compared["message"] = f"{message}: {compared['message']}"
    traceback = harness.frames(error, {harness.SOLUTION, script.path})
    line, at = 0, error.__traceback__
    while at:
        line = at.tb_lineno if at.tb_frame.f_code.co_filename == script.path else line
        at = at.tb_next
    return {"test": script.statement(line), "message": message, "traceback": traceback, **compared}
