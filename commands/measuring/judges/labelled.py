"""Reading labelled drafts: one JSON object a line."""

from pathlib import Path

from pydantic import ValidationError

from commands.measuring.batches.lines import (
    Fields,
    LineError,
    optional_text_of,
    read_lines,
    text_of,
)
from reflection.critique.calibration.records import Example
from reflection.critique.request import ReflectOnResultRequest
from reflection.run import explain

FORM = '{"query": "...", "draft": "...", "label": 0.8}'
WORDS = {"pass": 1.0, "fail": 0.0}


def read_examples(file: Path) -> list[Example]:
    """Read every example of a file, or end with exit code 2 and the line that is wrong."""
    return read_lines(file, read_example, FORM)


def read_example(fields: Fields) -> Example:
    """Read one line's fields. Raises LineError."""
    query, draft = text_of(fields, "query"), text_of(fields, "draft")
    _refuse_too_long(query, draft)
    return Example(
        query=query,
        draft=draft,
        label=_label(fields.get("label")),
        writer=optional_text_of(fields, "writer"),
    )


def _refuse_too_long(query: str, draft: str) -> None:
    try:
        ReflectOnResultRequest(query=query, draft=draft, max_revisions=0)
    except ValidationError as error:
        raise LineError(explain(error)) from None


def _label(value: object) -> float:
    if isinstance(value, str):
        value = WORDS.get(value.strip().lower())
    if isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    raise LineError('"label" is not 0 to 1, true, false, "pass" or "fail"')
