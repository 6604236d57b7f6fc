"""From code and its tests to the program that the sandbox runs; no expected value is in it."""

import json
from pathlib import Path

from activities.sandbox.port import Program
from reflection.multipath.coding.suite import Suite, SuiteKind
from reflection.multipath.request import Limits
from reflection.text import well_formed

KEPT_BYTES = 500_000
RESULT_BYTES = 100_000
SOLUTION = "solution.py"

# Behind everything else, so that no file of a user's hides a module of Python's own.
START = """\
import os
import sys

here = os.getcwd()
sys.path[:] = [*(each for each in sys.path if each not in ("", here)), here]
from {package}.{program} import main

main()
"""
PACKAGE = "mull_inside"
PROGRAMS: dict[SuiteKind, str] = {"cases": "cases", "script": "script", "pytest": "pytest_file"}
INSIDE = {
    f"{PACKAGE}/{each.name}": each.read_text(encoding="utf-8")
    for each in sorted((Path(__file__).parent / "inside").glob("*.py"))
}


def build_program(
    code: str, suite: Suite, packages: tuple[str, ...], limits: Limits, nonce: str
) -> Program:
    """Put code, tests and the program that runs them together. Raises ValidationError.

    The nonce marks the lines of the program that are results, and comes by the standard input.
    """
    files = {**INSIDE, SOLUTION: well_formed(code)}
    name = _name(suite)
    if suite.file and name:
        files[name] = well_formed(suite.file.text)
    calls = [each.call for each in suite.cases]
    return Program(
        code=START.format(package=PACKAGE, program=PROGRAMS[suite.kind]),
        files=files,
        input=json.dumps({"nonce": nonce, "calls": calls, "file": name, "entry": suite.entry}),
        packages=packages,
        limits=_with_room(limits),
        keep_bytes=KEPT_BYTES,
    )


def _name(suite: Suite) -> str | None:
    """Name the user's file so that it takes nothing's place, and that pytest can import it."""
    if suite.file is None:
        return None
    if suite.kind == "pytest":
        return f"{suite.file.name.removesuffix('.py').replace('.', '_')}.py"
    taken = suite.file.name in {SOLUTION, "main.py", PACKAGE}
    return f"tests_{suite.file.name}" if taken else suite.file.name


def _with_room(limits: Limits) -> Limits:
    """Leave room for the results, which are no output of the code's."""
    room = max(limits.output_bytes, RESULT_BYTES)
    return limits.model_copy(update={"output_bytes": room})
