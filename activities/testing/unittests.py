"""Scripts of unittest, which pytest runs too: it names the test that fails, and counts all."""

import ast
from collections.abc import Iterator

from reflection.multipath.cases import parsed
from reflection.multipath.suite import Suite, TestFile

UNITTEST = "unittest"
CASES = {"TestCase", "IsolatedAsyncioTestCase"}
STEM = 90


def by_pytest(suite: Suite) -> Suite:
    """Return the same tests for pytest, where they are a script that has classes of unittest."""
    given = suite.file
    if suite.kind != "script" or given is None or UNITTEST not in given.text:
        return suite
    tree = parsed(given.text, "exec")
    if tree is None or not _bases(tree) & set(_known(tree)):
        return suite
    name = f"test_{given.name.removesuffix('.py')[:STEM]}.py"
    return suite.model_copy(update={"kind": "pytest", "file": TestFile(name=name, text=given.text)})


def _known(tree: ast.AST) -> Iterator[str]:
    """Name unittest's classes as this file does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [each.asname or each.name for each in names if each.name == UNITTEST]
                yield from (f"{module}.{each}" for module in modules for each in CASES)
            case ast.ImportFrom(module="unittest", names=names):
                yield from (each.asname or each.name for each in names if each.name in CASES)


def _bases(tree: ast.AST) -> set[str]:
    classes = (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))
    return {_name(base) for each in classes for base in each.bases}


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return f"{module}.{name}"
    return ""
