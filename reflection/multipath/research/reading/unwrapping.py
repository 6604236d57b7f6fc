"""The report in a writer's reply: without what it thought before, and out of one fence around."""

import re

from reflection.multipath.research.reading.visible import fence_after
from reflection.replies import after_thought

WRAPPED = re.compile(r"(`{3,})[ \t]*(?:markdown|md)?[ \t]*\n(.*)\n\1", re.DOTALL | re.IGNORECASE)


def unwrapped(reply: str) -> str:
    """Return the report that a reply has, where it is thought about first or fenced as a whole."""
    text = after_thought(reply).strip()
    wrapped = WRAPPED.fullmatch(text)
    return wrapped[2] if wrapped and _closed(wrapped[2]) else text


def _closed(text: str) -> bool:
    """Tell whether each fence within a text is closed there, so that none is closed around it."""
    mark = ""
    for line in text.split("\n"):
        mark, _ = fence_after(line, mark)
    return not mark
