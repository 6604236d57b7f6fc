"""What a reflection's reply says: issues that are to be mended, and ideas beyond the sources."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from reflection.critique.guardrails.prose import fold, words
from reflection.multipath.markup import plain_words, stands_in
from reflection.multipath.report import MOST_CRITIQUES
from reflection.multipath.result import Source
from reflection.multipath.state import Aspect, Critique
from reflection.objects import Members, Number, every_object, plain, without_objects
from reflection.plain import well_formed
from reflection.request import Record
from reflection.size import cut_encoded
from reflection.thinking import spoken

ISSUES = "issues"
NAMED = re.compile(r'"issues"\s{0,8}:', re.IGNORECASE)
MOST_SUGGESTIONS = 8
TEXT_BYTES = 600
ADVICE = ("advice", "suggestion", "change", "problem", "issue", "comment", "feedback", "text")
IDEA = ("suggestion", "idea", *ADVICE)
NUMBER = re.compile(r"\[?(\d{1,4})\]?")
NOTHING = {"none", "nothing", "no issue", "no issues", "no suggestions", "n a", "null"}
# By the words that models use for an aspect; "person" is no model's to say.
STEMS: tuple[tuple[str, Aspect], ...] = (
    ("demarc|creativ|consideration", "demarcation"),
    ("complet|missing|omi|coverage|gap", "completeness"),
    ("clar|ambig|vague|wording|readab", "clarity"),
    ("consist|contradict|logic|coheren", "consistency"),
    ("cit|sourc|refer|support|ground|fact|accura", "citation"),
)
ASPECTS = ["citation", "consistency", "clarity", "completeness", "demarcation"]

FENCES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", re.MULTILINE)
SPACING = re.compile(r"[\s\\]+")
MOST_OBJECTS = 50
QUOTED = "what it has of JSON is quoted from what you were shown: reply with an object of your own"


class ReflectionReply(Record):
    """One reflection: what is to be mended, and what goes beyond the sources.

    `error` says why the reply can't be used, and asking again with it may help; the two are empty
    then, which does not mean that the report is consistent.
    """

    critiques: tuple[Critique, ...] = ()
    suggestions: tuple[str, ...] = ()
    error: str | None = None


def _line(value: object) -> str | None:
    """Bring a text to one line of a bounded length; None where it says nothing."""
    line = cut_encoded(" ".join(well_formed(plain(value) or "").split()), TEXT_BYTES)
    says = any(letter.isalpha() for letter in line) and " ".join(words(line)) not in NOTHING
    return line if says else None


def _aspect(value: object) -> Aspect:
    name = (plain(value) or "").casefold()
    return next((aspect for stems, aspect in STEMS if re.search(stems, name)), "consistency")


def _number(value: object) -> int | None:
    found = NUMBER.fullmatch((plain(value) or "").strip())
    return int(found[1]) if found else None


def _points(value: object) -> list[object]:
    points = [value] if isinstance(value, dict) else value
    if not isinstance(points, list):
        raise ValueError(f'"{ISSUES}" is no list of issues')  # noqa: TRY004 - pydantic catches it
    return [
        point if isinstance(point, dict) else {"advice": point}
        for point in points[: 2 * MOST_CRITIQUES]
    ]


def _ideas(value: object) -> list[str]:
    points = value if isinstance(value, list) else [value]
    texts = [
        next((point[key] for key in IDEA if key in point), None)
        if isinstance(point, dict)
        else point
        for point in points[: 2 * MOST_SUGGESTIONS]
    ]
    return list(dict.fromkeys(line for line in map(_line, texts) if line))[:MOST_SUGGESTIONS]


TEXT = {"type": "string", "minLength": 8, "maxLength": 300}
FORM = ConfigDict(
    json_schema_serialization_defaults_required=True,
    json_schema_extra={"additionalProperties": False},
)


class _Issue(BaseModel):
    """One issue as a model writes it, under the names that models use."""

    model_config = FORM

    sentence: Annotated[
        str | None,
        BeforeValidator(_line),
        WithJsonSchema({"type": "string", "maxLength": 300}),
        Field(validation_alias=AliasChoices("sentence", "place", "quote", "location", "where")),
    ] = None
    aspect: Annotated[
        Aspect,
        BeforeValidator(_aspect),
        WithJsonSchema({"type": "string", "enum": ASPECTS}),
        Field(validation_alias=AliasChoices("aspect", "kind", "type", "criterion")),
    ] = "consistency"
    source: Annotated[
        int | None,
        BeforeValidator(_number),
        WithJsonSchema({"type": "integer"}),
        Field(validation_alias=AliasChoices("source", "cited", "citation")),
    ] = None
    advice: Annotated[
        str | None,
        BeforeValidator(_line),
        WithJsonSchema(TEXT),
        Field(validation_alias=AliasChoices(*ADVICE)),
    ] = None


class _Reply(BaseModel):
    """A reflection as a model writes it: issues first, and then the verdict."""

    model_config = FORM

    issues: Annotated[
        list[_Issue], BeforeValidator(_points), Field(json_schema_extra={"maxItems": 10})
    ]
    consistent: Annotated[bool, BeforeValidator(lambda value: plain(value) != "false")] = True
    suggestions: Annotated[
        list[str],
        BeforeValidator(_ideas),
        WithJsonSchema({"type": "array", "items": TEXT, "maxItems": 5}),
    ] = []


def reflection_schema(creative: bool) -> dict[str, Any]:
    """Return the JSON schema of a reflection's reply; without ideas where none are wanted."""
    schema = _Reply.model_json_schema(mode="serialization")
    if not creative:
        del schema["properties"]["suggestions"]
        schema["required"].remove("suggestions")
    return schema


def parse_reflection(
    text: str, report: str, sources: Sequence[Source], creative: bool, prompt: str = ""
) -> ReflectionReply:
    """Read a reflection's reply, or say in one line why it can't be used; never raises.

    Issues count whatever the reply says of consistency besides. A sentence that is not in the
    report is left out, and its advice is kept. What a model thinks aloud is no part of its reply,
    and neither is an object that it quotes from the prompt, the report or the sources. Where
    objects contradict one another, or one is malformed, the reply is unreadable; so is one that
    has words and nothing but quoted objects, or finds the report inconsistent without an issue.
    """
    shown = [prompt, report]
    for source in sources:
        shown += [source.passage.text, source.passage.source]
    try:
        said = _Reply.model_validate(_plain_members(_object(spoken(text), shown)))
        critiques = _critiques(said, report, {source.number for source in sources})
    except ValidationError as error:
        [first, *_] = error.errors()
        return ReflectionReply(error=str(first.get("ctx", {}).get("error", first["msg"])))
    except ValueError as error:
        return ReflectionReply(error=str(error))
    except RecursionError:
        return ReflectionReply(error="the JSON in it nests too deep")
    return ReflectionReply(
        critiques=critiques, suggestions=tuple(said.suggestions) if creative else ()
    )


def own_objects(
    found: Sequence[Members], key: str, shown: Sequence[str], text: str
) -> list[Members]:
    """Leave out the objects of a reply that stand in what was shown; empty where it only quotes.

    Where all stand there they are kept if the reply says nothing besides: an honest reply may be
    the very object that a document has. White space, escapes and the kind of quotation marks make
    no difference, and neither does what stands around an object there. Of more than 50 different
    ones none is looked for.
    """
    written = [_unspaced(_json(one)) for one in found]
    if not any(shown) or len(set(written)) > MOST_OBJECTS:
        return list(found)
    theirs = [one for part in shown for one in every_object(part, key) or []]
    texts = [_unspaced(part) for part in shown]
    there = {one for one in set(written) if any(one in part for part in texts)}
    pairs = zip(found, written, strict=True)
    own = [one for one, unspaced in pairs if unspaced not in there and one not in theirs]
    bare = not any(letter.isalpha() for letter in FENCES.sub("", without_objects(text)))
    return own or (list(found) if bare else [])


def _object(text: str, shown: Sequence[str]) -> Members:
    """Return the one object of a reply; raises ValueError where there is none, or several."""
    found = every_object(text, ISSUES)
    if found is None:
        raise ValueError("the JSON in it breaks off or nests too deep")
    if not found:
        raise ValueError(f'there is no JSON object with "{ISSUES}" in it')
    own = own_objects(found, ISSUES, shown, text)
    if not own:
        raise ValueError(QUOTED)
    if any(one != own[-1] for one in own):
        raise ValueError(f'there are several JSON objects in it with different "{ISSUES}"')
    if NAMED.search(without_objects(text)):
        raise ValueError(f'there is a malformed JSON object with "{ISSUES}" in it')
    return own[-1]


def _plain_members(value: object) -> Any:
    """Make dicts of objects, with names in lower case; raises ValueError where one stands twice."""
    if isinstance(value, Members):
        known: dict[str, Any] = {}
        for name, member in value:
            key, said = name.strip().casefold(), _plain_members(member)
            if known.setdefault(key, said) != said:
                raise ValueError(f'"{key}" stands twice in one object, with different values')
        return known
    return [_plain_members(one) for one in value] if isinstance(value, list) else value


def _critiques(said: _Reply, report: str, known: set[int]) -> tuple[Critique, ...]:
    text = plain_words(report)
    critiques = dict.fromkeys(
        Critique(
            aspect=issue.aspect,
            advice=issue.advice,
            sentence=issue.sentence if stands_in(issue.sentence or "", text) else None,
            cited=issue.source if issue.source in known else None,
        )
        for issue in said.issues
        if issue.advice
    )
    if said.issues and not critiques:
        raise ValueError("no issue in it says what to change")
    if not said.issues and not said.consistent:
        raise ValueError("it finds the report inconsistent, and names no issue")
    return tuple(critiques)[:MOST_CRITIQUES]


def _unspaced(text: str) -> str:
    return SPACING.sub("", fold(text).casefold().replace("'", '"'))


def _json(value: object) -> str:
    if isinstance(value, Members):
        return "{" + ",".join([f'"{name}":{_json(member)}' for name, member in value]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_json(one) for one in value]) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value) if isinstance(value, Number) else f'"{value}"'
