"""Reading Python expressions that come from models, prompts and the sandbox, and running none."""

import ast
import builtins
import warnings
from collections.abc import Iterator
from collections.abc import Set as AnySet

TEXT = 10_000
COLLECTIONS = {ast.Tuple: tuple, ast.List: list, ast.Set: set}
SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}

_FAILURES = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)


class NoLiteralError(Exception):
    """The text is no literal, or too long a one."""


def read_literal(text: str) -> object:
    """Return the value of a literal of at most TEXT characters. Raises NoLiteralError.

    Literals are those of `ast.literal_eval`, without the ellipsis, and `float('inf')`,
    `float('nan')` and `frozenset({...})`, which have no other form.
    """
    tree = parsed(text, "eval") if len(text) <= TEXT else None
    if not isinstance(tree, ast.Expression):
        raise NoLiteralError
    try:
        return _value(tree.body)
    except _FAILURES:
        raise NoLiteralError from None


def is_literal(text: str) -> bool:
    """Tell whether a text is a literal."""
    try:
        read_literal(text)
    except NoLiteralError:
        return False
    return True


def calls(text: str, entry: str, others: AnySet[str] = frozenset()) -> bool:
    """Tell whether an expression calls `entry`, and uses no name but it, `others` and Python's own.

    An expression that calls it through a name of another module, or that uses a variable, would
    fail whatever the code does.
    """
    names = _free(text)
    return entry in called(text) and names is not None and names <= {entry, *others}


def called(text: str) -> tuple[str, ...]:
    """List the functions that an expression calls by their bare names, without Python's own.

    Nothing is listed where the text is no expression, or is longer than TEXT characters.
    """
    tree = parsed(text, "eval") if len(text) <= TEXT else None
    found = _called(tree) if tree else ()
    return tuple(each for each in dict.fromkeys(found) if not hasattr(builtins, each))


def parsed(text: str, mode: str) -> ast.AST | None:
    """Parse Python, in the mode `exec` or `eval`; None for what is none. Never raises."""
    with warnings.catch_warnings():
        # An unknown escape in a string is worth a warning, and no reason to fail.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.strip() if mode == "eval" else text, mode=mode)
        except _FAILURES:
            return None


def _called(tree: ast.AST) -> Iterator[str]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            yield each.func.id


def _free(text: str) -> set[str] | None:
    """Return the names that an expression takes from outside; None where it is none."""
    tree = parsed(text, "eval") if len(text) <= TEXT else None
    if tree is None:
        return None
    nodes = list(ast.walk(tree))
    names = [each for each in nodes if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    bound |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return {each.id for each in names if not hasattr(builtins, each.id)} - bound


def _value(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=value) if value is not ...:
            return value
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return COLLECTIONS[type(node)](_value(each) for each in parts)
        case ast.Dict(keys=keys, values=values):
            return {
                _value(_given(key)): _value(each) for key, each in zip(keys, values, strict=True)
            }
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            return _made(name, parts)
    return _number(node)


def _given(key: ast.expr | None) -> ast.expr:
    if key is None:
        raise NoLiteralError
    return key


def _made(name: str, parts: list[ast.expr]) -> object:
    match name, [_value(each) for each in parts]:
        case "float", [str() as word] if word in SPECIAL:
            return SPECIAL[word]
        case "set", []:
            return set()
        case "frozenset", []:
            return frozenset()
        case "frozenset", [set() as members]:
            return frozenset(members)
    raise NoLiteralError


def _number(node: ast.expr) -> object:
    value = ast.literal_eval(node)
    if isinstance(value, int | float | complex):
        return value
    raise NoLiteralError
