"""How a field of a record is shown on a sheet; each field says so in its own declaration."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mull.text import quoted

Cell = str | int | float | None


class Shown(NamedTuple):
    """The name of a field's column or fact, how its value is written, and what stands for None.

    The name says what the column is, too: `score|share`, `chars|number`, `model|extra`.
    """

    name: str
    form: Callable[[Any], Cell] | None = None
    none: str | None = None

    def cell(self, value: Any) -> Any:
        """Write a value of the field for a table."""
        if value is None:
            return self.none
        return value if self.form is None else self.form(value)


def place(index: int) -> int:
    """Count an index from 1."""
    return index + 1


def signed(change: float) -> str:
    """Write a change with its sign."""
    return f"{change:+.2f}"


def spaced(name: str) -> str:
    """Write a name of the code as words."""
    return name.replace("_", " ")


def claimed(author: str | None) -> str | None:
    """Show a person's name as the claim that it is: any client may give any."""
    return author if author in {None, "a person"} else f"{quoted(str(author))} (unverified)"
