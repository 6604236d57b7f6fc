"""One thing that was looked at, and what came of it."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from commands.session import Exit

State = Literal["ok", "warning", "wrong"]
UNREACHED = frozenset({"server", "workers"})


class Check(NamedTuple):
    """What was looked at, in which area; what was found; and what to do, a line each.

    `commands` are those that one can copy to set it right.
    """

    area: str
    name: str
    state: State
    said: str
    do: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def exit_code(checks: Iterable[Check]) -> Exit:
    """Return 3 without a server or a worker, 1 where anything else is wrong, and else 0."""
    wrong = [each for each in checks if each.state == "wrong"]
    if any(each.area in UNREACHED for each in wrong):
        return Exit.UNREACHABLE
    return Exit.FAILED if wrong else Exit.DONE
