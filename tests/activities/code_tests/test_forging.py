"""Programs that pretend, and programs of strangers that are right, held to a prompt's examples.

A forged program may compute the very number that is asked for: it fails because what it returns is
not that value.
"""

import pytest
from temporalio.testing import ActivityEnvironment

from activities.checks import ExamplesTask, read_examples
from activities.sandbox.port import Sandbox
from mull.multipath.suite import Suite, TestReport
from tests.activities.code_tests.suites import tried

PROMPT = """\
{helper}
{declared}
    \"\"\" Do it.

{examples}
    \"\"\"
"""
# Looks like a list of the three numbers, and is an empty one.
PRETENDER = """\
class List(list):
    def __len__(self): return 3
    def __iter__(self): return iter([1, 2, 3])
    def __str__(self): return "[1, 2, 3]"
    __repr__ = __str__
    def __bool__(self): return True
    def __eq__(self, other): return True
    def __getitem__(self, place): return place + 1
    def __contains__(self, other): return True


def f(x): return List()
"""
NUMBER = """\
class Number({base}):
    def __int__(self): return 4
    def __float__(self): return 4.5
    def __complex__(self): return 4j
    def __abs__(self): return 4
    def __round__(self, places=None): return 4.5
    def __bool__(self): return True
    def __radd__(self, other): return 4
    def __str__(self): return "4"
    def __repr__(self): return "4"
    def __bytes__(self): return b"4"
    def __lt__(self, other): return True


def f(x): return {value}
"""


def number(base: str, value: str) -> str:
    """Write a program that returns a number that is none."""
    return NUMBER.format(base=base, value=value)


# Its class says of itself that it is list, int and everything else.
METACLASS = """\
class Anything(type):
    def __eq__(self, other): return True
    def __hash__(self): return hash({like})
    __flags__ = {like}.__flags__


class Pretender(metaclass=Anything):
    __module__, __class__ = "builtins", {like}
    def __iter__(self): return iter([1, 2])
    def __len__(self): return 2
    def __repr__(self): return "4"
    def bit_length(self): return 3


Pretender.__name__ = {like}.__name__
def f(x): return Pretender()
"""


def every(like: str) -> str:
    """Write a program that returns an object of a class that says it is another."""
    return METACLASS.format(like=like)


# What the code changes in the program around it, and what is then said of len(f(2)).
AROUND = """\
import sys
m = sys.modules["mull_inside.harness"]
m.BUILTINS["len"] = m.BUILTINS["sorted"] = lambda *a, **k: {said}
m.readable = lambda value: value
m.verdict = m.judge = m.same = m.stopped = lambda *a, **k: None
def f(x): return []
# len(f(2)) -> 3
# sorted(f(2)) -> [1, 2, 3]
"""
# Each program ends with its examples, as comments.
FORGED = {
    "a list": f"""\
{PRETENDER}
# len(f(2)) -> 3
# list(f(2)) -> [1, 2, 3]
# sorted(f(2)) -> [1, 2, 3]
# tuple(f(2)) -> (1, 2, 3)
# set(f(2)) -> {{1, 2, 3}}
# sum(f(2)) -> 6
# str(f(2)) -> '[1, 2, 3]'
# repr(f(2)) -> '[1, 2, 3]'
# bool(f(2)) -> True
""",
    "a list in a list": (
        f"{PRETENDER.replace('return List()', 'return [List()]')}# str(f(2)) -> '[[1, 2, 3]]'"
    ),
    "a number": f"""\
{number("object", "Number()")}
# int(f(2)) -> 4
# float(f(2)) -> 4.5
# complex(f(2)) -> 4j
# abs(f(2)) -> 4
# round(f(2), 1) -> 4.5
# bytes(f(2)) -> b'4'
""",
    "the text of a number": f"{number('int', 'Number(5)')}# str(f(2)) -> '4'",
    "the text of a text": f"{number('str', 'Number(5)')}# str(f(2)) -> '4'",
    "a summand": f"{number('object', '[Number()]')}# sum(f(2)) -> 4",
    "a summand that is yielded": f"{number('object', 'iter([Number()])')}# sum(f(2)) -> 4",
    "an order of its own": (
        f"{number('int', '[Number(1), Number(2)]')}# str(sorted(f(2))) -> '[4, 4]'"
    ),
    "an error's text": f"{number('object', 'ValueError(Number())')}# str(f(2)) -> '4'",
    "a dict's keys": """\
class Dict(dict):
    def keys(self): return ["a"]
    def __iter__(self): return iter("a")
    def __getitem__(self, key): return 1


def f(x): return Dict()
# dict(f(2)) -> {'a': 1}
# list(f(2)) -> ['a']
""",
    "a counter's length": """\
from collections import Counter
Counter.__len__ = lambda self: 3
def f(x): return Counter()
# len(f(2)) -> 3
""",
    "a named tuple's length": """\
from typing import NamedTuple


class Pair(NamedTuple):
    a: int = 0
    def __len__(self): return 3


def f(x): return Pair()
# len(f(2)) -> 3
""",
    "a proxy of a list": f"""\
{PRETENDER.replace("return List()", "return weakref.proxy(KEPT)")}
import weakref
KEPT = List()
# len(f(2)) -> 3
# str(f(2)) -> '[1, 2, 3]'
""",
    "a proxy of a mapping": """\
import types


class Map:
    def __len__(self): return 3
    def __getitem__(self, key): return 1
    def keys(self): return ["a"]


def f(x): return types.MappingProxyType(Map())
# len(f(2)) -> 3
# dict(f(2)) -> {'a': 1}
""",
    "an entry that is a class": """\
class f(list):
    def __len__(self): return 3
    def __init__(self, x): pass
# len(f(2)) -> 3
""",
    "a class that is every class: a set": f"{every('frozenset')}# f(2) -> frozenset({{1, 2}})",
    "a class that is every class: an int": f"{every('int')}# f(2) -> 4",
    "a class that is every class: a list": f"{every('list')}# len(f(2)) -> 2",
    "patched builtins": """\
import builtins
like = type


class Pretender:
    def bit_length(self): return 3


builtins.type = lambda value: int if like(value) is Pretender else like(value)
builtins.repr = lambda value: "4" if like(value) is Pretender else ascii(value)
def f(x): return Pretender()
# f(2) -> 4
""",
    "nothing for next to nothing": "def f(x): return 0.0\n# f(2) -> 1.05e-34",
    "nothing for little, in a list": "def f(x): return [0.0]\n# f(2) -> [4e-13]",
    "nothing for little, in a complex": "def f(x): return 1j\n# f(2) -> 4e-13+1j",
    "twice for little": "def f(x): return 8e-13\n# f(2) -> 4e-13",
    "nearly an integer": "def f(x): return 4.000000001\n# f(2) -> 4",
    "nearly zero for an integer": "def f(x): return 1e-13\n# f(2) -> 0",
    "a large integer as a float": "def f(x): return 1e17\n# f(2) -> 100000000000000001",
    "integers as floats, in a list": "def f(x): return [3e9, 1.0]\n# f(2) -> [3000000001, 1]",
    "a truth value": "def f(x): return True\n# f(2) -> 1",
}
# A changed harness can only claim other values, which are compared where the code is not.
FORGED |= {
    f"a harness that says {said}": AROUND.replace("{said}", said)
    for said in ("True", "0", "None", "object()", "[]")
}
# What the prompt defines before the function, and code that defines it anew.
HELPED = {
    "a helper that checks": (
        "def is_sorted(xs): return all(a <= b for a, b in zip(xs, xs[1:]))",
        "def is_sorted(xs): return True\ndef f(x): return x\n# is_sorted(f([3, 1, 2])) -> True",
    ),
    "a helper that checks, among others": (
        "def is_sorted(xs): return all(a <= b for a, b in zip(xs, xs[1:]))",
        """\
def is_sorted(xs): return True
def f(x): return x
# f([1, 2]) -> [1, 2]
# bool(is_sorted(f([3, 1, 2]))) == True -> True
""",
    ),
    "a helper that gives the input": (
        "def shuffled(n): return sorted(range(n), key=hash)",
        "def shuffled(n): return list(range(n))\ndef f(x): return x\n# f(shuffled(3)) -> [0, 1, 2]",
    ),
    "a helper that orders": (
        "def backwards(x): return -x",
        "def backwards(x): return x\ndef f(x): return x\n# f([1, backwards(2)]) -> [1, 2]",
    ),
}
# Right programs, each below its name and above its examples.
HONEST_TEXT = """\
=== a tuple
def f(xs): return min(xs), max(xs)
# f([3, 1, 2]) -> (1, 3)
# sum(f([3, 1])) -> 4
# list(f([5])) -> [5, 5]
=== a set
def f(text): return {c for c in text if c.isalpha()}
# f('a1b') -> {'b', 'a'}
# len(f('aab')) -> 2
# sorted(f('ba')) -> ['a', 'b']
# f('') -> set()
=== a frozen set
def f(*xs): return frozenset(xs)
# f(1, 2) -> frozenset({1, 2})
# set(f(2, 2)) -> {2}
=== a dict
def f(text):
    found = {}
    for c in text:
        found[c] = found.get(c, 0) + 1
    return found
# f('aab') -> {'b': 1, 'a': 2}
# sorted(f('ba')) -> ['a', 'b']
# len(f('ab')) -> 2
=== a counter
from collections import Counter
def f(text): return Counter(text)
# f('aab') -> {'a': 2, 'b': 1}
# dict(f('aab')) -> {'a': 2, 'b': 1}
# len(f('ab')) -> 2
=== a dict with defaults
from collections import defaultdict
def f(words):
    found = defaultdict(list)
    for word in words:
        found[word[0]].append(word)
    return found
# f(['ab', 'ac']) -> {'a': ['ab', 'ac']}
# dict(f(['b'])) -> {'b': ['b']}
# len(f([])) -> 0
=== an ordered dict
from collections import OrderedDict
def f(xs): return OrderedDict((x, str(x)) for x in xs)
# f([2, 1]) -> {1: '1', 2: '2'}
# list(f([2, 1])) -> [2, 1]
=== a generator
def f(n):
    a, b = 0, 1
    for _ in range(n):
        yield a
        a, b = b, a + b
# list(f(5)) -> [0, 1, 1, 2, 3]
# sum(f(5)) -> 7
# tuple(f(2)) -> (0, 1)
# sorted(f(3), key=lambda x: -x) -> [1, 1, 0]
# list(f(0)) -> []
=== a generator expression
def f(n): return (x * x for x in range(n))
# set(f(4)) -> {0, 1, 4, 9}
# len(list(f(5_000))) -> 5000
=== a generator of pairs
def f(xs):
    yield from enumerate(xs)
# dict(f('ab')) -> {0: 'a', 1: 'b'}
# list(f(['x'])) -> [(0, 'x')]
=== a map
def f(xs): return map(str, xs)
# list(f([1, 2])) -> ['1', '2']
=== a filter
def f(xs): return filter(None, xs)
# tuple(f([0, 1, 2])) -> (1, 2)
=== a zip
def f(a, b): return zip(a, b)
# list(f('ab', [1, 2])) -> [('a', 1), ('b', 2)]
=== a range
def f(n): return range(n)
# list(f(3)) -> [0, 1, 2]
# len(f(9)) -> 9
=== a reversed list
def f(xs): return reversed(xs)
# list(f([1, 2])) -> [2, 1]
=== itertools
from itertools import chain, islice, count, permutations
def f(n): return chain(islice(count(), n), [9])
# list(f(2)) -> [0, 1, 9]
# sum(f(1)) -> 9
=== keys
def f(d): return d.keys()
# list(f({'a': 1})) -> ['a']
# len(f({})) -> 0
=== items
def f(d): return d.items()
# sorted(f({'b': 1, 'a': 2})) -> [('a', 2), ('b', 1)]
=== values
def f(d): return d.values()
# sum(f({'b': 1, 'a': 2})) -> 3
=== a queue
from collections import deque
def f(n): return deque([1, 2, 3], maxlen=n)
# list(f(2)) -> [2, 3]
# len(f(3)) -> 3
=== a decimal
from decimal import Decimal
def f(text): return Decimal(text) * 2
# str(f('1.10')) -> '2.20'
# float(f('0.25')) -> 0.5
=== a date
from datetime import date, timedelta
def f(text): return date.fromisoformat(text) + timedelta(1)
# str(f('2024-02-28')) -> '2024-02-29'
=== numpy
import numpy
def f(xs): return numpy.array(xs).mean()
# float(f([1, 2])) -> 1.5
# int(f([1, 2])) -> 1
=== an array
import numpy
def f(xs): return numpy.cumsum(xs)
# len(f([1, 2])) -> 2
=== a string
def f(text): return text[::-1]
# f('ab') -> 'ba'
# len(f('abc')) -> 3
# sorted(f('ab')) -> ['a', 'b']
# f('針') -> '針'
=== bytes
def f(text): return text.encode()
# f('a') -> b'a'
# list(f('a')) -> [97]
=== nothing
def f(x): pass
# f(2) -> None
# bool(f(3)) -> False
=== a truth value
def f(n): return n % 2 == 0
# f(2) -> True
# f(3) -> False
=== floats
def f(xs): return sum(xs) / len(xs)
# f([0.1, 0.2]) -> 0.15
# round(f([1, 2, 2]), 2) -> 1.67
# f([1, 3]) -> 2.0
# f([2, 2]) -> 2
# f([1e-34, 1.1e-34]) -> 1.05e-34
=== a float that should be zero
import math
def f(x): return math.sin(math.pi * x)
# f(1) -> 0.0
# f(0) -> 0.0
=== an int for a float
def f(x): return x * x
# f(2) -> 4.0
# f(1.5) -> 2.25
=== a complex
import cmath
def f(x): return cmath.exp(1j * x)
# f(3.141592653589793) -> -1+0j
=== a large integer
import math
def f(n): return math.factorial(n)
# f(25) -> 15511210043330985984000000
# len(str(f(1_000))) -> 2568
=== infinity
def f(x): return float('inf')
# f(2) -> float('inf')
=== a matrix
def f(n): return [[int(i == j) for j in range(n)] for i in range(n)]
# f(2) -> [[1, 0], [0, 1]]
# str(f(1)) -> '[[1]]'
=== rows that are one list
def f(n): return [[0] * n] * n
# f(2) -> [[0, 0], [0, 0]]
# len(f(2)) -> 2
=== a nested record
def f(name): return {'name': name, 'tags': ('a', {1.5}), 'none': None}
# f('x') -> {'name': 'x', 'none': None, 'tags': ('a', {1.5})}
=== a cached function
from functools import lru_cache
@lru_cache(None)
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
# f(80) -> 23416728348467685
# f(f(6)) -> 21
=== a lambda that prints
f = lambda x: print(x) or x
# f(2) -> 2
# str(f([1])) -> '[1]'
=== a name of Python's own
def len(xs): return -1
def f(xs): return [len(xs), *xs]
# f([2]) -> [-1, 2]
# len(f([2])) -> 2
=== a class
class Countdown:
    def __init__(self, n):
        self.n = n
        self.seen = []
    def __iter__(self):
        while self.n:
            yield self.n
            self.n -= 1
    def __len__(self): return self.n
    def __str__(self): return f"{self.n} to go"
    def step(self):
        self.n -= 1
        self.seen.append(self.n)
        return self
# list(Countdown(3)) -> [3, 2, 1]
# sum(list(Countdown(3))) -> 6
# len(Countdown(3)) -> 3
# str(Countdown(3).step()) -> '2 to go'
# len(Countdown(3).step().seen) -> 1
# Countdown(3).step().step().n -> 1
"""
HONEST = dict(part.split("\n", 1) for part in HONEST_TEXT.split("=== ")[1:])


async def held(
    sandbox: Sandbox, program: str, declared: str = "def f(x):", helper: str = ""
) -> TestReport:
    """Hold a program to its examples, as a prompt shows them; all of them are tests."""
    shown = [line[2:].split(" -> ") for line in program.splitlines() if line.startswith("# ")]
    examples = "\n".join(f"    >>> {call}\n    {expected}" for call, expected in shown)
    prompt = PROMPT.format(helper=helper, declared=declared, examples=examples)
    read = await ActivityEnvironment().run(read_examples, ExamplesTask(prompt=prompt, entry=None))
    suite = Suite(origin="prompt", kind="cases", cases=read.cases, entry=read.entry)
    assert len(suite.cases) == len(shown)
    return await tried(sandbox, program, suite)


@pytest.mark.parametrize("program", FORGED.values(), ids=FORGED)
async def test_what_pretends_fails(sandbox: Sandbox, program: str) -> None:
    """A value counts by its exact type and by what is in it, and a number by what it is."""
    report = await held(sandbox, program)

    assert (report.error is None, report.passed) == (False, 0)
    assert not report.forgeable


@pytest.mark.parametrize(("helper", "program"), HELPED.values(), ids=HELPED)
async def test_a_verdict_that_rests_on_a_helper_is_forgeable(
    sandbox: Sandbox, helper: str, program: str
) -> None:
    """The code may define the helper anew, so that such a test says no more than a user's file."""
    assert (await held(sandbox, program, helper=helper)).forgeable


@pytest.mark.parametrize("program", HONEST.values(), ids=HONEST)
async def test_what_is_right_passes(sandbox: Sandbox, program: str) -> None:
    """Whatever plain data it returns, or yields, or a class; and nothing about it is forgeable.

    By convention the name of a class begins with a capital letter; its methods are no helpers.
    """
    declared = "class Countdown:" if "class Countdown:" in program else "def f(x):"

    report = await held(sandbox, program, declared)

    assert (report.error, report.forgeable) == (None, False)


async def test_whoever_knows_the_value_may_as_well_return_it(sandbox: Sandbox) -> None:
    """A changed builtin that claims it passes as `return [1, 2, 3]` does, and says no more."""
    claims = AROUND.replace("# sorted(f(2)) -> [1, 2, 3]\n", "").replace("{said}", "3")
    returns = "def f(x): return [1, 2, 3]\n# len(f(2)) -> 3\n"

    found = [await held(sandbox, program) for program in (claims, returns)]

    assert [(report.error, report.forgeable) for report in found] == [(None, False)] * 2


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        ("frozenset({1, 2})", "{1, 2}", True),
        ("{1, 2}", "frozenset({1, 2})", True),
        ("[frozenset()]", "[set()]", True),
        ("[1, 2]", "{1, 2}", False),
        ("(1, 2)", "[1, 2]", False),
        ("frozenset({True})", "{1}", False),
    ],
)
async def test_a_frozen_set_is_the_set_that_python_says_it_equals(
    sandbox: Sandbox, value: str, expected: str, *, same: bool
) -> None:
    """Lists, tuples and sets are told apart, as by `==`."""
    report = await held(sandbox, f"def f(x): return {value}\n# f(2) -> {expected}\n")

    assert (report.error is None) == same
