"""Reading a file of recorded answers: one JSON object a line, with what is wrong by line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands.session import fail

if TYPE_CHECKING:
    from reflection.convergence.replaying.replay import Recorded
    from reflection.convergence.request import AnswerKind


class RecordingError(ValueError):
    """A line is not what it should be; the message says how, and never quotes the line."""


def read_recordings(file: Path, kind: "AnswerKind") -> "list[Recorded]":
    """Read every question of a file, or end with exit code 2 and the line that is wrong."""
    questions = []
    try:
        for number, line in _lines(file):
            try:
                questions.append(read_question(kind, line))
            except RecordingError as error:
                fail(f"{file}, line {number}: {error}", 2)
    except OSError as error:
        fail(f"{file} can't be read: {error.strerror}", 2)
    if not questions:
        fail(f'{file} is empty: give it lines like {{"id": 1, "gold": "4", "answers": ["4"]}}', 2)
    return questions


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    with file.open("rb") as opened:
        for number, line in enumerate(opened, start=1):
            if line.strip():
                yield number, line


def read_question(kind: "AnswerKind", line: bytes) -> "Recorded":
    """Read one line; numbers keep the digits that they are written with.

    Raises RecordingError.
    """
    from reflection.convergence.replaying.replay import recorded

    try:
        data = json.loads(line, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        raise RecordingError("not JSON; each line is one JSON object") from None
    if not isinstance(data, dict):
        raise RecordingError("not a JSON object")
    answers, gold, ok = _answers(data.get("answers")), data.get("gold"), data.get("ok")
    if not (gold is None or isinstance(gold, str)):
        raise RecordingError('"gold" is neither text, nor a number, nor null')
    flags = None if ok is None else _flags(ok)
    try:
        return recorded(kind, answers, gold, flags)
    except ValueError as error:
        raise RecordingError(str(error)) from None


def _answers(value: Any) -> list[str | None]:
    if not isinstance(value, list) or not value:
        raise RecordingError('"answers" is missing, or is no list with an answer in it')
    if not all(each is None or isinstance(each, str) for each in value):
        raise RecordingError('an answer in "answers" is neither text, nor a number, nor null')
    return value


def _flags(value: Any) -> list[int]:
    if not isinstance(value, list):
        raise RecordingError('"ok" is no list')
    try:
        return [FLAGS[each] for each in value]
    except (KeyError, TypeError):
        raise RecordingError('"ok" has something else than 0 and 1') from None


FLAGS: dict[Any, int] = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, False: 0, True: 1}
