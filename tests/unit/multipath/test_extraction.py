"""The code in a model's reply, and the examples in a prompt."""

import pytest

from mull.multipath.extraction import examples, extract_code

F = "def f(x):\n    return x\n"
G = "def g(x):\n    return x + 1, x + 2, x + 3\n"
CALLS = "from solution import f\n\nprint(f(2), f(3), f(4), f(5), f(6), f(7))\n"
TESTS = "def test_f():\n    assert f(2) == 2\n    assert f(3) == 3\n    assert f(4) == 4\n"
TESTS += "\n\nclass TestF:\n    def test_it(self):\n        assert f(5) == 5\n"
FENCED = f'def f(x):\n    """Double it.\n\n    ```\n    f(2)\n    ```\n    """\n    return {F!r}\n'
OUTDENTED = 'def f(x):\n    """\n```python\nf(2)\n```\n"""\n    return x\n'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"```python\n{F}```", F),
        (f"Here it is:\n\n```py\n{F}```\nThat is all.", F),
        (f"```\n{F}```", F),
        (f"~~~~python\n{F}~~~~", F),
        (f"```Python3 title=a\n{F}```", F),
        (f"```python\r\n{F}```".replace("\n", "\r\n"), F),
        ("1. So:\n\n   ```python\n   def f(x):\n       return x\n   ```", F),
        (f"```python\n{FENCED}```\nThat is all.", FENCED),
        (f"```python\n{OUTDENTED}```\nThat is all.", OUTDENTED),
        (f"```python\n{F}```\nand\n```python\n{G}```", G),
        (f"```python\n{F}```\n```python\n{CALLS}```", F),
        (f"```python\n{F}```\n```python\n{TESTS}```", F),
        (f"```python\n{TESTS}```\n```python\n{CALLS}```", TESTS),
        ("```python\nf = 2\n```\n```python\nx = 345\n```", "x = 345\n"),
        (f"```bash\npip install everything-there-is-in-the-world\n```\n```python\n{F}```", F),
        (f"```\n[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]\n```\n```python\n{F}```", F),
        (f"```python\n{F}```\n```python\n{G}", F),
        (f"```python\n{F}", F),
        (F, F),
        (f"\n{F}\n\n", F),
        ("print('hello')", "print('hello')\n"),
        (f"<think>\n```python\n{G}```\n</think>\n```python\n{F}```", F),
        ("```python\ndef f(x:\n```\nSorry.", "def f(x:\n"),
    ],
)
def test_the_code_of_a_reply(text: str, code: str) -> None:
    """Of complete blocks the longest that defines more than tests counts, or a whole program."""
    assert extract_code(text) == code


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
        *("", "Write a function that doubles a number.", "def f(x: int) -> int:", "x = f(2)"),
        *(">>> f(2)\n<object at 0x7f>", ">>> f(2)\n...", ">>> f(2)", ">>> x = 2\n>>> f(x)\n4"),
        *(">>> f(2)\nTraceback (most recent call last):", ">>> f(2) == 4\nFalse"),
        *(">>> f(2) == f(3)\nTrue", ">>> print(f(2))\n4", ">>> print(f(2), sep='')\n4"),
        *("f(x) == 4", "f(2) == g(2)", "2 == 2", "sorted([2, 1]) == [1, 2]", "f(2) == 2 + 2 = 4"),
        *("f(2) -> the double", "f(n) returns n", "f(2) = 4", "f(2) != 4", "f(2) >= 4"),
        *("def f(x=2): return 4", "if f(2) == 4:", "f(2) == 4 == 4", "f(2" + "(" * 400 + " == 4"),
        *("[f(1), 4][1] == 4", "(f(1) or 4) == 4", "(f(1) if f(2) else 4) == 4"),
        *("4 in f(2) -> True", "not f(2) -> True", "max(f(1), 4) == 4", f"f({'-' * 470}2) == 4"),
    ],
)
def test_what_is_no_example(prompt: str) -> None:
    """A value that is no literal, or a call with a variable in it, is no example."""
    assert examples(prompt, None) == ()


def test_examples_are_of_the_function_that_is_asked_for() -> None:
    """Where the entry is known, calls of other functions are none of its examples; 20 are kept."""
    many = "\n".join(f"f({n}) == {n}" for n in range(30))

    assert len(examples(many, None)) == 20
    assert [case.call for case in examples("helper(2) == 3\nf(2) == 4", "f")] == ["f(2)"]
