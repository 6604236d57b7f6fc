"""The creative contributions: what is beyond the sources, apart from what they say.

Source: section 2.4 of the report that `reflection.multipath.state` names.
"""

import re
from collections.abc import Iterator, Sequence

from reflection.critique.guardrails.prose import fold
from reflection.multipath.research.reading.citations import cited, uncited
from reflection.multipath.research.reading.notes import inline_notes
from reflection.multipath.research.reading.parts import TITLE, UNDER_ALL, heading, split
from reflection.multipath.research.reading.sentences import plain_words, sentences, stands_in
from reflection.multipath.research.reading.visible import fence_after, visible
from reflection.multipath.state import Critique
from reflection.text import neutral

ADVICE = (
    "[{number}] stands with an idea of your own: leave the citation out there, or move what "
    "source {number} does say among the findings"
)
SPECIAL = re.compile(r"[\\\[\]<]")
BLOCK_MARKS = "#>-+*=~|` \t"


def demarcation(report: str) -> tuple[Critique, ...]:
    """Say where a creative contribution is cited as if a source had it; empty where none is.

    Creative are the section "Further considerations" and the footnotes, inline ones too.
    """
    parts = split(report)
    return tuple(
        Critique(
            aspect="demarcation",
            advice=ADVICE.replace("{number}", str(number)),
            sentence=sentence,
            cited=number,
        )
        for text in (parts.considerations, parts.footnotes, *inline_notes(parts.findings))
        for sentence in sentences(text)
        for number in cited(sentence)
    )


def section(own: str, suggestions: Sequence[str]) -> str:
    """Put the report's own ideas and the reflection's into one section; empty without any.

    `own` keeps its Markdown, with headings below the section's. A suggestion is one item of a
    list, in which no heading, link, HTML or code stands. Nothing in the section cites.
    """
    # What is left of a line without its citation may be a heading, or open a block of code.
    written = "\n".join(_below(visible(uncited(own)).split("\n"))).strip("\n")
    said = plain_words(own)
    items = [_item(each) for each in dict.fromkeys(suggestions) if not stands_in(each, said)]
    listed = "\n".join(f"- {each}" for each in items if each)
    texts = [each for each in (written, listed) if each.strip()]
    return "\n\n".join([f"## {TITLE}", *texts]) if texts else ""


def _item(suggestion: str) -> str:
    line = " ".join(neutral(suggestion).replace("`", "'").split())
    bare = uncited(line.lstrip(BLOCK_MARKS)).strip().lstrip(BLOCK_MARKS)
    return SPECIAL.sub(r"\\\g<0>", fold(bare) if cited(bare) else bare)


def _below(lines: Sequence[str]) -> Iterator[str]:
    mark, place = "", 0
    while place < len(lines):
        mark, code = fence_after(lines[place], mark)
        found = None if code else heading(lines, place)
        if found and found.level < UNDER_ALL:
            yield f"### {found.title}"
        else:
            yield lines[place]
        place += found.lines if found else 1
