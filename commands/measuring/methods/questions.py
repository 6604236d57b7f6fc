"""Reading questions, with or without the right answer: one JSON object a line."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from commands.measuring.batches.lines import Fields, LineError, read_lines, text_of
from reflection.convergence.request import AnswerKind, SelfConsistencyRequest
from reflection.request import explain
from reflection.sampling.answers import read_answer

FORM = '{"question": "What is 6 times 7?", "gold": "42"}'


class Question(NamedTuple):
    """A question, and the form under which a right answer votes, None where nobody knows it."""

    question: str
    gold: str | None


def read_questions(file: Path, kind: AnswerKind) -> list[Question]:
    """Read every question of a file, or end with exit code 2 and the line that is wrong."""
    return read_lines(file, partial(read_question, kind), FORM)


def read_question(kind: AnswerKind, fields: Fields) -> Question:
    """Read one line's fields. Raises LineError."""
    question = text_of(fields, "question")
    try:
        SelfConsistencyRequest(question=question)
    except ValidationError as error:
        raise LineError(explain(error)) from None
    return Question(question, _gold(kind, fields.get("gold")))


def _gold(kind: AnswerKind, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise LineError('"gold" is neither text, nor a number, nor null')
    form = read_answer(kind, str(value))
    if form is None:
        raise LineError(f'"gold" can\'t be read as {kind}')
    return form
