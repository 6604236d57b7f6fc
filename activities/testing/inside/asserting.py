"""Assertions that count themselves, and say what they compared when they fail."""

import ast
from collections.abc import Iterator

from .values import shown

# No name that Python's grammar allows, so that none of the script's is hidden.
HOOK, GOT, EXPECTED = "@assertions", "@got", "@expected"
TEST = 500
SAME = {"==", "is"}
IN_WORDS = 200


class Assertions:
    """What a script's assertions came to: how many held, and what those that fail compared."""

    def __init__(self) -> None:
        self.passed = 0
        self.ran = False

    def hold(self) -> None:
        """Count an assertion that holds."""
        self.passed += 1
        self.ran = True

    def failure(self, test: str, words: str, got: object, *more: object) -> AssertionError:
        """Make the error of an assertion: its source, its operator, and what it compared."""
        self.ran = True
        error = AssertionError(*[each for each in more[-1:] if each is not None])
        compared = {"test": test, "got": shown(got)}
        if words in SAME:
            compared["expected"] = shown(more[0])
        compared["message"] = _words(words, got, more)
        error.__dict__["compared"] = compared
        return error


def _words(words: str, got: object, more: tuple[object, ...]) -> str:
    value = shown(got, IN_WORDS)
    if words == "not":
        return f"{value} is not false"
    return (
        f"{value} {words} {shown(more[0], IN_WORDS)} is false" if words else f"{value} is not true"
    )


def rewritten(text: str, path: str) -> tuple[ast.Module, ast.Module]:
    """Parse a script; return it with its assertions rewritten, and as it is. Raises SyntaxError."""
    tree = _Rewriter(text).visit(ast.parse(text, path))
    return ast.fix_missing_locations(tree), ast.parse(text, path)


def statement(tree: ast.Module, text: str, line: int) -> str:
    """Return the source of the innermost statement that covers a line."""
    covering = [each for each in _statements(tree) if each.lineno <= line <= _end(each)]
    inner = min(covering, key=lambda each: _end(each) - each.lineno, default=None)
    return (ast.get_source_segment(text, inner) or "")[:TEST] if inner else ""


def asserts(tree: ast.Module) -> bool:
    """Tell whether a script has an assertion anywhere."""
    return any(isinstance(each, ast.Assert) for each in ast.walk(tree))


def calls(tree: ast.Module, name: str) -> bool:
    """Tell whether a script calls a function by this name itself."""
    found = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Name) and each.id == name for each in found)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.stmt))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


class _Rewriter(ast.NodeTransformer):
    def __init__(self, text: str) -> None:
        self._text = text

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        source = (ast.get_source_segment(self._text, node) or "assert")[:TEST]
        message = node.msg or ast.Constant(None)
        parts = _comparison(node.test) or _truth(node.test)
        words, set_up, holds, values = parts
        failure = _call("failure", ast.Constant(source), ast.Constant(words), *values, message)
        decide = ast.If(holds, [ast.Expr(_call("hold"))], [ast.Raise(failure)])
        made: list[ast.stmt] = [*set_up, decide]
        return [ast.copy_location(each, node) for each in made]


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
    return words[1].rpartition(" ")[0], set_up, holds, [_name(each) for each in order]


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
