"""Whether what a call gave is what it should give."""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AnySet

from reflection.text import tally_words

RELATIVE = 1e-9
ABSOLUTE = 1e-12

Number = int | float | complex


def difference(expected: object, got: object) -> str | None:
    """Say how two plain values differ, or None where they are the same.

    Values are the same as `==` has it, but for this: numbers that are not both integers may
    differ by a relative 1e-9 or an absolute 1e-12; nan is nan; a truth value is no number; and
    what is compared by its hash, members of sets and keys of dicts, is compared without tolerance.
    A list is no tuple, as in Python.
    """
    return _differ(expected, got, "")


def _differ(expected: object, got: object, place: str) -> str | None:
    at = f" at {place}" if place else ""
    if _kind(expected) != _kind(got):
        return f"{_article(got)}{at}, where {_article(expected)} is expected"
    if isinstance(expected, dict) and isinstance(got, dict):
        return _of_dicts(expected, got, place)
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return _of_sequences(expected, got, place)
    return None if _same(expected, got) else f"another value{at}"


def _of_sequences(expected: Sequence[object], got: Sequence[object], place: str) -> str | None:
    if len(expected) != len(got):
        at = f" at {place}" if place else ""
        return f"{tally_words(len(got), 'item')}{at}, where {len(expected):,} are expected"
    pairs = enumerate(zip(expected, got, strict=True))
    said = (_differ(wanted, found, f"{place}[{n}]") for n, (wanted, found) in pairs)
    return next((each for each in said if each), None)


def _of_dicts(
    expected: Mapping[object, object], got: Mapping[object, object], place: str
) -> str | None:
    wanted = {_hashed(key): (key, value) for key, value in expected.items()}
    found = {_hashed(key): value for key, value in got.items()}
    if wanted.keys() != found.keys():
        return f"other keys at {place}" if place else "other keys"
    said = (
        _differ(value, found[key], f"{place}[{_shown(name)}]")
        for key, (name, value) in wanted.items()
    )
    return next((each for each in said if each), None)


def _shown(key: object) -> str:
    try:
        return repr(key)[:40]
    except ValueError:
        # Python writes no integer of more than 4,300 digits.
        return "a very large key"


def _same(expected: object, got: object) -> bool:
    if isinstance(expected, AnySet) and isinstance(got, AnySet):
        return {_hashed(each) for each in expected} == {_hashed(each) for each in got}
    if isinstance(expected, Number) and isinstance(got, Number):
        return _close(expected, got)
    return expected == got


def _close(expected: Number, got: Number) -> bool:
    if expected == got:
        return True
    if isinstance(expected, int) and isinstance(got, int):
        return False
    try:
        return _nearly(expected, got)
    except OverflowError:
        return False


def _nearly(expected: Number, got: Number) -> bool:
    """Compare numbers within the tolerances. Raises OverflowError for an integer too large."""
    if isinstance(expected, complex) or isinstance(got, complex):
        wanted, found = complex(expected), complex(got)
        return _nearly(wanted.real, found.real) and _nearly(wanted.imag, found.imag)
    close = math.isclose(expected, got, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return close or (math.isnan(expected) and math.isnan(got))


def _hashed(value: object) -> object:
    """Make a key that is the same for the same values: True is not 1, and nan is nan."""
    if isinstance(value, float) and math.isnan(value):
        return "nan", None
    if isinstance(value, tuple):
        return "tuple", tuple(_hashed(each) for each in value)
    if isinstance(value, frozenset):
        return "set", frozenset(_hashed(each) for each in value)
    return _kind(value), value


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, Number):
        return "number"
    return "set" if isinstance(value, AnySet) else type(value).__name__


def _article(value: object) -> str:
    kind = _kind(value)
    return "None" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
