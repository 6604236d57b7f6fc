"""Reading Python expressions that come from models, prompts and the sandbox, and running none."""

import ast
import warnings

TEXT = 10_000
COLLECTIONS = {ast.Tuple: tuple, ast.List: list, ast.Set: set}
SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}

_FAILURES = (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError)


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


def parsed(text: str, mode: str) -> ast.AST | None:
    """Parse Python, in the mode `exec` or `eval`; None for what is none. Never raises."""
    with warnings.catch_warnings():
        # An unknown escape in a string is worth a warning, and no reason to fail.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.strip() if mode == "eval" else text, mode=mode)
        except _FAILURES:
            return None


def unparsed(tree: ast.AST) -> str | None:
    """Write a tree as Python; None where it is too deep for that. Never raises."""
    try:
        return ast.unparse(tree)
    except _FAILURES:
        return None


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
