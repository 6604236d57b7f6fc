"""Guardrails that a user registers in a module of their own."""

import re

from mull.critique.guardrails import Checked, Finding, guardrail


@guardrail("no_prices")
def no_prices(checked: Checked) -> Finding | None:
    """Cap a draft that names a price."""
    return Finding(0.4, "leave prices to the shop") if "$" in checked.draft else None


@guardrail("endless")
def endless(checked: Checked) -> None:
    """Read a text with a pattern that never ends."""
    re.match("(a|a)*b", checked.draft)


@guardrail("broken")
def broken(_: Checked) -> None:
    """Fail."""
    raise ZeroDivisionError
