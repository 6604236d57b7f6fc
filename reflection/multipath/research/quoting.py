"""How a prompt shows what is data: sources and other texts that are no instructions."""

from collections.abc import Sequence

from reflection.multipath.result import Source
from reflection.multipath.state import Passage
from reflection.quoting import quoted


def listed(sources: Sequence[Source]) -> str:
    """Write the sources, each on one line, file names and texts as JSON strings."""
    return "\n".join(
        f"Source [{each.number}], from {quoted(each.passage.source)}, {where(each.passage)}: "
        f"{quoted(each.passage.text)}"
        for each in sources
    )


def where(passage: Passage) -> str:
    """Say which lines of its document a passage is, and of which page, if it has pages."""
    one = passage.first_line == passage.last_line
    lines = (
        f"line {passage.first_line}"
        if one
        else f"lines {passage.first_line} to {passage.last_line}"
    )
    return lines if passage.page is None else f"page {passage.page}, {lines}"
