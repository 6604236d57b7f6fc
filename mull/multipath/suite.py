"""The tests for the code, and their outcomes."""

import re
import sys
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from mull.request import Frozen, Record
from mull.text import Shown, tally_words

FILE_BYTES = 200_000
# The most that an outcome takes in a history. Its test is the whole call, to be found again.
OUTCOME_BYTES = {"test": 600, "expected": 300, "got": 300, "message": 300, "traceback": 500}
MISSING = re.compile(r"No module named '(\w{1,100})")

SuiteOrigin = Literal["user", "prompt", "model"]
SuiteKind = Literal["pytest", "script", "cases"]
WRITTEN_BY: dict[SuiteOrigin, str] = {
    "user": "the user's own",
    "prompt": "the prompt's examples",
    "model": "the model's own",
}
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]


class TestFile(Frozen):
    """A user's own file of tests; its name says whether pytest runs it, or Python as a script."""

    __test__ = False

    name: FileName
    text: str = Field(min_length=1)

    @property
    def kind(self) -> SuiteKind:
        """`pytest` where pytest would find the file by its name, else `script`."""
        stem = self.name.removesuffix(".py")
        found = stem.startswith("test_") or stem.endswith("_test")
        return "pytest" if found else "script"


class Case(Record):
    """One call and its expected value: two Python expressions, the second a literal.

    Only the call goes into the sandbox, never the expected value. `beside`: the call uses more of
    the code than the function that is tested, such as a helper from the prompt.
    """

    call: str
    expected: str
    beside: bool = False


class Suite(Record):
    """All tests of a run: cases, or one file. `entry` is the function that the tests call."""

    origin: SuiteOrigin
    kind: SuiteKind
    cases: tuple[Case, ...] = ()
    file: TestFile | None = None
    entry: str | None = None

    @property
    def forgeable(self) -> bool:
        """Whether the code under test runs beside its tests and could forge the verdict."""
        return self.kind != "cases" or any(case.beside for case in self.cases)

    @property
    def words(self) -> str:
        """The tests in words, and whether the code could forge their verdict."""
        what = self.file.name if self.file else tally_words(len(self.cases), "test")
        beside = "run beside the code, which could forge their verdict"
        forged = f", {'' if self.file else 'some '}{beside}" if self.forgeable else ""
        return f"{what}, {WRITTEN_BY[self.origin]}{forged}"


class TestOutcome(Record):
    """The outcome of one test; `got` and `expected` are Python expressions, if any."""

    __test__ = False

    test: str
    passed: bool
    expected: str | None = None
    got: str | None = None
    message: str | None = None
    traceback: str | None = None

    @property
    def failed_words(self) -> str:
        """How it fails: what was expected and what came, or what happened."""
        if self.expected is None:
            return self.message or "it fails"
        if self.got is not None:
            return f"expected {self.expected}, got {self.got}"
        return f"expected {self.expected}; {self.message or 'there is no value'}"


class Disputed(TestOutcome):
    """One of the model's own tests that every draft failed; `given` says what each draft gave."""

    given: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The test, what it expects, and what each draft gave."""
        return f"{self.test}, expected {self.expected}: {', '.join(self.given)}"


class Failure(Record):
    """E: why the code is not right yet.

    `test` is the first that fails, with `expected` and `got` if it compares values. `status` is the
    sandbox's status of a program that did not end normally. `traceback` has only the frames of
    the code and the tests.
    """

    message: Annotated[str, Shown("message")]
    test: Annotated[str | None, Shown("test")] = None
    expected: Annotated[str | None, Shown("expected")] = None
    got: Annotated[str | None, Shown("got")] = None
    traceback: str | None = None
    status: Annotated[str | None, Shown("status|extra")] = None


class TestReport(Record):
    """What the tests say of one draft of the code.

    `passed` counts those that hold: tests, or the assertions of a script before the first that
    fails. `total` is None where the run ended before anybody could count them. `output` is the
    end of what the code printed. `warnings` are for the result, such as a limit that the worker
    lowered.
    """

    __test__ = False

    outcomes: tuple[TestOutcome, ...]
    passed: int
    total: int | None
    error: Failure | None
    forgeable: bool
    status: str
    backend: str
    output: str = ""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    attempts: int = 1
    warnings: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """How the sandbox ran the tests, and what that took."""
        memory = f"{self.peak_memory_bytes / 2**20:,.0f} MiB"
        took = f"{self.wall_seconds:.2f} s, CPU {self.cpu_seconds:.2f} s, {memory}"
        ran = tally_words(self.attempts, "attempt")
        return f"tests run in {self.backend} ({self.status}): {took}, {ran}"


def module_hint(error: Failure | None) -> str:
    """Say how to make a missing module available; empty if none is missing."""
    found = MISSING.search(f"{error.message}\n{error.traceback or ''}") if error else None
    if found is None or found[1] in sys.stdlib_module_names:
        return ""
    return (
        f"there is no module {found[1]} in the sandbox: --packages {found[1]} lets the code import "
        "the worker's package of that name, and tests import the code itself from `solution`"
    )
