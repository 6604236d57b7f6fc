"""What a user can do about an error of the code, where its words tell."""

import re
import sys

from reflection.multipath.suite import Failure, Suite

MISSING = re.compile(r"No module named '(\w{1,100})")


def module_hint(error: Failure | None, suite: Suite | None) -> str:
    """Say how a module that was not found can be had; nothing where none is missing."""
    found = MISSING.search(f"{error.message}\n{error.traceback or ''}") if error else None
    if found is None or found[1] in sys.stdlib_module_names:
        return ""
    name = found[1]
    further = f"--packages {name} lets the code import what the worker has of that name"
    if suite is None or suite.file is None or not _imports(suite.file.text, name):
        return f"there is no module {name} in the sandbox: {further}"
    return f"the tests import {name}: the code is the module `solution` for them, and {further}"


def _imports(text: str, name: str) -> bool:
    return re.search(rf"^[ \t]*(?:import|from)\s[^#\n]*\b{name}\b", text, re.MULTILINE) is not None
