"""Find and validate the one JSON object in a model's reply, or say what is wrong with it.

Prose, fences and thinking around the object are skipped. Nothing is repaired or guessed: NaN,
infinities, duplicate keys with different values, `true` for a number, and incomplete or too deeply
nested objects are never values. Numbers keep the characters in which they were written.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from json import JSONDecodeError, JSONDecoder
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from mull.request import explain
from mull.text import fold, object_schema, well_formed

# 32 bytes for each token that a call may ask for: a longer reply is slow to read, and no answer.
MOST_REPLY_BYTES = 2**20
# Commas and opening brackets, in texts too: while JSON is read, at 1 µs each, nothing else runs.
MOST_MARKS = 100_000
# LiteLLM takes up to 0.3 ms for a value that it does not expect, and a completion has a hundred.
MOST_VALUES = 2_000
# Python's reader, and LiteLLM after it, give up at under 1,000.
MOST_DEPTH = 100
MALFORMED_OBJECTS = 1_000
COMPARED_OBJECTS = 50
ERROR_CHARACTERS = 400

DEEP = "its JSON is incomplete or nested too deeply"
QUOTED = "its only JSON is copied from what you were shown: reply with an object of your own"

# What brackets JSON, and its strings, in which they are letters.
MARKS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
# The names that mark a tool call, one for each way in which providers write it.
CALL = frozenset({"function", "functionCall", "toolUse", "input", "arguments"})
START = re.compile(r'\{\s*"')
BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
FENCES = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", re.MULTILINE)
SPACING = re.compile(r"[\s\\]+")
# Escapes of JSON that a model writes only where it means LaTeX: \boxed and \frac.
MEANT_AS_LATEX = str.maketrans({"\b": "\\b", "\f": "\\f"})

THOUGHT_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
THOUGHT_BEGINS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
FIRST_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def is_heavy(body: bytes) -> bool:
    """Tell whether JSON takes too long to read."""
    return len(body) > MOST_REPLY_BYTES or sum(map(body.count, (b",", b"[", b"{"))) > MOST_MARKS


def shallow(body: bytes) -> bytes:
    """Write NaN, which no tool call may have, in the place of what nests too deeply in JSON."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return body
    kept, depth, begun, done = list[bytes](), 0, 0, 0
    for found in MARKS.finditer(body):
        if found[0] in b"[{":
            depth += 1
            begun = found.start() if depth == MOST_DEPTH + 1 else begun
        elif found[0] in b"]}":
            if depth == MOST_DEPTH + 1:
                kept += [body[done:begun], b"NaN"]
                done = found.end()
            depth -= 1
    return b"".join([*kept, *([body[done:begun], b"NaN"] if depth > MOST_DEPTH else [body[done:]])])


def has_too_many_values(whole: object) -> bool:
    """Count the values of a reply; lists of tokens are free but in a completion."""
    left, count = [whole], 0
    free = set() if isinstance(whole, dict) and "choices" in whole else {int, float}
    while left and count <= MOST_VALUES:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list) and not set(map(type, value)) <= free:
            left += value
    return count + len(left) > MOST_VALUES


def leave_out_calls(value: object, most: int) -> int:
    """Leave out of each list in a reply the tool calls after the first ones; return how many."""
    if isinstance(value, dict):
        return sum([leave_out_calls(inner, most) for inner in value.values()])
    if not isinstance(value, list):
        return 0
    calls = [at for at, one in enumerate(value) if isinstance(one, dict) and CALL & one.keys()]
    left_out = frozenset(calls[most:])
    value[:] = [one for at, one in enumerate(value) if at not in left_out]
    return len(left_out) + sum([leave_out_calls(inner, most) for inner in value])


class Number(str):
    """A number as it was written, apart from a string of the same characters."""

    __slots__ = ()


class Members(list[tuple[str, object]]):
    """The members of an object in order, equal keys kept apart."""

    def values_of(self, key: str) -> list[object]:
        """List the values under `key`, whatever the case of the names."""
        return [value for name, value in self if name.strip().casefold() == key]


class Reply(BaseModel):
    """The expected members of a reply; names are case-insensitive, other members are ignored.

    Of a duplicate optional member the last one counts.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _known_members(cls, given: object) -> object:
        """Take the members by name; a required one with two different values is an error."""
        if not isinstance(given, Members):
            raise ValueError("should be an object")  # noqa: TRY004 - pydantic takes this one
        known: dict[str, object] = {}
        for field_name, field in cls.model_fields.items():
            name = str(field.validation_alias or field_name)
            values = given.values_of(name)
            if field.is_required() and any(value != values[0] for value in values):
                raise ValueError(f'there are two different values for "{name}"')
            if values:
                known[name] = values[-1]
        return known


ReplyT = TypeVar("ReplyT", bound=Reply)


def plain(value: object) -> str | None:
    """Return a string, a number or a truth value as text; None for null, NaN and what nests."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.translate(MEANT_AS_LATEX) if isinstance(value, str) else None


def plain_text(value: object) -> str | None:
    """Return a plain value as text that UTF-8 can hold, without white space around it."""
    return well_formed(plain(value) or "").strip() or None


def _text(value: object) -> str:
    text = plain_text(value)
    if text is None:
        raise ValueError("should be text that is not empty")
    return text


def _number(value: object) -> float:
    if not isinstance(value, Number):
        raise ValueError("should be a number")  # noqa: TRY004 - pydantic takes this one
    return float(value)


# What a field of a reply may be. Where a text may be missing, any other value counts as missing.
Text = Annotated[str, BeforeValidator(_text)]
OptionalText = Annotated[str | None, BeforeValidator(plain_text)]
Real = Annotated[float, BeforeValidator(_number)]


def read_reply(text: str, key: str, model: type[ReplyT], shown: Sequence[str] = ()) -> ReplyT | str:
    """Read the one object with `key` in a reply, or say in one line what is wrong; never raises.

    Thinking is not part of the reply, and neither is an object quoted from the texts that the model
    was `shown`. Several objects with different values under the key are an error, and so is an
    object beside a malformed one.
    """
    try:
        said = _only_object(spoken(text), key, shown)
    except RecursionError:
        return DEEP
    return said if isinstance(said, str) else validated(said, model)


def validated(said: object, model: type[ReplyT]) -> ReplyT | str:
    """Validate an object of a reply, or say in one line what is wrong with it; never raises."""
    try:
        return model.model_validate(said)
    except ValidationError as error:
        return explain(error)[:ERROR_CHARACTERS]
    except RecursionError:
        return DEEP


def reply_schema(model: type[Reply]) -> dict[str, Any]:
    """Derive the JSON schema to send: the fields in their order, all required, nothing else.

    Bounds stay in it, which keep a small model to the point; an adapter leaves them out for a
    provider that refuses them.
    """
    schema = _derived(model)
    sent: dict[str, Any] = _sent(schema, schema.get("$defs", {}))
    return sent


@lru_cache(maxsize=64)
def _derived(model: type[Reply]) -> dict[str, Any]:
    """Derive pydantic's schema once: that takes longer than the rest of a call, but the model."""
    return model.model_json_schema()


def _sent(part: object, definitions: dict[str, Any]) -> Any:
    match part:
        case {"$ref": str(place)}:
            return _sent(definitions[place.removeprefix("#/$defs/")], definitions)
        case {"properties": dict(members)}:
            return object_schema({name: _sent(one, definitions) for name, one in members.items()})
        case dict():
            return {
                name: _sent(one, definitions)
                for name, one in part.items()
                if name not in {"title", "default"}
            }
    return part


def _only_object(text: str, key: str, shown: Sequence[str]) -> Members | str:
    found = every_object(text, key)
    if found is None:
        return DEEP
    if not found:
        return f'there is no JSON object with "{key}" in it'
    rest = _parts(text).rest
    own = _own(found, rest, key, shown)
    if not own:
        return QUOTED
    if any(said.values_of(key) != own[-1].values_of(key) for said in own):
        return f'there are several JSON objects in it with different "{key}"'
    if re.search(rf"[\"'{{]\s{{0,8}}{key}\W{{0,4}}:", rest, re.IGNORECASE):
        return f'there is a malformed JSON object with "{key}" in it'
    return own[-1]


def _own(found: Sequence[Members], rest: str, key: str, shown: Sequence[str]) -> Sequence[Members]:
    """Leave out the objects that are quoted from what was shown; empty if the reply only quotes.

    If all are quoted, they are kept when the reply says nothing else: an honest reply may equal an
    object in a document. White space, escapes and the kind of quotation marks are ignored. With
    more than COMPARED_OBJECTS different objects nothing is compared.
    """
    written = [_comparable(as_json(said)) for said in found]
    if not any(shown) or len(set(written)) > COMPARED_OBJECTS:
        return found
    theirs = [quoted for text in shown for quoted in every_object(text, key) or []]
    texts = [_comparable(text) for text in shown]
    there = {one for one in set(written) if any(one in text for text in texts)}
    pairs = zip(found, written, strict=True)
    own = [said for said, one in pairs if one not in there and said not in theirs]
    says_more = any(map(str.isalpha, FENCES.sub("", rest)))
    return own if own or says_more else found


def _comparable(text: str) -> str:
    return SPACING.sub("", fold(text).casefold().replace("'", '"'))


def as_json(value: object) -> str:
    """Write as JSON again what was read of a reply; members of the same name are all there."""
    match value:
        case Members():
            return (
                "{" + ", ".join([f"{as_json(name)}: {as_json(one)}" for name, one in value]) + "}"
            )
        case list():
            return "[" + ", ".join([as_json(one) for one in value]) + "]"
        case Number():
            return str(value)
    return json.dumps(value, ensure_ascii=False)


class _BadEscapeError(Exception):
    """A backslash does not begin an escape of JSON."""


class _BrokenError(Exception):
    """The text ends within an object, or nests deeper than any reply does."""


class _Parts(NamedTuple):
    """The well-formed objects of a text, the text without them, and whether one breaks off."""

    objects: list[Members]
    rest: str
    broken: bool


def every_object(text: str, key: str) -> list[Members] | None:
    r"""Find all well-formed objects with `key`, in linear time; None where one breaks off.

    Nothing inside an object, whole or malformed, is searched on its own. Backslashes that do not
    begin an escape, as in `\(x\)`, are taken as they stand. After MALFORMED_OBJECTS malformed
    objects the text counts as broken off.
    """
    parts = _parts(text)
    return None if parts.broken else [said for said in parts.objects if said.values_of(key)]


def _parts(text: str) -> _Parts:
    objects: list[Members] = []
    kept: list[str] = []
    done, position, malformed, end = 0, 0, 0, len(text.rstrip())
    broken = False
    try:
        while (start := START.search(text, position)) and malformed <= MALFORMED_OBJECTS:
            found, position = _object_at(text, start.start(), end)
            if found is None:
                malformed += 1
                continue
            objects.append(found)
            kept.append(text[done : start.start()])
            done = position
        broken = malformed > MALFORMED_OBJECTS
    except _BrokenError:
        broken = True
    except _BadEscapeError:
        return _parts(BACKSLASH.sub(lambda slash: slash[0] if slash[1] else "\\\\", text))
    return _Parts(objects, "".join([*kept, text[done:]]), broken)


def _object_at(text: str, start: int, end: int) -> tuple[Members | None, int]:
    try:
        return DECODER.raw_decode(text, start)
    except JSONDecodeError as error:
        if error.msg.startswith("Invalid \\"):
            raise _BadEscapeError from None
        if error.msg.startswith("Unterminated") or error.pos >= end:
            raise _BrokenError from None
        return None, max(error.pos, start + 1)
    except RecursionError:
        raise _BrokenError from None


DECODER = JSONDecoder(
    object_pairs_hook=Members,
    parse_int=Number,
    parse_float=Number,
    parse_constant=lambda _written: None,
    strict=False,
)


def first_text(members: Members, keys: Sequence[str]) -> str | None:
    """Return the first text that is not blank under the keys, in the keys' order."""
    texts = (plain(value) for key in keys for value in members.values_of(key))
    return next((text for text in texts if text and text.strip()), None)


def spoken(text: str) -> str:
    """Remove a model's thinking, even if it never ends; in linear time."""
    ends = [end.end() for end in THOUGHT_ENDS.finditer(text)]
    after = text[ends[-1] :] if ends else text
    thinking = THOUGHT_BEGINS.search(after)
    return after[: thinking.start()] if thinking else after


def after_thought(text: str) -> str:
    """Remove a model's thinking at the very beginning, and keep the rest."""
    return FIRST_THOUGHT.sub("", text, count=1)


def words_so_far(text: str) -> str:
    """Return what an unfinished text says after a thinking that may stand at its beginning."""
    said = after_thought(text).lstrip()
    return "" if "<think".startswith(said[:6].lower()) else said
