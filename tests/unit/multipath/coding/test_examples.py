"""The examples that a prompt gives."""

from time import process_time

import pytest

from reflection.multipath.coding.reading.examples import examples

PALINDROME = '''\
def make_palindrome(string: str) -> str:
    """ Find the shortest palindrome that begins with a supplied string.
    >>> make_palindrome('')
    \'\'
    >>> make_palindrome('cat')
    'catac'
    """
'''


@pytest.mark.parametrize(
    ("prompt", "cases"),
    [
        (PALINDROME, [("make_palindrome('')", "''"), ("make_palindrome('cat')", "'catac'")]),
        (">>> f(2)\n4", [("f(2)", "4")]),
        (">>> f(2)\n[1,\n 2]\n\nAnd so on.", [("f(2)", "[1, 2]")]),
        (">>> f(2)\n4\nThat is how it goes.", [("f(2)", "4")]),
        (">>> f(2) == 4\nTrue", [("f(2)", "4")]),
        (">>> 4 == f(2)\nTrue", [("f(2)", "4")]),
        (">>> f(2) is None\nTrue", [("f(2)", "None")]),
        ("f(2) == 4 -> True", [("f(2)", "4")]),
        ("`f(2) == 4` returns true.", [("f(2)", "4")]),
        (">>> assert f(2) == 4", [("f(2)", "4")]),
        (">>> round(f(2), 2) # rounded\n0.5", [("round(f(2), 2)", "0.5")]),
        ("f(2) == 4", [("f(2)", "4")]),
        ("- `f(2) == 4`", [("f(2)", "4")]),
        ("1. f(2) == 4  # four", [("f(2)", "4")]),
        ("    assert f(2) == 4, 'no'", [("f(2)", "4")]),
        ("4 == f(2)", [("f(2)", "4")]),
        ("f(2) -> 4", [("f(2)", "4")]),
        ("* f('a -> b') => 'c'", [("f('a -> b')", "'c'")]),
        ("f([1, 2]) ➞ True.", [("f([1, 2])", "True")]),
        ("f(2) => true", [("f(2)", "True")]),
        ("f(2) returns false.", [("f(2)", "False")]),
        (f"f({'-' * 470}2) -> 4", [(f"f({'-' * 470}2)", "4")]),
        ("f(2)==>[4]", [("f(2)", "[4]")]),
        ("f(2) returns 4", [("f(2)", "4")]),
        ("f(2) should return 4.", [("f(2)", "4.0")]),
        ("`f(2)` -> `4`", [("f(2)", "4")]),
        ("f(2) == 4\nf(2) == 5\nf(3) == 9", [("f(2)", "4"), ("f(3)", "9")]),
        ("f(2) == 4\ng(2) == 4", [("f(2)", "4")]),
        ("def f(x): ...\ng(2) == 4\nf(2) == 4", [("f(2)", "4")]),
        ("def f(x): ...\ndef g(x): ...\n>>> f(g(2))\n4", [("f(g(2))", "4")]),
    ],
)
def test_the_forms_of_an_example(prompt: str, cases: list[tuple[str, str]]) -> None:
    """Sessions, equations, assertions and arrows are read, with the function of the first one."""
    assert [(each.call, each.expected) for each in examples(prompt, None)] == cases


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Write a function that doubles a number.",
        "def f(x: int) -> int:",
        ">>> f(2)\n<object at 0x7f>",
        ">>> f(2)\n...",
        ">>> f(2)\nTraceback (most recent call last):",
        ">>> f(2)",
        ">>> x = 2\n>>> f(x)\n4",
        "f(x) == 4",
        "f(2) == g(2)",
        "2 == 2",
        "sorted([2, 1]) == [1, 2]",
        "f(2) -> the double",
        "f(2) == 2 + 2 = 4",
        "x = f(2)",
        "f(2) = 4",
        "f(n) returns n",
        "f(2) != 4",
        "f(2) >= 4",
        "def f(x=2): return 4",
        "if f(2) == 4:",
        "f(2) == 4 == 4",
        "f(2" + "(" * 400 + " == 4",
        ">>> f(2) == 4\nFalse",
        ">>> f(2) == f(3)\nTrue",
        ">>> print(f(2))\n4",
        ">>> print(f(2), sep='')\n4",
        "[f(1), 4][1] == 4",
        "(f(1) or 4) == 4",
        "(f(1) if f(2) else 4) == 4",
        "4 in f(2) -> True",
        "not f(2) -> True",
        "max(f(1), 4) == 4",
        f"f({'-' * 470}2) == 4",
    ],
)
def test_what_is_no_example(prompt: str) -> None:
    """A value that is no literal, or a call with a variable in it, is no example."""
    assert examples(prompt, None) == ()


def test_examples_are_of_the_function_that_is_asked_for() -> None:
    """Where the entry is known, calls of other functions are none of its examples."""
    prompt = "helper(2) == 3\nf(2) == 4"

    assert [each.call for each in examples(prompt, "f")] == ["f(2)"]


@pytest.mark.parametrize("between", ["\n", " \n", "\r\n", " ", "def ", "async "])
def test_examples_are_read_in_time(between: str) -> None:
    """A prompt with very many lines or blanks takes no time to speak of."""
    started = process_time()

    found = examples(f"def f(x): ...{between * 49_000}\nf(2) == 4", None)

    assert [each.call for each in found] == ["f(2)"]
    assert process_time() - started < 1


def test_examples_are_bounded() -> None:
    """Of a very long prompt 20 examples are kept, in time."""
    started = process_time()

    found = examples("\n".join(f"f({each}) == {each}" for each in range(8_000)), None)

    assert len(found) == 20
    assert process_time() - started < 3
