"""Reading a file of JSON lines: what is wrong is said by line, and never quoted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from commands.session import Exit, fail
from reflection.text import well_formed

Value = TypeVar("Value")
Fields = dict[str, Any]


class LineError(ValueError):
    """A line is not what it should be; the message says how, and never quotes the line."""


def read_lines(
    file: Path, read: Callable[[Fields], Value], form: str, *, exact: bool = False
) -> list[Value]:
    """Read every line of a file, or end with exit code 2 and the line that is wrong.

    `form` is an example of a line, for who gives an empty file. Where it is `exact`, numbers are
    texts with the digits that they are written with.
    """
    digits: dict[str, Any] = {"parse_int": str, "parse_float": str} if exact else {}
    found = []
    try:
        with file.open("rb") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    try:
                        found.append(read(_fields(line, digits)))
                    except LineError as error:
                        fail(f"{file}, line {number}: {error}.", Exit.USAGE)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "not a file's name"
        fail(f"{file} can't be read: {said}.", Exit.USAGE)
    if not found:
        fail(f"{file} is empty: give it lines like {form}", Exit.USAGE)
    return found


def text_of(fields: Fields, name: str) -> str:
    """Return a field that has to be a text with something in it. Raises LineError."""
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise LineError(f'"{name}" is missing, or is no text with something in it')
    return well_formed(value)


def _fields(line: bytes, digits: dict[str, Any]) -> Fields:
    try:
        data = json.loads(line, **digits)
    except (ValueError, RecursionError):
        raise LineError("not JSON; each line is one JSON object") from None
    if not isinstance(data, dict):
        raise LineError("not a JSON object")
    return data
