"""Which expressions may be tests: those whose value comes from the code under test alone.

A call goes into the sandbox, where the code decides what a comparison gives, and the value of
`f(1) or 4` needs no right code at all.
"""

import ast
import builtins
from collections.abc import Iterator
from collections.abc import Set as AnySet

from reflection.multipath.coding.reading.literals import TEXT, is_literal, parsed, unparsed
from reflection.multipath.coding.suite import Case

# Each makes of one value another one, and takes nothing from elsewhere.
MAKING = {
    *("abs", "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "len", "list"),
    *("repr", "round", "set", "sorted", "str", "sum", "tuple"),
}


def calls(text: str, entry: str, others: AnySet[str] = frozenset()) -> bool:
    """Tell whether an expression is a test of `entry`.

    It calls `entry`, uses no name but it, `others` and Python's own, and its value is what one of
    these functions gave, or what builtins make of that, as in `sorted(f(2))`; of a class, also
    what its methods gave. An expression that uses a variable or another module would fail whatever
    the code does.
    """
    tree, known = _expression(text), {entry, *others}
    if tree is None or not _free(tree) <= known or entry not in called(text):
        return False
    try:
        return _is_given(tree.body, known)
    except RecursionError:
        return False


def called(text: str) -> tuple[str, ...]:
    """List the functions that an expression calls by their bare names, without Python's own.

    Nothing is listed where the text is no expression, or is longer than TEXT characters.
    """
    tree = _expression(text)
    found = _called(tree) if tree else ()
    return tuple(each for each in dict.fromkeys(found) if not hasattr(builtins, each))


def case_of(call: str, expected: str) -> Case:
    """Make a test; of an equation that shall be true one side is the call, and one the value."""
    tree = _expression(call) if expected == "True" else None
    return (equation(tree.body) if tree else None) or Case(call=call, expected=expected)


def equation(node: ast.expr) -> Case | None:
    """Read `f(2) == 4`, either way round; None where neither side is a literal."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return _of_sides(unparsed(left), unparsed(right))
    return None


def _of_sides(left: str | None, right: str | None) -> Case | None:
    if left is None or right is None:
        return None
    if is_literal(right):
        return Case(call=left, expected=right)
    return Case(call=right, expected=left) if is_literal(left) else None


def _expression(text: str) -> ast.Expression | None:
    tree = parsed(text, "eval") if len(text) <= TEXT else None
    return tree if isinstance(tree, ast.Expression) else None


def _is_given(node: ast.expr, known: AnySet[str]) -> bool:
    """Tell whether a value is what a known function gave, or what is made of nothing else."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in known:
            return True
        case ast.Call(func=ast.Name(id="sorted"), args=[inner]):
            return _is_given(inner, known)
        case ast.Call(func=ast.Name(id="round"), args=[inner, ast.Constant()], keywords=[]):
            return _is_given(inner, known)
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
            return name in MAKING and _is_given(inner, known)
        case ast.Call(func=ast.Attribute() as member) | (ast.Attribute() as member):
            public = not member.attr.startswith("_")
            return public and _is_of_class(member.value, known)
    return False


def _is_of_class(node: ast.expr, known: AnySet[str]) -> bool:
    """Tell whether an object is made by a class of the code, by its name, or by its methods.

    What a function returns may be of a type of its own, whose methods answer as it likes.
    """
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in known and name[0].isupper()
        case ast.Call(func=ast.Attribute()) | ast.Attribute():
            return _is_given(node, known)
    return False


def _called(tree: ast.AST) -> Iterator[str]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            yield each.func.id


def _free(tree: ast.AST) -> set[str]:
    """Return the names that an expression takes from outside."""
    nodes = list(ast.walk(tree))
    names = [each for each in nodes if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    bound |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return {each.id for each in names if not hasattr(builtins, each.id)} - bound
