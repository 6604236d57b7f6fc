"""Rewriting a script, so that its assertions count themselves and its statements are said."""

import ast
from typing import Any

from .asserting import SAME
from .source import Source

# No name that Python's grammar allows, so that none of the script's is hidden.
HOOK, GOT, EXPECTED = "@assertions", "@got", "@expected"
COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Delete, ast.Raise)


def rewritten(text: str, path: str) -> tuple[ast.Module, ast.Module]:
    """Parse a script; return it with its assertions rewritten, and as it is. Raises SyntaxError."""
    tree = _Rewriter(Source(text)).visit(ast.parse(text, path))
    return ast.fix_missing_locations(tree), ast.parse(text, path)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, source: Source) -> None:
        self._source = source

    def visit(self, node: ast.AST) -> Any:
        """Rewrite what is in a statement, and have it said before what calls something."""
        made = super().visit(node)
        if not isinstance(node, (*COMPOUND, *SIMPLE)) or not _calls_any(node):
            return made
        source = self._source.of(node, whole=isinstance(node, SIMPLE))
        return [self._begin(source, node), made]

    def _begin(self, source: str, node: ast.stmt) -> ast.stmt:
        return ast.copy_location(ast.Expr(_call("begin", ast.Constant(source))), node)

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        source = self._source.of(node)
        message = node.msg or ast.Constant(None)
        parts = _comparison(node.test) or _truth(node.test)
        words, set_up, holds, values = parts
        failure = _call("failure", ast.Constant(source), ast.Constant(words), *values, message)
        decide = ast.If(holds, [ast.Expr(_call("hold"))], [ast.Raise(failure)])
        made: list[ast.stmt] = [*set_up, decide]
        return [self._begin(source, node), *(ast.copy_location(each, node) for each in made)]


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


def _calls_any(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))
