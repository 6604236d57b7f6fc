"""Tests as calls with expected values: literals, valid calls, and tests written by a model.

A call runs in the sandbox, where the code under test can decide the outcome of a comparison, and
`f(1) or 4` has the value 4 even if the code is wrong. So an expression counts as a test only if its
value comes from the code under test alone. Nothing in this module runs code.
"""

import ast
import builtins
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AnySet
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, WithJsonSchema

from mull.multipath.suite import OUTCOME_BYTES, Case
from mull.replies import Members, Number, OptionalText, Reply, Text, read_reply
from mull.request import Record
from mull.text import encoded_size

LITERAL_CHARACTERS = 10_000
LEAST = 3
MOST = 20
LENGTH = 300

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
# Builtins that convert one value into another, without any other input.
MAKING = {
    *("abs", "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "len", "list"),
    *("repr", "round", "set", "sorted", "str", "sum", "tuple"),
}
# What tests that run apart from the code may import and use.
PLAIN = {"copy", "functools", "itertools", "math", "operator", "random", "re", "string", "typing"}
BUILTINS = {*dir(builtins)} - {"__import__", "compile", "eval", "exec", "globals", "input"}
BUILTINS -= {"hash", "id", "locals", "open", "vars", "StopIteration"}
# Without a seed of their own they differ each time that the test is run, and so do its calls.
UNSEEDED = {"Random", "SystemRandom", "seed"}
DATA = (str, bytes, int, float, complex, list, tuple, dict, set)
METHODS = {name for kind in DATA for name in dir(kind) if not name.startswith("_")}
METHODS |= {"choice", "choices", "randint", "randrange", "random", "sample", "shuffle", "uniform"}
LASTING = (ast.While, ast.ClassDef, ast.AsyncFunctionDef)

_FAILURES = (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError)


def read_literal(text: str, most: int = LITERAL_CHARACTERS) -> object:
    """Return the value of a literal of at most so many characters. Raises ValueError.

    Literals are those of `ast.literal_eval` without the ellipsis, plus `float('inf')`,
    `float('nan')` and `frozenset({...})`, which have no literal form.
    """
    found = _expression(text, most)
    if found is None:
        raise ValueError("not an expression, or too long")
    try:
        tree = _Named().visit(found)
        if any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(tree)):
            raise ValueError("an ellipsis")
        return ast.literal_eval(tree)
    except _FAILURES:
        raise ValueError("not a literal") from None


class _Named(ast.NodeTransformer):
    """Put the value in the place of calls that stand for a literal."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=word)]):
                return ast.Constant(SPECIAL[word]) if word in SPECIAL else node
            case ast.Call(func=ast.Name(id="frozenset"), args=[] | [ast.Set()], keywords=[]):
                members = [ast.literal_eval(self.generic_visit(part)) for part in node.args]
                return ast.Constant(cast("Any", frozenset().union(*members)))
        return node


def is_literal(text: str) -> bool:
    """Tell whether a text is a literal."""
    try:
        read_literal(text)
    except ValueError:
        return False
    return True


def parsed(text: str, mode: str) -> ast.AST | None:
    """Parse Python in the mode `exec` or `eval`; None if it is invalid. Never raises."""
    with warnings.catch_warnings():
        # An unknown escape in a string is only a warning, not an error.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.strip() if mode == "eval" else text, mode=mode)
        except _FAILURES:
            return None


def statements(text: str) -> list[ast.stmt]:
    """Parse the statements of a module; empty if it is invalid. Never raises."""
    tree = parsed(text, "exec")
    return tree.body if isinstance(tree, ast.Module) else []


def unparsed(tree: ast.AST) -> str | None:
    """Write a tree as Python; None if it is nested too deeply. Never raises."""
    try:
        return ast.unparse(tree)
    except _FAILURES:
        return None


def _expression(text: str, most: int = LITERAL_CHARACTERS) -> ast.expr | None:
    tree = parsed(text, "eval") if len(text) <= most else None
    return tree.body if isinstance(tree, ast.Expression) else None


def calls(text: str, entry: str, others: AnySet[str] = frozenset()) -> bool:
    """Tell whether an expression is a test of `entry`.

    It calls `entry`, uses no names except `entry`, `others` and Python's builtins, and its value is
    what one of these functions returns, possibly converted by builtins, as in `sorted(f(2))`; for a
    class, also what its methods return. An expression that uses a variable or another module would
    always fail. With `others` it is a test only beside the code.
    """
    tree, known = _expression(text), {entry, *others}
    if tree is None or entry not in called(text) or not _free(tree) <= known:
        return False
    try:
        return _is_given(tree, known)
    except RecursionError:
        return False


def runs_apart(test: str, above: str, entry: str) -> bool:
    """Tell whether a script of tests can run where the code is not, given what its calls return.

    It may use `entry`, what is defined `above` it in the prompt, most builtins, and modules without
    types of their own, but no classes, no `while`, and of values only what plain data has.
    """
    nodes = list(ast.walk(parsed(f"{above}\n{test}", "exec") or ast.parse("while 0: 0")))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    variables = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {getattr(node, "module", name.name) for node in imports for name in node.names}
    aliases = {name.asname or name.name for node in imports for name in node.names}
    known = {entry} | aliases | variables
    naming = (node for node in nodes if not isinstance(node, ast.keyword))
    known |= {str(getattr(node, "name", getattr(node, "arg", ""))) for node in naming}
    members = [node for node in nodes if isinstance(node, ast.Attribute)]
    of_values = [node.attr for node in members if getattr(node.value, "id", "") not in aliases]
    made = [node for node in nodes if isinstance(node, ast.Call)]
    functions = [node.func for node in made]
    by_chance = {
        getattr(one.func, "attr", getattr(one.func, "id", "")) for one in made if not one.args
    }
    # Which object a call returns is not known, but for None and the like, and for types.
    compared = [node for node in nodes if isinstance(node, ast.Compare)]
    same = [node for node in compared if {ast.Is, ast.IsNot} & {*map(type, node.ops)}]
    return (
        modules <= PLAIN
        and {node.id for node in names} - known <= BUILTINS
        and METHODS.issuperset(of_values)
        and UNSEEDED.isdisjoint(by_chance)
        and variables.isdisjoint(getattr(node, "id", "") for node in functions)
        and not any(isinstance(node, LASTING) for node in nodes)
        and all(sum(map(_is_made, (node.left, *node.comparators))) <= 1 for node in same)
        and all(isinstance(node, ast.Name | ast.Attribute) for node in functions)
    )


def _is_made(node: ast.expr) -> bool:
    """Tell whether an object is neither a constant nor Python's own."""
    return not isinstance(node, ast.Constant) and getattr(node, "id", "") not in BUILTINS


def called(text: str) -> tuple[str, ...]:
    """List the functions that an expression calls by name, without Python's builtins.

    Empty if the text is not an expression, or is longer than LITERAL_CHARACTERS.
    """
    tree = _expression(text)
    nodes = ast.walk(tree) if tree else ()
    found = [
        node.func.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return tuple(name for name in dict.fromkeys(found) if not hasattr(builtins, name))


def steps(call: str, entry: str | None) -> list[str]:
    """Split a call from the builtins around it: each takes what came before as `given`."""
    tree, around = _expression(call), list[str]()
    making = MAKING - {entry}
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.args:
        if tree.func.id not in making:
            break
        outer = ast.Call(tree.func, [ast.Name("given"), *tree.args[1:]], tree.keywords)
        around.insert(0, unparsed(outer) or "")
        tree = tree.args[0]
    return [(unparsed(tree) if tree and around else None) or call, *around]


def case_of(call: str, expected: str) -> Case:
    """Make a test; an equation expected to be True is split into its call and its value."""
    tree = _expression(call) if expected == "True" else None
    return (equation(tree) if tree else None) or Case(call=call, expected=expected)


def equation(node: ast.expr) -> Case | None:
    """Read `f(2) == 4`, either way round; None if neither side is a literal."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            call, expected = unparsed(left), unparsed(right)
            if call and expected and not is_literal(expected):
                call, expected = expected, call
            if call and expected and is_literal(expected):
                return Case(call=call, expected=expected)
    return None


def _is_given(node: ast.expr, known: AnySet[str]) -> bool:
    """Tell whether a value is returned by a known function, or made from such a value alone."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in known:
            return True
        case ast.Call(func=ast.Name(id="sorted"), args=[inner]):
            return not any(map(_free, node.keywords)) and _is_given(inner, known)
        case ast.Call(func=ast.Name(id="round"), args=[inner, ast.Constant()], keywords=[]):
            return _is_given(inner, known)
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
            return name in MAKING and _is_given(inner, known)
        case ast.Call(func=ast.Attribute() as member) | (ast.Attribute() as member):
            # An instance of a class of the code, or what its methods return: the result of a
            # function may be of a type whose methods return anything.
            match member.value:
                case ast.Call(func=ast.Name(id=name)):
                    made = name in known and name[0].isupper()
                case of_method:
                    made = _is_given(of_method, known)
            return made and not member.attr.startswith("_")
    return False


def _free(tree: ast.AST) -> set[str]:
    """Return the names that an expression takes from outside."""
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return {name.id for name in names if not hasattr(builtins, name.id)} - bound


def entry_of(cases: Sequence[Case]) -> str | None:
    """Return the function that all of these cases call, the outermost first; None without one."""
    named = [called(case.call) for case in cases]
    shared = (name for name in named[0] if all(name in others for others in named)) if named else ()
    return next(iter(shared), None)


def entry_in(prompt: str) -> str | None:
    """Return the one function that a Python prompt declares without a body.

    Its body is only a docstring, `...`, `pass` or NotImplementedError; complete functions are
    helpers.
    """
    functions = [
        node
        for node in statements(prompt)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and all(map(_does_nothing, node.body))
    ]
    return functions[0].name if len({node.name for node in functions}) == 1 else None


def _does_nothing(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Raise(exc=raised):
            return raised is not None and "NotImplementedError" in (unparsed(raised) or "")
    return False


def _literal(value: object) -> str:
    """Write a JSON value as a Python literal; numbers keep their characters."""
    match value:
        case Number():
            return str(value)
        case Members():
            return "{" + ", ".join(f"{key!r}: {_literal(member)}" for key, member in value) + "}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


SHORT = {"type": "string", "minLength": 1, "maxLength": LENGTH}


class Test(Reply):
    """One test in a reply: a call, and its value as a Python literal or a JSON value."""

    __test__ = False

    call: Annotated[Text, WithJsonSchema(SHORT)]
    expected: Annotated[
        Text,
        BeforeValidator(lambda value: value if isinstance(value, str) else _literal(value)),
        WithJsonSchema(SHORT),
    ]


class TestsReply(Reply):
    """A reply with tests: the reasoning first, for better values."""

    __test__ = False

    reasoning: Annotated[Any, WithJsonSchema({"type": "string", "maxLength": 2_000})] = None
    entry: Annotated[
        OptionalText, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 100})
    ] = None
    tests: list[Test] = Field(json_schema_extra={"minItems": LEAST, "maxItems": 10})


class Tests(Record):
    """The tests of a reply and the function they call; `error` says why it can't be used."""

    __test__ = False

    cases: tuple[Case, ...] = ()
    entry: str | None = None
    error: str | None = None


def parse_tests(text: str, entry: str | None = None) -> Tests:
    """Read a reply, or say in one line why it can't be used; never raises.

    Each call is a Python expression that satisfies `calls`, and each value a Python literal; an
    equation expected to be True is split into its sides. Other tests are left out, and so are calls
    with two different values. A reply with fewer than LEAST tests is unreadable; at most MOST are
    kept.
    """
    said = read_reply(text, "tests", TestsReply)
    if isinstance(said, str):
        return Tests(entry=entry, error=said)
    pairs = [case_of(test.call, test.expected) for test in said.tests]
    told = (said.entry or "").removesuffix("()")
    name = entry or (told if NAME.fullmatch(told) else entry_of(pairs))
    if name is None:
        return Tests(error='"entry" names no function')
    # An outcome names its test by the whole call, so that the quarantine can find it.
    held = [
        case
        for case in dict.fromkeys(pairs)
        if encoded_size(case.call) <= OUTCOME_BYTES["test"]
        and max(len(case.call), len(case.expected)) <= LENGTH
        and is_literal(case.expected)
        and calls(case.call, name)
    ]
    given = Counter(case.call for case in held)
    cases = tuple(case for case in held if given[case.call] == 1)
    if len(cases) < LEAST:
        error = (
            f"only {len(cases)} of its tests can be used, but at least {LEAST} are needed: each "
            f"must call {name} in one Python expression and give its value as a Python literal"
        )
        return Tests(entry=entry, error=error)
    return Tests(cases=cases[:MOST], entry=name)
