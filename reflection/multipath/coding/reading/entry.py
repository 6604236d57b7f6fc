"""The function that is asked for, where nobody names it."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from reflection.multipath.coding.reading.calling import called
from reflection.multipath.coding.reading.literals import parsed, unparsed
from reflection.multipath.coding.suite import Case

SOLUTION = "solution"
CHECK = "check"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def entry_of(cases: Sequence[Case]) -> str | None:
    """Return the function that all of these cases call; None where there is none, or no case."""
    names = [called(each.call) for each in cases]
    shared = (name for name in names[0] if all(name in each for each in names)) if names else ()
    return next(iter(shared), None)


def entry_in(prompt: str) -> str | None:
    """Return the one function that a prompt of Python begins and leaves to be written.

    That is a function whose body is a docstring, `...`, `pass` or NotImplementedError; functions
    that are whole are given to help.
    """
    tree = parsed(prompt, "exec")
    body = tree.body if isinstance(tree, ast.Module) else []
    functions = (each for each in body if isinstance(each, Function))
    return _only(each.name for each in functions if all(map(_does_nothing, each.body)))


def entry_tested(tests: str) -> str | None:
    """Return the one function that a file of tests takes from the solution, or gives to check()."""
    tree = parsed(tests, "exec")
    return _only(_taken(tree)) if tree is not None else None


def _taken(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module, names=names) if module == SOLUTION:
                yield from (each.name for each in names if each.name != "*")
            case ast.Call(func=ast.Name(id=name), args=[ast.Name(id=given)]) if name == CHECK:
                yield given


def _does_nothing(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Raise(exc=raised):
            return raised is not None and "NotImplementedError" in (unparsed(raised) or "")
    return False


def _only(names: Iterable[str]) -> str | None:
    found = set(names)
    return found.pop() if len(found) == 1 else None
