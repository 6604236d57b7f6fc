"""The JSON object in a model's text, with its numbers as they were written."""

import re
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


def _nothing(_written: str) -> None:
    return None


DECODER = JSONDecoder(
    object_pairs_hook=Members,
    parse_int=str,
    parse_float=str,
    parse_constant=_nothing,
    strict=False,
)


def last_object(text: str, key: str) -> Sought:
    r"""Find the last well-formed object with `key`, in prose or fences, in linear time.

    What stands inside an object, whole or malformed, is not looked at on its own. Backslashes
    that begin no escape, as in `\(x\)`, are taken as they stand. After MALFORMED_OBJECTS
    malformed objects, which no honest reply has, the text counts as broken off.
    """
    try:
        return Sought(_last_with(text, key))
    except _BrokenError:
        return Sought(broken=True)
    except _BadEscapeError:
        return last_object(BACKSLASH.sub(_escaped, text), key)


def _last_with(text: str, key: str) -> Members | None:
    end, position, malformed = len(text.rstrip()), 0, 0
    last = None
    while start := START.search(text, position):
        found, position = _object_at(text, start.start(), end)
        malformed += found is None
        if malformed > MALFORMED_OBJECTS:
            raise _BrokenError
        last = found if found and found.values_of(key) else last
    return last


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
