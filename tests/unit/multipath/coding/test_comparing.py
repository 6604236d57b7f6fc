"""Whether what a call gave is what it should give."""

import pytest

from reflection.multipath.coding.comparing import difference
from reflection.multipath.coding.literals import NoLiteralError, called, calls, read_literal


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("4", "4"),
        ("4", "4.0"),
        ("0.3", "0.30000000000000004"),
        ("0.0", "1e-13"),
        ("float('nan')", "float('nan')"),
        ("float('inf')", "1e999"),
        ("float('-inf')", "-1e999"),
        ("[1, [2.0, 'a']]", "[1, [2, 'a']]"),
        ("{'a': 1, 'b': [0.3]}", "{'b': [0.30000000000000004], 'a': 1}"),
        ("{1, 2, 3}", "{3, 2, 1}"),
        ("{1, 2}", "frozenset({2, 1})"),
        ("set()", "set()"),
        ("{(1, 'a'): None}", "{(1, 'a'): None}"),
        ("1+2j", "1.0000000000001+2j"),
        ("b'a'", "b'a'"),
        ("None", "None"),
        ("{float('nan')}", "{float('nan')}"),
    ],
)
def test_the_same_values(expected: str, got: str) -> None:
    """Numbers may differ by a rounding error, and dicts and sets have no order."""
    assert difference(read_literal(expected), read_literal(got)) is None


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        ("4", "5", "another value"),
        ("4", "None", "None, where a number is expected"),
        ("1", "True", "a truth value, where a number is expected"),
        ("False", "0", "a number, where a truth value is expected"),
        ("[1, 2]", "(1, 2)", "a tuple, where a list is expected"),
        ("[1, 2]", "[1]", "1 item, where 2 are expected"),
        ("[1, [2, 3]]", "[1, [2, 4]]", "another value at [1][1]"),
        ("{'a': 1}", "{'a': 2}", "another value at ['a']"),
        ("{'a': [1]}", "{'a': [None]}", "None at ['a'][0], where a number is expected"),
        ("{'a': 1}", "{'b': 1}", "other keys"),
        ("{1: 2}", "{True: 2}", "other keys"),
        ("{1}", "{True}", "another value"),
        ("'1'", "1", "a number, where a str is expected"),
        ("'a'", "b'a'", "a bytes, where a str is expected"),
        ("0.3", "0.300001", "another value"),
        ("float('nan')", "0.0", "another value"),
        ("1e999", "1" + "0" * 400, "another value"),
        ("1.0", "1" + "0" * 400, "another value"),
        ("10000000000000001", "10000000000000002", "another value"),
    ],
)
def test_different_values(expected: str, got: str, said: str) -> None:
    """What differs is said in words: another type, another length, or where another value is."""
    assert difference(read_literal(expected), read_literal(got)) == said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "...",
        "f(2)",
        "1 + 1",
        "[x]",
        "{**{}}",
        "float('12')",
        "float(2)",
        "frozenset([1])",
        "{[1]: 2}",
        "__import__('os')",
        "'a' 2",
        "1\x00",
        "9" * 5_000,
        "1" * 10_001,
        "-" * 9_000 + "1",
        "[" * 5_000,
        "f'{1}'",
        "-'a'",
    ],
)
def test_what_is_no_literal(text: str) -> None:
    """Names, calls and sums are no literals, nor is what Python can't parse."""
    with pytest.raises(NoLiteralError):
        read_literal(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("f(2)", ("f",)),
        ("round(f(g(2)), 2)", ("f", "g")),
        ("sorted([2, 1])", ()),
        ("f", ()),
        ("f(", ()),
        ("x.f(2)", ()),
    ],
)
def test_the_functions_that_an_expression_calls(text: str, names: tuple[str, ...]) -> None:
    """Functions called by their own names count, and Python's own do not."""
    assert called(text) == names


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("f(2)", True),
        ("list(f(2))", True),
        ("[f(x) for x in range(3)]", True),
        ("(lambda x: f(x))(2)", True),
        ("f(g(2))", True),
        ("f(x)", False),
        ("f(math.pi)", False),
        ("g(2)", False),
        ("f", False),
        ("f(", False),
    ],
)
def test_a_test_uses_nothing_but_what_it_tests(text: str, holds: bool) -> None:
    """An expression with a variable or a module in it would fail whatever the code does."""
    assert calls(text, "f", {"g"}) is holds
