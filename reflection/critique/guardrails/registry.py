"""The guardrails by name, and running them over a draft."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from reflection.critique.evaluation import Cap
from reflection.run import Record, cut_encoded


class Checked(Record):
    """What a guardrail may look at; nothing of it is the judge's.

    `previous` is the draft that this one revises, and `previous_score` what that got. `asks_for`
    are the names of the criteria.
    """

    query: str
    draft: str
    finish_reason: str | None = None
    cut: bool = False
    previous: str | None = None
    previous_score: float | None = None
    sources: tuple[str, ...] = ()
    format: Literal["json", "python", "markdown"] | None = None
    asks_for: tuple[str, ...] = ()


class Report(Record):
    """What the guardrails found, and which of them broke down and how."""

    caps: tuple[Cap, ...] = ()
    failures: tuple[str, ...] = ()


class Finding(NamedTuple):
    """A guardrail's finding: a score above `above` (the cap itself, if None) becomes `cap`."""

    cap: float
    reason: str
    above: float | None = None


Guardrail = Callable[[Checked], Finding | None]

DEFAULT = "default"
REASON_BYTES = 300

_GUARDRAILS: dict[str, Guardrail] = {}
_BY_DEFAULT: list[str] = []


def guardrail(name: str, *, default: bool = False) -> Callable[[Guardrail], Guardrail]:
    """Register a function as the guardrail of this name. Raises ValueError where it is taken.

    One that is not `default` checks only the drafts of requests that name it.
    """

    def register(function: Guardrail) -> Guardrail:
        if name in _GUARDRAILS or name == DEFAULT:
            raise ValueError(f"there is a guardrail {name} already")
        _GUARDRAILS[name] = function
        if default:
            _BY_DEFAULT.append(name)
        return function

    return register


def known_guardrails() -> list[str]:
    """List every name that a request may give."""
    return [DEFAULT, *_GUARDRAILS]


def check(checked: Checked, names: Sequence[str]) -> Report:
    """Run the named guardrails over a draft; the name `default` stands for all that Mull has.

    One that raises, or is not there, caps nothing, and is named among the failures.
    """
    caps, failures = [], []
    for name in _each(names):
        if name not in _GUARDRAILS:
            failures.append(f"guardrail {name} is not there any more")
            continue
        try:
            cap = _cap(name, _GUARDRAILS[name](checked))
        except Exception as error:
            failures.append(f"guardrail {name} failed: {type(error).__name__}")
        else:
            caps += [cap] if cap else []
    return Report(caps=tuple(caps), failures=tuple(failures))


def _cap(name: str, found: Finding | None) -> Cap | None:
    if found is None:
        return None
    above = found.cap if found.above is None else found.above
    reason = cut_encoded(found.reason, REASON_BYTES)
    return Cap(guardrail=name, cap=found.cap, above=above, reason=reason)


def _each(names: Sequence[str]) -> list[str]:
    """Put the names in their order, `default` taken apart, none twice."""
    found = [each for name in names for each in (_BY_DEFAULT if name == DEFAULT else [name])]
    return list(dict.fromkeys(found))
