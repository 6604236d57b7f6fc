"""Citations such as [n] in a text, their removal, and footnotes."""

import re
from collections.abc import Iterator

from reflection.multipath.markup import masked
from reflection.text import fold

OPENING, CLOSING = "[\uff3b\ufe47\u3010\u3014", "]\uff3d\ufe48\u3011\u3015"
SQUARE = str.maketrans(OPENING + CLOSING, "[[[[[" + "]]]]]")
ROUND = str.maketrans(OPENING + CLOSING, "(((((" + ")))))")
BRACKETED = re.compile(
    rf"(?:(?<=\S)[ \t])?[{re.escape(OPENING)}][^{re.escape(OPENING + CLOSING)}\n]{{1,80}}"
    rf"[{re.escape(CLOSING)}]"
)
NUMBERS = r"\d{1,4}(?:\s?[,;–—-]\s?\d{1,4}){0,30}"
NUMBERED = re.compile(
    rf"([\w\])]?)\[\s?(?:(?:source|ref|reference|doc|document|s|#)\.?:?\s?)?({NUMBERS})"
    r"(?:†[^\]\n]{0,60})?\s?\](?=(\(https?://|\.\w|\s?[-+*/]?=(?!=)|\+\+)?)",
    re.IGNORECASE,
)
RANGE = re.compile(r"(\d+)\s?[–—-]\s?(\d+)")
WIDEST_RANGE = 100
YEARS = range(1000, 2200)
IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\s]{0,500}\)")
FOOTNOTE = re.compile(r"\[\^([^\]\s]{1,40})\](?!:)")
# Text before an index, an interval or a list of numbers: x[1], in [0, 1], values [2, 3].
INDEXED = re.compile(
    r"(?:\b[a-zA-Z]|\w*_\w*|\b[a-z]+[A-Z]\w*|\b(?:arr|array|list|lst|items?|nums?|numbers|data|"
    r"args|argv|rows?|values?|vals?|matrix|vector|dp|stack|queue|result|output|input|tuple|string|"
    r"str))$"
)
DATA_BEFORE = re.compile(
    r"(?:(?:interval|range|between|scale|domain|∈|\bin|=)\s*|"
    r"(?:lists?|arrays?|vectors?|tuples?|matrix|sequences?|inputs?|outputs?|returns?|gives|values|"
    r"[=(\[∈→])[\s:]*)$",
    re.IGNORECASE,
)
ZERO = re.compile(r"(?:^|\D)0(?:\D|$)")
# A note may contain nested brackets, and may continue on the next line.
ESCAPED = r"\\[^\n]"
BREAK = r"\n(?![ \t]*(?:\n|\Z))"
NOTE = re.compile(
    rf"\\.|\^\[((?:[^\[\]\\\n]++|{ESCAPED}|{BREAK}|"
    rf"\[(?:[^\[\]\\\n]++|{ESCAPED}|{BREAK})*+\])*+)\]"
)
DEEPEST = 4


def cited(text: str) -> tuple[int, ...]:
    """List the distinct source numbers that a text cites, in ascending order.

    [1], [2, 3] and [4-6] cite; [^1] is a footnote, [text](address) and [1](https://...) are
    links. Code, images, years and data such as indexes or intervals do not cite.
    """
    shown = FOOTNOTE.sub("", IMAGE.sub("", fold(masked(text)).translate(SQUARE)))
    groups = list(_groups(shown))
    numbers = {
        int(number)
        for group in groups
        for number in re.findall(r"\d+", group)
        if int(number) not in YEARS
    }
    between = {
        number
        for group in groups
        for first, last in RANGE.findall(group)
        if {int(first), int(last)} <= numbers and int(last) - int(first) <= WIDEST_RANGE
        for number in range(int(first), int(last))
    }
    return tuple(sorted((numbers | between) - {0}))


def uncited(text: str) -> str:
    """Return a text without citations: `cited` finds none in the result."""
    # Removing a citation may leave another one: [[1]2].
    for _ in range(DEEPEST):
        kept, place = [], 0
        for found in BRACKETED.finditer(masked(text)):
            if _cites(found[0].strip()):
                kept.append(text[place : found.start()])
                place = found.end()
        if not kept:
            break
        text = "".join([*kept, text[place:]])
    return text.translate(ROUND) if cited(text) else text


def with_footnotes(text: str) -> str:
    """Turn inline footnotes into references: `^[so]` becomes `[^note-1]`, defined at the end.

    `^[1]` is a superscript citation, not a footnote.
    """
    name, kept, notes, place = "note", list[str](), list[str](), 0
    while f"[^{name}-" in text:
        name += "-"
    for found in NOTE.finditer(masked(text)) if "^[" in text else ():
        note = text[found.start(1) : found.end(1)] if found[1] else ""
        if any(letter.isalpha() for letter in note) and not _cites(f"[{note}]"):
            mark = f"[^{name}-{len(notes) + 1}]"
            kept += [text[place : found.start()], mark]
            notes.append(f"{mark}: " + " ".join(note.split()))
            place = found.end()
    if not notes:
        return text
    return "\n\n".join(["".join([*kept, text[place:]]), *notes])


def without_footnotes(text: str) -> str:
    """Return a text without footnote references and inline footnotes."""
    kept, place = [], 0
    for found in re.finditer(rf"\^(?=\[)|{FOOTNOTE.pattern}", masked(text)):
        kept.append(text[place : found.start()])
        place = found.end()
    return "".join([*kept, text[place:]])


def _cites(group: str) -> bool:
    return NUMBERED.fullmatch(fold(group).translate(SQUARE)) is not None


def _groups(text: str) -> Iterator[str]:
    """Yield the numbers of each citing pair of brackets, as written."""
    data_end = -1
    for found in NUMBERED.finditer(text):
        before = text[max(0, found.start(2) - 60) : found.end(1)]
        if found.start() == data_end or _is_data(before, found[2], found[3] or ""):
            data_end = found.end()
        elif not (found[3] or "").startswith("(http"):
            yield found[2]


def _is_data(before: str, group: str, after: str) -> bool:
    glued = before[-1:].isalnum() or before[-1:] == "_"
    if glued and (INDEXED.search(before) or (after and not after.startswith("("))):
        return True
    several = "," in group or ";" in group
    return several and bool(ZERO.search(group) or DATA_BEFORE.search(before))
