"""Whether what a call gave is what it should give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflection.multipath.coding.judging.comparing import difference
from reflection.multipath.coding.judging.verdict import Answer, judge
from reflection.multipath.coding.reading.literals import NoLiteralError, read_literal
from reflection.multipath.coding.suite import Case

# Python reads it, and refuses to write it with as many digits as it takes.
HUGE = "0x" + "f" * 5_000


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
        ("1j", "1" + "0" * 400, "another value"),
        ("1" + "0" * 400, "0.5j", "another value"),
        ("float('nan')", "1" + "0" * 400, "another value"),
        (f"{{{HUGE}: 1}}", f"{{{HUGE}: 2}}", "another value at [a very large key]"),
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
        "9" * 400 + "+1j",
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


NUMBERS = ["0", "1", "-1", "0.0", "-0.0", "1e308", "1e999", "5e-324", "1j", "1e999j", HUGE]
NUMBERS += [f"-{HUGE}", "9" * 400, "True", "float('nan')", "float('inf')", "0.5-1e308j"]
ATOMS = st.sampled_from(NUMBERS) | st.just("None") | (st.text() | st.binary()).map(ascii)
KEYS = st.recursive(
    ATOMS,
    lambda keys: (
        st.lists(keys, min_size=1).map(lambda each: f"({', '.join(each)},)")
        | st.lists(keys, min_size=1).map(lambda each: f"frozenset({{{', '.join(each)}}})")
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    KEYS,
    lambda values: (
        st.lists(values).map(lambda each: f"[{', '.join(each)}]")
        | st.lists(KEYS, min_size=1).map(lambda each: f"{{{', '.join(each)}}}")
        | st.dictionaries(KEYS, values).map(
            lambda each: f"{{{', '.join(f'{key}: {value}' for key, value in each.items())}}}"
        )
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_any_two_literals_are_compared(expected: str, got: str) -> None:
    """Whatever the values are, they are the same or differ, and each is the same as itself."""
    case = [Case(call="f(2)", expected=expected)]
    (other,) = judge(case, {0: Answer(value=got)})
    (same,) = judge(case, {0: Answer(value=expected)})

    assert other.passed or other.message
    assert same.passed or "can't be compared" in (same.message or "")
