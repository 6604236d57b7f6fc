"""Values as Python expressions: of exact builtin types alone, so that nothing of theirs runs."""

import math
from collections.abc import Callable, Iterable
from typing import Any

CHARACTERS = 8_000
ITEMS = 2_000
DEPTH = 50
# Some 3,900 digits, and Python writes 4,300.
BITS = 13_000
SHOWN = 600


class UnplainError(Exception):
    """The value is no plain data, or too much of it; the message says which."""


def written(value: object) -> str:
    """Write a value as an expression of at most CHARACTERS. Raises UnplainError."""
    text = _Writer().write(value, DEPTH)
    if len(text) > CHARACTERS:
        raise UnplainError(f"a value of {len(text):,} characters, and {CHARACTERS:,} are read")
    return text


def shown(value: object, most: int = SHOWN) -> str:
    """Write a value for people, whatever it is, in at most so many characters and an ellipsis."""
    try:
        text = written(value)
    except UnplainError:
        text = _repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # the code's own repr may fail in any way
        return f"<{type(value).__name__}>"


class _Writer:
    def __init__(self) -> None:
        self._left = ITEMS
        self._writers: dict[type, Callable[[Any, int], str]] = {
            type(None): _plainly,
            bool: _plainly,
            int: _integer,
            float: _number,
            complex: _complex,
            str: _text,
            bytes: _text,
            tuple: self._tuple,
            list: lambda value, depth: f"[{self._all(value, depth)}]",
            set: self._set,
            frozenset: self._frozen,
            dict: self._dict,
        }

    def write(self, value: object, depth: int) -> str:
        self._left -= 1
        if depth == 0:
            raise UnplainError(f"a value nested more than {DEPTH} deep")
        if self._left < 0:
            raise UnplainError(f"a value of more than {ITEMS:,} items")
        writer = self._writers.get(type(value))
        if writer is None:
            raise UnplainError(
                f"a value of the type {type(value).__name__}, which is no plain data"
            )
        return writer(value, depth - 1)

    def _all(self, values: Iterable[object], depth: int) -> str:
        return ", ".join([self.write(each, depth) for each in values])

    def _tuple(self, value: tuple[object, ...], depth: int) -> str:
        return f"({self._all(value, depth)}{',' if len(value) == 1 else ''})"

    def _set(self, value: set[object], depth: int) -> str:
        return f"{{{self._all(value, depth)}}}" if value else "set()"

    def _frozen(self, value: frozenset[object], depth: int) -> str:
        return f"frozenset({{{self._all(value, depth)}}})" if value else "frozenset()"

    def _dict(self, value: dict[object, object], depth: int) -> str:
        pairs = [f"{self.write(k, depth)}: {self.write(v, depth)}" for k, v in value.items()]
        return f"{{{', '.join(pairs)}}}"


def _plainly(value: object, _depth: int) -> str:
    return repr(value)


def _integer(value: int, _depth: int) -> str:
    if value.bit_length() > BITS:
        raise UnplainError(f"an integer of {value.bit_length():,} bits, and {BITS:,} are read")
    return repr(value)


def _number(value: float, _depth: int) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value!r}')"


def _complex(value: complex, _depth: int) -> str:
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise UnplainError("a complex number that is not finite")
    return repr(value)


def _text(value: str | bytes, _depth: int) -> str:
    if len(value) > CHARACTERS:
        raise UnplainError(f"a text of {len(value):,} characters, and {CHARACTERS:,} are read")
    return ascii(value)
