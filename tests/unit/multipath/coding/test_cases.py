"""What the model says when it is asked for tests."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflection.multipath.coding.reading.cases import parse_tests
from reflection.multipath.coding.suite import Case

THREE = [("f(0)", "0"), ("f(2)", "4"), ("f(-1)", "-2")]
CASES = tuple(Case(call=call, expected=expected) for call, expected in THREE)


def said(pairs: list[tuple[Any, Any]], **members: Any) -> str:
    tests = [{"call": call, "expected": expected} for call, expected in pairs]
    return json.dumps({"reasoning": "so", "entry": "f", **members, "tests": tests})


@pytest.mark.parametrize(
    "text",
    [
        said(THREE),
        f"Here they are:\n```json\n{said(THREE)}\n```",
        said(THREE, entry="f()"),
        said(THREE, entry=None),
        said([(call, int(expected)) for call, expected in THREE]),
        said([*THREE, ("f(x)", "1"), ("f(9)", "x"), ("g(9)", "1"), ("f(", "1"), (1, "1")]),
        said([*THREE, ("f(9)", "1"), ("f(9)", "2")]),
        said([(f"{call} == {expected}", "True") for call, expected in THREE]),
        said([(f"{expected} == {call}", True) for call, expected in THREE]),
        said([*THREE, ("f(9) == 1", "False"), ("f(9) or 4", "4"), ("[f(9), 4][1]", "4")]),
        said([*THREE, ("f('" + "a" * 400 + "')", "1")]),
        said([*THREE, ("f('" + "珊" * 250 + "')", "1")]),
        said(THREE).replace("call", "input").replace("expected", "output"),
        said([("f(1)", "1")] * 3) + said(THREE),
    ],
)
def test_the_forms_of_a_reply(text: str) -> None:
    """Tests that can be used are kept, and those that can't, or contradict each other, left out."""
    tests = parse_tests(text)

    assert tests.error is None
    assert tests.cases == CASES
    assert tests.entry == "f"


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
        ('{"tests": [', "breaks off"),
        ('{"tests": 3}', '"entry" names no function'),
        (said([]), "only 0 of its tests"),
        (said(THREE[:2]), "only 2 of its tests can be used, and at least 3"),
        (said([THREE[0]] * 5), "only 1 of its tests"),
        (said([*THREE[:2], ("f(3)", "abc")]), "only 2 of its tests"),
        (said([*THREE[:2], ("f(3)", "f(2)")]), "only 2 of its tests"),
        (said([("g(1)", "1"), *THREE[:2]], entry=7), '"entry" names no function'),
        ('{"tests": ' + "[" * 100_000, "breaks off"),
        ('{"tests": ' + "[" * 500 + "]" * 500 + "}", '"entry" names no function'),
    ],
)
def test_what_is_no_reply(text: str, error: str) -> None:
    """Fewer than three tests that can be used are none, and the error says what is wrong."""
    tests = parse_tests(text)

    assert tests.cases == ()
    assert error in (tests.error or "")


def test_tests_are_of_the_function_that_is_asked_for() -> None:
    """Where the request names the entry, the model's own name for it counts for nothing."""
    text = said([*THREE, ("g(1)", "1"), ("g(2)", "1"), ("g(3)", "1")], entry="f")

    assert [each.call for each in parse_tests(text, "g").cases] == ["g(1)", "g(2)", "g(3)"]


def test_tests_are_bounded() -> None:
    """Of a hundred tests twenty are kept."""
    assert len(parse_tests(said([(f"f({n})", "1") for n in range(100)])).cases) == 20


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists), st.text())
def test_any_reply_is_read(value: Any, text: str) -> None:
    """Whatever the members are, the reply gives tests or an error, and raises nothing."""
    for reply in (text, json.dumps({"tests": value, "entry": text}), said([(text, value)] * 3)):
        tests = parse_tests(reply)
        assert bool(tests.cases) is (tests.error is None)
