"""A user's own tests, read before a run begins."""

import ast
import warnings
from pathlib import Path

from commands.inputs import checked, read_file
from commands.session import Exit, fail


def read_tests(option: str, path: Path) -> dict[str, str]:
    """Read a file of tests; one that is no Python is one line, before a model is paid."""
    from reflection.multipath.coding.suite import TestFile

    known = {"name": path.name, "text": read_file(option, path)}
    checked(TestFile, known, option)
    if path.suffix == ".py":
        _parsed(option, path, known["text"])
    return known


def _parsed(option: str, path: Path, text: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        fail(f"{option}: {path}{where} is no Python: {error.msg}.", Exit.USAGE)
    except (ValueError, RecursionError, MemoryError):
        fail(f"{option}: {path} can't be read as Python.", Exit.USAGE)
