"""The JSON object in a model's text, with its numbers as they were written."""

import re
from collections.abc import Iterator, Sequence
from json import JSONDecodeError, JSONDecoder
from typing import NamedTuple

MALFORMED_OBJECTS = 1_000

START = re.compile(r'\{\s*"')
BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
# Escapes of JSON that a model writes only where it means LaTeX: \boxed and \frac.
MEANT_AS_LATEX = str.maketrans({"\b": "\\b", "\f": "\\f"})


class Members(list[tuple[str, object]]):
    """The members of an object in order, equal keys kept apart."""

    def values_of(self, key: str) -> list[object]:
        """List the values under `key`, whatever the case of the names."""
        return [value for name, value in self if name.strip().casefold() == key]


class Sought(NamedTuple):
    """The last object with the key; `broken` where the text breaks an object off."""

    members: Members | None = None
    broken: bool = False


class _BadEscapeError(Exception):
    """A backslash begins no escape of JSON."""


class _BrokenError(Exception):
    """The text ends within an object, or nests deeper than any reply does."""


class Number(str):
    """A number as it was written, apart from a string of the same characters."""

    __slots__ = ()


def _nothing(_written: str) -> None:
    return None


DECODER = JSONDecoder(
    object_pairs_hook=Members,
    parse_int=Number,
    parse_float=Number,
    parse_constant=_nothing,
    strict=False,
)


def last_object(text: str, key: str) -> Sought:
    r"""Find the last well-formed object with `key`, in prose or fences, in linear time.

    What stands inside an object, whole or malformed, is not looked at on its own. Backslashes
    that begin no escape, as in `\(x\)`, are taken as they stand. After MALFORMED_OBJECTS
    malformed objects, which no honest reply has, the text counts as broken off.
    """
    found = every_object(text, key)
    if found is None:
        return Sought(broken=True)
    return Sought(found[-1] if found else None)


def every_object(text: str, key: str) -> list[Members] | None:
    """Find all well-formed objects with `key`, as `last_object` does; None where it is broken."""
    try:
        return [found for found, _, _ in _objects(text) if found.values_of(key)]
    except _BrokenError:
        return None
    except _BadEscapeError:
        return every_object(BACKSLASH.sub(_escaped, text), key)


def without_objects(text: str) -> str:
    """Leave out the well-formed objects of a text, so that what remains is no part of one."""
    kept, position = [], 0
    try:
        for _, start, end in _objects(text):
            kept.append(text[position:start])
            position = end
    except _BrokenError:
        pass
    except _BadEscapeError:
        return without_objects(BACKSLASH.sub(_escaped, text))
    return "".join([*kept, text[position:]])


def _objects(text: str) -> Iterator[tuple[Members, int, int]]:
    """Yield each well-formed object with where it begins and ends."""
    end, position, malformed = len(text.rstrip()), 0, 0
    while start := START.search(text, position):
        found, position = _object_at(text, start.start(), end)
        malformed += found is None
        if malformed > MALFORMED_OBJECTS:
            raise _BrokenError
        if found is not None:
            yield found, start.start(), position


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


def _escaped(slash: re.Match[str]) -> str:
    return slash[0] if slash[1] else "\\\\"


def plain(value: object) -> str | None:
    """Return a string, a number or a truth value as text; None for null, NaN and what nests."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.translate(MEANT_AS_LATEX) if isinstance(value, str) else None


def first_text(members: Members, keys: Sequence[str]) -> str | None:
    """Return the first text that is not blank under the keys, in the keys' order."""
    texts = (plain(value) for key in keys for value in members.values_of(key))
    return next((text for text in texts if text and text.strip()), None)
