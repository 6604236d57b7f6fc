"""The function that is asked for, where nobody names it."""

import pytest

from reflection.multipath.coding.reading.entry import entry_in, entry_of, entry_tested
from reflection.multipath.coding.reading.examples import examples

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


@pytest.mark.parametrize(
    ("prompt", "entry"),
    [
        ("f(2) == 4\nf(3) == 6", "f"),
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


@pytest.mark.parametrize(
    ("tests", "entry"),
    [
        ("from solution import f\n\ndef test_f():\n    assert f(2) == 4\n", "f"),
        ("from solution import f as candidate\nassert candidate(2) == 4\n", "f"),
        ("def check(candidate):\n    assert candidate(2) == 4\n\ncheck(f)\n", "f"),
        ("from solution import *\n\ndef test_f():\n    check(f)\n", "f"),
        ("from solution import f, g\n", None),
        ("from other import f\n", None),
        ("import solution\n", None),
        ("def f(\n", None),
    ],
)
def test_the_entry_is_what_a_user_s_tests_take(tests: str, entry: str | None) -> None:
    """A file of tests names the function by importing it alone, or by giving it to check()."""
    assert entry_tested(tests) == entry
