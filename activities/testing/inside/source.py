"""The source of a script: the text of its statements, and what they do."""

import ast
from collections.abc import Iterator

TEST = 500
REFUSING = {"raises", "fail", "exit", "quit", "_exit", "abort"}


class Source:
    """A script's lines, found once: what Python offers finds them anew for each node."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def of(self, node: ast.stmt, *, whole: bool = True) -> str:
        """Return the text of a statement, or its first line; at most TEST characters."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        # The columns of a node count bytes.
        end = _cut(self._lines[last], None, node.end_col_offset)
        lines = [*self._lines[first:last], end][: TEST if whole else 1]
        return "\n".join([_cut(lines[0], node.col_offset, None), *lines[1:]])[:TEST]


def statement(tree: ast.Module, text: str, line: int) -> str:
    """Return the source of the innermost statement that covers a line."""
    covering = [each for each in _statements(tree) if each.lineno <= line <= _end(each)]
    inner = min(covering, key=lambda each: _end(each) - each.lineno, default=None)
    return Source(text).of(inner) if inner else ""


def asserts(tree: ast.Module) -> bool:
    """Tell whether a script has an assertion anywhere."""
    return any(isinstance(each, ast.Assert) for each in ast.walk(tree))


def judges(tree: ast.Module) -> bool:
    """Tell whether a script may refuse the code without an assertion: it raises, ends, or asks."""
    return any(isinstance(each, ast.Raise) or _asks(each) for each in ast.walk(tree))


def calls(tree: ast.Module, name: str) -> bool:
    """Tell whether a script calls a function by this name itself."""
    found = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Name) and each.id == name for each in found)


def _asks(node: ast.AST) -> bool:
    """Tell whether a node calls what raises where something is wrong, by how that is named."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.startswith("assert") or name in REFUSING
    return False


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.stmt))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _cut(line: str, start: int | None, end: int | None) -> str:
    return line.encode()[start:end].decode()
