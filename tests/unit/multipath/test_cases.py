"""Which calls may be tests, what they are of, and the tests that a model writes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mull.multipath.cases import calls, entry_in, entry_of, parse_tests, steps
from mull.multipath.extraction import examples
from mull.multipath.suite import Case

THREE = [("f(0)", "0"), ("f(2)", "4"), ("f(-1)", "-2")]
CASES = tuple(Case(call=call, expected=expected) for call, expected in THREE)
HELPED = '''\
import math

def half(x):
    """ Halve a number. """
    return x / 2

def f(x):
    """ Halve a number twice.
    >>> f(4)
    1.0
    """
'''


def said(pairs: list[tuple[Any, Any]], **members: Any) -> str:
    tests = [{"call": call, "expected": expected} for call, expected in pairs]
    return json.dumps({"reasoning": "so", "entry": "f", **members, "tests": tests})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4, "4"),
        (2.5, "2.5"),
        (True, "True"),
        (None, "None"),
        ([1, ["a", None]], "[1, ['a', None]]"),
        ({"a": [False]}, "{'a': [False]}"),
        ("'abc'", "'abc'"),
        (" [1, 2] ", "[1, 2]"),
    ],
)
def test_an_expected_value_may_be_json(value: Any, expected: str) -> None:
    """A number, truth value, list or object of JSON is the Python literal that it means."""
    tests = parse_tests(said([("f('a')", value), *THREE]))

    assert tests.cases[0] == Case(call="f('a')", expected=expected)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no JSON object"),
        ('{"cases": []}', "no JSON object"),
        ('{"tests": [', "is incomplete"),
        ('{"tests": 3}', "tests: should be a valid list"),
        (said([*THREE, (None, "1")]), "tests.3.call: "),
        (said(THREE[:2]) + said(THREE), 'several JSON objects in it with different "tests"'),
        (said([]), "only 0 of its tests"),
        (said(THREE[:2]), "only 2 of its tests can be used, but at least 3"),
        (said([THREE[0]] * 5), "only 1 of its tests"),
        (said([*THREE[:2], ("f(3)", "abc")]), "only 2 of its tests"),
        (said([*THREE[:2], ("f(3)", "f(2)")]), "only 2 of its tests"),
        (said([("g(1)", "1"), *THREE[:2]], entry=7), '"entry" names no function'),
        ('{"tests": ' + "[" * 100_000, "is incomplete"),
        ('{"tests": ' + "[" * 500 + "]" * 500 + "}", "nested too deeply"),
    ],
)
def test_what_is_no_reply(text: str, error: str) -> None:
    """Fewer than three tests that can be used are none, and the error says what is wrong."""
    tests = parse_tests(text)

    assert tests.cases == ()
    assert error in (tests.error or "")


@settings(max_examples=50)
@given(st.recursive(st.none() | st.integers() | st.text(), st.lists), st.text())
def test_any_reply_is_read(value: Any, text: str) -> None:
    """Whatever the members are, the reply gives tests or an error, and raises nothing."""
    for reply in (text, json.dumps({"tests": value, "entry": text}), said([(text, value)] * 3)):
        tests = parse_tests(reply)
        assert bool(tests.cases) is (tests.error is None)


TESTS_OF_F = (
    *("f(2)", "list(f(2))", "sorted(f(2))", "sorted(f(2), key=lambda x: -x)", "round(f(2), 2)"),
    *("str(len(f(2)))", "f([x for x in range(3)])", "g(f(2))", "f(g(2))"),
    "f(1 if 2 > 1 else 0, key=lambda x: x or 4)",
)
NO_TESTS_OF_F = (
    *("[f(x) for x in range(3)]", "(lambda x: f(x))(2)", "(lambda x: 4)(f(2))"),
    "list(map(f, [4]))",
    *("sorted(f(2), key=f)", "sorted(f(2), key=g)"),
    *("f(2) == 4", "f(2) and 4", "f(1) or 4", "4 if f(2) else 4", "4 in f(2)", "not f(2)"),
    *("[f(1), 4][1]", "f(2)[4]", "f(2).__eq__(4)", "f(2).count(4)", "isinstance(f(2), int)"),
    *("max(f(1), 4)", "next(f(1), 4)", "sum(f(1), 4)", "print(f(2))"),
    *("f(x)", "f(math.pi)", "g(2)", "f", "f("),
)
TESTS_OF_STACK = ("Stack().push(1).size()", "len(Stack([1]).items)")
NO_TESTS_OF_STACK = ("Stack().__eq__(4)", "Stack() == 4", f"Stack(){'.top' * 2_000}")


@pytest.mark.parametrize(
    ("text", "entry", "holds"),
    [
        *((text, "f", True) for text in TESTS_OF_F),
        *((text, "f", False) for text in NO_TESTS_OF_F),
        *((text, "Stack", True) for text in TESTS_OF_STACK),
        *((text, "Stack", False) for text in NO_TESTS_OF_STACK),
    ],
)
def test_a_test_uses_nothing_but_what_it_tests(text: str, entry: str, holds: bool) -> None:
    """The value is what the code gave, or a public method of the code's own class."""
    assert calls(text, entry, {"g"}) is holds


@pytest.mark.parametrize("text", ["g(f(2))", "f(g(2))", "sorted(f(2), key=g)", "sum(g(f(2)))"])
def test_what_uses_a_helper_is_no_test_on_its_own(text: str) -> None:
    """The code could define the helper anew, and so decide what is tested."""
    assert not calls(text, "f")


@pytest.mark.parametrize(
    ("call", "apart"),
    [
        ("f(2)", ["f(2)"]),
        ("f (2)", ["f (2)"]),
        ("f(sorted([2, 1]))", ["f(sorted([2, 1]))"]),
        ("len(f(2))", ["f(2)", "len(given)"]),
        ("len(set(f(f(2))))", ["f(f(2))", "set(given)", "len(given)"]),
        ("round(f(2), 2)", ["f(2)", "round(given, 2)"]),
        ("sorted(f(2), key=lambda x: -x)", ["f(2)", "sorted(given, key=lambda x: -x)"]),
        ("sum(Stack([1]).items)", ["Stack([1]).items", "sum(given)"]),
        ("bool(g(f(2)))", ["g(f(2))", "bool(given)"]),
        ("len()", ["len()"]),
        ("f(", ["f("]),
    ],
)
def test_a_call_is_split_from_the_builtins_around_it(call: str, apart: list[str]) -> None:
    """Each builtin takes what came before it, once that was read."""
    assert steps(call, "f") == apart
    assert steps("len(f(2))", "len") == ["len(f(2))"]


@pytest.mark.parametrize(
    ("prompt", "entry"),
    [
        ("f(2) == 4\nf(3) == 6", "f"),
        ("sorted(f(2)) == [4]\nf(3) == 6", "f"),
        ("round(f(2), 1) == 4\nf(g(3)) == 6", "f"),
        ("Double a number.", None),
    ],
)
def test_the_entry_is_what_all_examples_call(prompt: str, entry: str | None) -> None:
    """Where the request names no function, the examples do."""
    assert entry_of(examples(f"def f(x): ...\ndef g(x): ...\n{prompt}", None)) == entry


@pytest.mark.parametrize(
    ("prompt", "entry"),
    [
        (HELPED, "f"),
        ("def f(x): ...", "f"),
        ("def f(x):\n    pass\n", "f"),
        ("async def f(x):\n    raise NotImplementedError('later')\n", "f"),
        ("def f(x):\n    import math\n    '''Round it.'''\n", "f"),
        ("def f(x): ...\ndef g(x): ...", None),
        ("def f(x): return x", None),
        ("class A:\n    def f(self): ...", None),
        ("Write def f(x): ...", None),
        ("", None),
        (f"def f(x): raise {'-' * 600}x", None),
    ],
)
def test_the_entry_is_what_a_prompt_leaves_to_be_written(prompt: str, entry: str | None) -> None:
    """Of functions that a prompt gives those that are whole are there to help."""
    assert entry_in(prompt) == entry
