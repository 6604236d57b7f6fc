"""Calls of the code, evaluated in a sandbox and compared outside, which no code can forge."""

from collections.abc import Iterable

import pytest

from activities.sandbox.port import Sandbox
from mull.multipath.cases import parse_tests
from mull.multipath.extraction import examples
from mull.multipath.request import Limits
from mull.multipath.suite import Case, Suite
from tests.activities.code_tests.suites import cases, failed, tried

DOUBLES = cases(_2="4", _0="0", _3="6")


async def test_code_that_is_right_passes(sandbox: Sandbox) -> None:
    """All tests pass, nothing is forgeable, and the report says by which sandbox."""
    report = await tried(sandbox, "def f(x):\n    print('hello')\n    return 2 * x\n", DOUBLES)

    assert report.error is None
    assert (report.passed, report.total, report.status) == (3, 3, "ok")
    assert [each.test for each in report.outcomes] == ["f(2)", "f(0)", "f(3)"]
    assert not report.forgeable
    assert report.output == "hello\n" * 3
    assert report.backend == sandbox.name


async def test_code_that_is_wrong_fails(sandbox: Sandbox) -> None:
    """E says which test fails first, what is expected, and what came."""
    report, error = await failed(sandbox, "def f(x): return x * x\n", DOUBLES)

    assert (error.test, error.expected, error.got) == ("f(3)", "6", "9")
    assert error.message == "f(3) gives 9, expected 6"
    assert (report.passed, report.total) == (2, 3)


async def test_a_traceback_has_the_frames_of_the_code_alone(sandbox: Sandbox) -> None:
    """What is between the code and the sandbox is left out, and what the library does inside."""
    code = "import json\n\n\ndef f(x):\n    return g(x)\n\n\ndef g(x):\n    return json.loads('')\n"

    _, error = await failed(sandbox, code, DOUBLES)

    raised = "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    assert (error.traceback or "").splitlines() == [
        'File "solution.py", line 5, in f',
        "    return g(x)",
        'File "solution.py", line 9, in g',
        "    return json.loads('')",
        raised,
    ]
    assert error.message == f"f(2) raises {raised}"


@pytest.mark.parametrize(
    ("code", "message", "traceback"),
    [
        (
            "def f(x):\n    return (\n",
            "line 2: SyntaxError: '(' was never closed",
            'File "solution.py", line 2',
        ),
        ("import nothing\n", "ModuleNotFoundError: No module named 'nothing'", "import nothing"),
        ("raise SystemExit(0)\n", "SystemExit: 0", "line 1, in <module>"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero", "line 1, in <module>"),
        ("x = '\x00'\n", "source code string cannot contain null bytes", ""),
        ("", "f(2) raises NameError: name 'f' is not defined", ""),
    ],
)
async def test_code_that_can_not_be_imported(
    sandbox: Sandbox, code: str, message: str, traceback: str
) -> None:
    """E is what importing it raised, a syntax error with its line, and no test passes."""
    report, error = await failed(sandbox, code, DOUBLES)

    assert message in error.message
    assert traceback in (error.traceback or "")
    assert (report.passed, report.total) == (0, 3)


NO_DATA = {
    "(each for each in [4])": "a value of the type generator, which is not plain data",
    "type('AlwaysEq', (), {'__eq__': lambda *_: True})()": "a value of the type AlwaysEq",
    "type('Four', (int,), {'__eq__': lambda *_: True})(5)": "a value of the type Four",
    "__import__('numpy').float64(4)": "a value of the type float64",
    "list(range(100_000))": "a value of more than 2,000 items",
    "'a' * 100_000": "a text of 100,000 characters",
    "1 << 100_000": "an integer of 100,001 bits",
    "(lambda a: a.append(a) or a)([])": "a value nested more than 50 deep",
}
DATA = [
    *("None", "True", "-4", "0.1", "'針\\n\\ud800'", "b'\\x00'", "(1,)", "()", "[[], {}]", "1j"),
    *("{'a': {1, 2}}", "set()", "frozenset({1})", "float('nan')"),
    *("float('-inf')", "1" + "0" * 1000),
]


def returning(values: Iterable[str]) -> str:
    """Write an f that returns the value of each number."""
    return f"def f(x): return [lambda: {', lambda: '.join(values)}][x]()\n"


async def test_only_plain_data_is_compared(sandbox: Sandbox) -> None:
    """What is no exact builtin type, or too much, is never equal to anything."""
    suite = cases(**{f"_{number}": "4" for number in range(len(NO_DATA))})

    report = await tried(sandbox, returning(NO_DATA), suite)

    for number, (each, said) in enumerate(zip(report.outcomes, NO_DATA.values(), strict=True)):
        assert (each.message or "").startswith(f"f({number}) returns {said}")


async def test_plain_data_comes_out_as_it_is(sandbox: Sandbox) -> None:
    """Every exact builtin type, and what has no literal of its own, is read as the same value."""
    suite = cases(**{f"_{number}": value for number, value in enumerate(DATA)})

    report = await tried(sandbox, returning(DATA), suite)

    assert (report.error, report.passed) == (None, len(DATA))


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("def f(x):\n    while x == 0: pass\n    return 2 * x\n", "timeout", "ran for 1 s"),
        ("def f(x):\n    return 2 * x if x else [0] * 10**9\n", "ok", "raises MemoryError"),
        ("def f(x):\n    while x == 0: print('a' * 9_000)\n    return 2 * x\n",
         "output_limit", "printed more than 1,000,000 bytes"),
        ("import os\ndef f(x):\n    return 2 * x if x else os.kill(os.getpid(), 9)\n",
         "killed_by_signal", "the signal 9"),
    ],
)  # fmt: skip
async def test_a_program_that_does_not_end_by_itself(
    sandbox: Sandbox, code: str, status: str, message: str
) -> None:
    """The tests before it count, and E names the limit and the test that ran."""
    report, error = await failed(sandbox, code, DOUBLES, limits=Limits(wall_seconds=1))

    assert (error.test, report.status) == ("f(0)", status)
    assert message in error.message
    assert report.outcomes[0].passed


# Takes the nonce and the private descriptor from where they are, which the code may well do.
STEAL = """\
import gc, os, json
channel = next(each for each in gc.get_objects() if type(each).__name__ == "Channel")
"""
FORGERIES = {
    "exits": "import os\nos._exit(0)\n",
    "exits in a call": "import os\ndef f(x): os._exit(0)\n",
    "exits by exception": "def f(x): raise SystemExit(0)\n",
    "prints a verdict": (
        "print('3 passed')\nprint('{\"case\": 0, \"value\": \"4\"}')\n"
        "def f(x): return None\n"
    ),
    "says that it is over": f"{STEAL}channel.say(end=True)\nos._exit(0)\n",
    "says that all passed": f"{STEAL}channel.say(end=True, passed=3)\nos._exit(0)\n",
    "doubles a line": f"{STEAL}\ndef f(x):\n    channel.say(case=0, value='4')\n    return 2 * x\n",
    "numbers a line wrongly": (
        f"{STEAL}\nfor n in (-1, 3, 1e9, True, '0', None, [0]): channel.say(case=n, value='4')\n"
        "def f(x): return None\n"
    ),
    "prints half a line": (
        f"{STEAL}os.write(channel._descriptor, (channel._nonce + ' {{\"case\": 0').encode())\n"
        "os._exit(0)\n"
    ),
    "prints no JSON": (
        f"{STEAL}\nfor text in ('[' * 30_000, '9' * 30_000, '3', 'null', '{{}}', '\\\\x00'):\n"
        "    os.write(channel._descriptor, f'\\n{channel._nonce} {text}\\n'.encode())\n"
        "os._exit(0)\n"
    ),
    "prints a value without end": (
        f"{STEAL}channel.say(case=0, value='9' * 39_000)\nchannel.say(case=1, value='[' * 39_000)\n"
        "channel.say(case=2, value='0' * 90_000)\nos._exit(0)\n"
    ),
    "prints what always equals": (
        f"{STEAL}\nfor n in range(3): channel.say(case=n, value='AlwaysEq()')\n"
        "channel.say(end=True)\nos._exit(0)\n"
    ),
    "is always equal": (
        "class AlwaysEq:\n    def __eq__(self, other): return True\n"
        "    def __hash__(self): return 0\n    def __repr__(self): return '4'\n"
        "def f(x): return AlwaysEq()\n"
    ),
    "shows itself as another": (
        "class Four(int):\n    def __repr__(self): return '4'\n"
        "def f(x): return Four(5)\n"
    ),
    "closes the output": (
        "import sys, os\nsys.stdout.close()\nos.closerange(1, 64)\ndef f(x): return 1\n"
    ),
    "patches json": (
        "import json\njson.dumps = json.JSONEncoder.encode = lambda *_: '{\"passed\": true}'\n"
        "def f(x): return 5\n"
    ),
    "patches builtins": (
        "import builtins\nbuiltins.repr = builtins.ascii = lambda _: '4'\n"
        "builtins.eval = lambda *_: 4\nbuiltins.type = lambda _: int\ndef f(x): return 5\n"
    ),
    "patches the frames": (
        "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    frame.f_globals.get('task', {}); frame = frame.f_back\n"
        "def f(x): return sys._getframe(1).f_locals.get('expected', 5)\n"
    ),
    "forks": (
        "import os\nif child := os.fork(): os.waitpid(child, 0)\n"
        "def f(x): return 2 * x if child else 1\n"
    ),
    "forks what is right": (
        "import os\nif child := os.fork(): os.waitpid(child, 0)\n"
        "def f(x): return 1 if child else 2 * x\n"
    ),
    "fails to be shown": (
        "class Wrong(Exception):\n    def __str__(self): raise SystemExit(0)\n"
        "def f(x): raise Wrong\n"
    ),
    "ends at the end": (
        "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return 1\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", FORGERIES.values(), ids=FORGERIES)
async def test_no_code_passes_without_the_right_values(sandbox: Sandbox, code: str) -> None:
    """Whatever the code does to the process it runs in, E is set, and nothing is raised."""
    report = await tried(sandbox, code, DOUBLES)

    assert report.error is not None
    assert report.passed < 3


async def test_the_stolen_channel_is_the_real_one(sandbox: Sandbox) -> None:
    """Code that takes the channel and knows the right values passes; so the thefts above are."""
    said = "".join(f"channel.say(case={n}, value='{each}')\n" for n, each in enumerate((4, 0, 6)))
    code = f"{STEAL}{said}channel.say(end=True)\nos._exit(0)\n"

    report = await tried(sandbox, code, DOUBLES)

    assert (report.error, report.passed) == (None, 3)


EQUAL = """\
class Equal:
    def __eq__(self, other): return True
    def __contains__(self, other): return True
    def __getitem__(self, place): return place
    def __call__(self, *values): return values[-1]
    def __len__(self): return 1
    def __bool__(self): return False
    def __getattr__(self, name): return self


def f(x):
    return Equal()
"""
# What the code decides, or nobody, if it were asked for as it stands.
EXPRESSIONS = {
    "an equation": ("f(2) == 4", "True"),
    "an equation the other way": ("4 == f(2)", "True"),
    "an equation that is false": ("f(2) == 4", "False"),
    "an alternative": ("f(2) or 4", "4"),
    "a condition": ("4 if f(2) == 4 else 4", "4"),
    "a member": ("4 in f(2)", "True"),
    "a place of a list": ("[f(2), 4][1]", "4"),
    "a place of the value": ("f(2)[4]", "4"),
    "a method": ("f(2).value(4)", "4"),
    "a comparing method": ("f(2).__eq__(4)", "True"),
    "a negation": ("not f(2)", "True"),
    "a default": ("next(iter(f(2)), 4)", "4"),
    "a function of its own": ("(lambda x: 4)(f(2))", "4"),
    "a choice": ("max([f(2), 4], key=lambda x: x == 4)", "4"),
}


@pytest.mark.parametrize("way", ["session", "arrow", "model"])
async def test_no_expression_lets_the_code_decide(sandbox: Sandbox, way: str) -> None:
    """Of what a prompt or a model writes no test is made that only needs a value like no other."""
    made = [case for each in EXPRESSIONS.values() for case in _cases(way, *each)]

    suite = Suite(origin="prompt", kind="cases", cases=(*made, Case(call="f(2)", expected="4")))
    report = await tried(sandbox, EQUAL, suite)

    assert (report.passed, len(report.outcomes)) == (0, len(suite.cases))
    assert all("4" not in each.call for each in made)


def _cases(way: str, call: str, expected: str) -> tuple[Case, ...]:
    if way == "session":
        return examples(f">>> {call}\n{expected}\n", "f")
    if way == "arrow":
        return examples(f"{call} -> {expected}\n", "f")
    others = "".join(f', {{"call": "f({n})", "expected": "{n}"}}' for n in (5, 6, 7))
    said = f'{{"tests": [{{"call": "{call}", "expected": "{expected}"}}{others}]}}'
    return parse_tests(said, "f").cases


@pytest.mark.parametrize(
    ("code", "call", "expected"),
    [
        ("def len(x): return 2\ndef f(x): return [x]\n", "len(f(2))", "2"),
        (
            "sorted = list = lambda x: [1, 2]\ndef f(x): return [2, 1, 0]\n",
            "sorted(f(2))",
            "[1, 2]",
        ),
        ("__builtins__['len'] = lambda x: 2\ndef f(x): return [x]\n", "len(f(2))", "2"),
        ("import builtins\nbuiltins.len = lambda x: 2\ndef f(x): return [x]\n", "len(f(2))", "2"),
        ("def str(x): return 'a'\ndef f(x): return 'b'\n", "str(f(2))", "'a'"),
    ],
)
async def test_python_s_own_functions_are_python_s(
    sandbox: Sandbox, code: str, call: str, expected: str
) -> None:
    """A test calls the builtins as they are, though the code has others by their names."""
    suite = Suite(origin="model", kind="cases", cases=(Case(call=call, expected=expected),))

    _, error = await failed(sandbox, code, suite)

    assert error.got is not None


LOOK = """\
import gc, os, sys

TEXTS = [str(sys.argv), str(dict(os.environ))]
TEXTS += [str(each) for each in gc.get_objects() if type(each) in (dict, list) and len(each) < 50]
for folder, _, names in os.walk("."):
    TEXTS += [open(os.path.join(folder, each), errors="replace").read() for each in names]


def f(x):
    sought = ("".join(["f(", "2)"]), "".join(["zanzi", "bar"]))
    return [any(each in text for text in TEXTS) for each in sought]
"""


async def test_expected_values_never_enter_the_sandbox(sandbox: Sandbox) -> None:
    """Where the code can find the call in files, arguments and memory, no expected value is."""
    assert (await tried(sandbox, LOOK, cases(_2="'zanzibar'"))).outcomes[0].got == "[True, False]"
