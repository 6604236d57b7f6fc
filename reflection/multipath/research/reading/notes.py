"""Inline footnotes, ^[as here]: what is beyond the sources, in the midst of the findings."""

import re
from collections.abc import Callable, Iterator

from reflection.multipath.research.reading.citations import cited, uncited
from reflection.multipath.research.reading.numbered import BRACKETS, NUMBERED
from reflection.multipath.research.reading.visible import without_code
from reflection.spelling import fold

# Brackets may stand in a note one within another, and a note may go on in the next line.
ESCAPED = r"\\[^\n]"
BREAK = r"\n(?![ \t]*(?:\n|\Z))"
NOTE = re.compile(
    rf"(?<!\\)\^\[((?:[^\[\]\\\n]++|{ESCAPED}|{BREAK}|\[(?:[^\[\]\\\n]++|{ESCAPED}|{BREAK})*+\])*+)\]"
)
DEEPEST = 4


def inline_notes(text: str) -> list[str]:
    """List what the inline footnotes of a text say; ^[1] is a raised citation and none of them."""
    return [text[start + 2 : end - 1] for start, end in _spans(text)]


def without_notes(text: str, instead: str = " ") -> str:
    """Return a text with something else in the place of each inline footnote."""
    return _changed(text, lambda _: instead)


def with_uncited_notes(text: str) -> str:
    """Return a text in which no inline footnote cites; none is left that still would."""
    for _ in range(DEEPEST):
        if not any(cited(each) for each in inline_notes(text)):
            return text
        text = _changed(text, lambda note: f"^[{uncited(note)}]")
    return without_all_notes(text)


def without_all_notes(text: str) -> str:
    """Return a text without inline footnotes, also such as appear once others are left out."""
    for _ in range(DEEPEST):
        if not inline_notes(text):
            return text
        text = without_notes(text, "")
    return text.replace("^[", "[")


def _changed(text: str, change: Callable[[str], str]) -> str:
    kept, place = [], 0
    for start, end in _spans(text):
        kept += [text[place:start], change(text[start + 2 : end - 1])]
        place = end
    return "".join([*kept, text[place:]])


def _spans(text: str) -> Iterator[tuple[int, int]]:
    found = NOTE.finditer(without_code(text)) if "^[" in text else ()
    yield from (each.span() for each in found if _says(each[1]))


def _says(note: str) -> bool:
    number = NUMBERED.fullmatch(fold(f"[{note}]").translate(BRACKETS))
    return number is None and any(each.isalpha() for each in note)
