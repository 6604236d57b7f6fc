"""Guardrails: pure checks of a draft that cap a judge's score, and say why.

Importing this registers Mull's own, and those of `own.py`, where a user adds functions.
"""

from reflection.critique.guardrails import copies, own, refusals
from reflection.critique.guardrails.appealing import injections
from reflection.critique.guardrails.citing import sources
from reflection.critique.guardrails.measuring import length
from reflection.critique.guardrails.registry import (
    DEFAULT,
    Checked,
    Finding,
    Report,
    check,
    guardrail,
    known_guardrails,
)
from reflection.critique.guardrails.shaping import endings, formats

REGISTERED = (length, sources, formats, endings, refusals, copies, injections, own)
"""The files that have guardrails; each registers its own when it is imported."""

__all__ = ["DEFAULT", "Checked", "Finding", "Report", "check", "guardrail", "known_guardrails"]
