"""What the model says when it is asked for tests: at least three calls with their values."""

import re
from collections.abc import Iterable, Sequence

from reflection.multipath.coding.judging.verdict import OUTCOME_BYTES
from reflection.multipath.coding.reading.calling import called, calls, case_of
from reflection.multipath.coding.reading.literals import is_literal
from reflection.multipath.coding.suite import Case
from reflection.objects import Members, Number, last_object
from reflection.run import Record, encoded_size
from reflection.text import well_formed

LEAST = 3
MOST = 20
LENGTH = 300

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
CALL = ("call", "input", "expression")
EXPECTED = ("expected", "output", "result")


class Tests(Record):
    """The tests of a reply and the function that they call; `error` says why it is unreadable."""

    __test__ = False

    cases: tuple[Case, ...] = ()
    entry: str | None = None
    error: str | None = None


class _UnreadableError(Exception):
    """The reply can't be used; the message says why."""


def parse_tests(text: str, entry: str | None = None) -> Tests:
    """Read a reply, or say in one line why it can't be used; never raises.

    Each call is a Python expression that `calls` the entry, and each value a Python literal; an
    equation that shall be true is taken by its sides. Whatever else there is, is left out, and so
    are calls that are given two values. Fewer than LEAST tests are unreadable; MOST are kept.
    """
    try:
        return _read(text, entry)
    except _UnreadableError as error:
        return Tests(entry=entry, error=str(error))
    except RecursionError:
        return Tests(entry=entry, error="the JSON in it nests too deep")


def _read(text: str, entry: str | None) -> Tests:
    said = _object(text)
    points = [each for each in _listed(said) if isinstance(each, Members)]
    given = [(_text(each, CALL), _text(each, EXPECTED)) for each in points]
    pairs = [case_of(call, expected) for call, expected in given if call and expected]
    name = entry or _named(said) or _common([each.call for each in pairs])
    if name is None:
        raise _UnreadableError('"entry" names no function')
    cases = _agreed([each for each in pairs if _holds(each.call, each.expected, name)])
    if len(cases) < LEAST:
        raise _UnreadableError(
            f"only {len(cases)} of its tests can be used, and at least {LEAST} are needed: each "
            f"calls {name} in one Python expression and gives its value as a Python literal"
        )
    return Tests(cases=cases[:MOST], entry=name)


def _object(text: str) -> Members:
    sought = last_object(well_formed(text), "tests")
    if sought.broken:
        raise _UnreadableError("the JSON in it breaks off or nests too deep")
    if sought.members is None:
        raise _UnreadableError('there is no JSON object with "tests" in it')
    return sought.members


def _listed(said: Members) -> Sequence[object]:
    last = said.values_of("tests")[-1]
    return last if isinstance(last, list) and not isinstance(last, Members) else []


def _named(said: Members) -> str | None:
    names = [each for each in said.values_of("entry") if isinstance(each, str)]
    name = names[-1].strip().removesuffix("()") if names else ""
    return name if NAME.fullmatch(name) else None


def _common(expressions: Sequence[str]) -> str | None:
    """Return the one function that every expression calls, if there is just one."""
    names = [set(called(each)) for each in expressions]
    shared = set.intersection(*names) if names else set()
    return shared.pop() if len(shared) == 1 else None


def _text(point: Members, keys: Iterable[str]) -> str | None:
    values = [value for key in keys for value in point.values_of(key)]
    if not values:
        return None
    return values[0].strip() if type(values[0]) is str else _literal(values[0])


def _literal(value: object) -> str | None:
    """Write a value of JSON as a Python literal; a number as it was written."""
    match value:
        case Number():
            return str(value)
        case None | bool():
            return repr(value)
        case Members():
            pairs = [(repr(key), _literal(each)) for key, each in value]
            return f"{{{', '.join(f'{key}: {each}' for key, each in pairs)}}}"
        case list():
            return f"[{', '.join(str(_literal(each)) for each in value)}]"
    return repr(value)


def _holds(call: str, expected: str, entry: str) -> bool:
    # An outcome names its test by the whole call, so that a quarantine finds it again.
    named = encoded_size(call) <= OUTCOME_BYTES["test"]
    short = named and len(call) <= LENGTH and len(expected) <= LENGTH
    return short and is_literal(expected) and calls(call, entry)


def _agreed(cases: Sequence[Case]) -> tuple[Case, ...]:
    values: dict[str, set[str]] = {}
    for each in cases:
        values.setdefault(each.call, set()).add(each.expected)
    return tuple(
        Case(call=call, expected=next(iter(each)))
        for call, each in values.items()
        if len(each) == 1
    )
