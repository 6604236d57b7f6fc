"""The reply of a reflection: issues to fix, and ideas beyond the sources."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from mull.multipath.markup import plain_words, stands_in
from mull.multipath.parts import Aspect, Critique
from mull.multipath.report import MOST_CRITIQUES
from mull.multipath.result import Source
from mull.replies import Reply, plain, read_reply, reply_schema
from mull.request import Record
from mull.text import cut_encoded, well_formed, words

MOST_SUGGESTIONS = 8
TEXT_BYTES = 600
NUMBER = re.compile(r"\[?(\d{1,4})\]?")
NOTHING = {"none", "nothing", "no issue", "no issues", "no suggestions", "n a", "null"}
# "person" is never given by a model.
ASPECTS = get_args(Aspect)[:-1]
TEXT = {"type": "string", "minLength": 8, "maxLength": 300}


def _line(value: object) -> str | None:
    """Bring a text to one line of bounded length; None if it is empty or means "none"."""
    line = cut_encoded(" ".join(well_formed(plain(value) or "").split()), TEXT_BYTES)
    says = any(letter.isalpha() for letter in line) and " ".join(words(line)) not in NOTHING
    return line if says else None


def _aspect(value: object) -> str:
    name = (plain(value) or "").strip().casefold()
    return name if name in ASPECTS else "consistency"


def _number(value: object) -> int | None:
    found = NUMBER.fullmatch((plain(value) or "").strip())
    return int(found[1]) if found else None


def _ideas(value: object) -> tuple[str, ...]:
    lines = map(_line, value if isinstance(value, list) else [value])
    return tuple(dict.fromkeys(line for line in lines if line))[:MOST_SUGGESTIONS]


class IssueReply(Reply):
    """One issue; an unknown aspect counts as consistency."""

    sentence: Annotated[
        str | None, BeforeValidator(_line), WithJsonSchema({"type": "string", "maxLength": 300})
    ] = None
    aspect: Annotated[
        Aspect, BeforeValidator(_aspect), WithJsonSchema({"type": "string", "enum": [*ASPECTS]})
    ] = "consistency"
    source: Annotated[int | None, BeforeValidator(_number), WithJsonSchema({"type": "integer"})] = (
        None
    )
    advice: Annotated[str | None, BeforeValidator(_line), WithJsonSchema(TEXT)] = None


class CheckedReply(Reply):
    """What is wrong with a report, where no ideas are wanted: issues first, then the verdict."""

    issues: list[IssueReply] = Field(json_schema_extra={"maxItems": 10})
    consistent: Annotated[bool, BeforeValidator(lambda value: plain(value) != "false")] = True

    @model_validator(mode="after")
    def _is_of_use(self) -> Self:
        if self.issues and not any(issue.advice for issue in self.issues):
            raise ValueError("no issue in it says what to change")
        if not self.issues and not self.consistent:
            raise ValueError("it calls the report inconsistent but names no issue")
        return self


class CreativeReply(CheckedReply):
    """What is wrong with a report, and ideas beyond the sources."""

    suggestions: Annotated[
        tuple[str, ...],
        BeforeValidator(_ideas),
        WithJsonSchema({"type": "array", "items": TEXT, "maxItems": 5}),
    ] = ()


class ReflectionReply(Record):
    """One reflection: critiques to fix, and suggestions beyond the sources.

    `error` says why the reply can't be used, and asking again with it may help. Both are empty
    then, which does not mean that the report is consistent.
    """

    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    error: str | None = None


def reflection_schema(creative: bool) -> dict[str, Any]:
    """Return the JSON schema of a reflection's reply."""
    return reply_schema(CreativeReply if creative else CheckedReply)


def parse_reflection(
    text: str, report: str, sources: Sequence[Source], creative: bool, prompt: str = ""
) -> ReflectionReply:
    """Read a reflection's reply, or say in one line why it can't be used; never raises.

    Issues count even if the reply calls the report consistent. A sentence that is not in the report
    is dropped, but its advice is kept. An object quoted from the prompt, the report or the sources
    is not taken for the reply.
    """
    shown = [prompt, report]
    for source in sources:
        shown += [source.passage.text, source.passage.source]
    said = read_reply(text, "issues", CreativeReply if creative else CheckedReply, shown)
    if isinstance(said, str):
        return ReflectionReply(error=said)
    there, known = plain_words(report), {source.number for source in sources}
    critiques = dict.fromkeys(
        Critique(
            aspect=issue.aspect,
            advice=issue.advice,
            sentence=issue.sentence if stands_in(issue.sentence or "", there) else None,
            cited=issue.source if issue.source in known else None,
        )
        for issue in said.issues
        if issue.advice
    )
    ideas = said.suggestions if isinstance(said, CreativeReply) else ()
    return ReflectionReply(critiques=tuple(critiques)[:MOST_CRITIQUES], suggestions=ideas)
