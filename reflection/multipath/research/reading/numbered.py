"""Numbers in brackets that may cite a source, and those that are data."""

import re
from collections.abc import Iterator

GROUP = r"\d{1,4}(?:\s?[,;–—-]\s?\d{1,4}){0,30}"
NUMBERED = re.compile(
    rf"([\w\])]?)\[\s?(?:(?:source|ref|reference|doc|document|s|"
    rf"#)\.?:?\s?)?({GROUP})(?:†[^\]\n]{{0,60}})?"
    r"\s?\](?=(\(https?://|\.\w|\s?[-+*/]?=(?!=)|\+\+)?)",
    re.IGNORECASE,
)
RANGE = re.compile(r"(\d+)\s?[–—-]\s?(\d+)")
BRACKETS = str.maketrans("【】\u3014\u3015\uff3b\uff3d", "[][][]")
DIGITS = re.compile(r"\d+")
INDEXED = re.compile(
    r"(?:\b[a-zA-Z]|\w*_\w*|\b[a-z]+[A-Z]\w*|\b(?:arr|array|list|lst|items?|nums?|"
    r"numbers|data|args|argv|"
    r"rows?|values?|vals?|matrix|vector|dp|stack|queue|result|output|input|tuple|string|str))$"
)
SPAN_BEFORE = re.compile(r"(?:interval|range|between|scale|domain|∈|\bin|=)\s*$", re.IGNORECASE)
DATA_BEFORE = re.compile(
    r"(?:lists?|arrays?|vectors?|tuples?|matrix|sequences?|inputs?|outputs?|returns?|gives|values|"
    r"[=(\[∈→])[\s:]*$",
    re.IGNORECASE,
)
FOOTNOTE = re.compile(r"\[\^([^\]\s]{1,40})\](?!:)")
IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\s]{0,500}\)")


def numbers(text: str) -> list[int]:
    """List the sources cited by number, [1], [2, 3], [4-6] and [^7], without data and years."""
    found = [each for group in _groups(text) for each in _ends(group)]
    notes = [int(each) for each in FOOTNOTE.findall(text) if each.isdecimal()]
    return found + notes


def _groups(text: str) -> Iterator[str]:
    data_end = -1
    for found in NUMBERED.finditer(text):
        before = text[max(0, found.start(2) - 60) : found.end(1)]
        if found.start() == data_end or _is_data(before, found[2], found[3] or ""):
            data_end = found.end()
        elif found[3] != "(https://" and found[3] != "(http://":
            yield found[2]


def _is_data(before: str, group: str, after: str) -> bool:
    glued = before[-1:].isalnum() or before[-1:] == "_"
    if glued and (INDEXED.search(before) or (after and not after.startswith("("))):
        return True
    if "," not in group and ";" not in group:
        return False
    zero = re.search(r"(?:^|\D)0(?:\D|$)", group)
    return bool(zero or SPAN_BEFORE.search(before) or DATA_BEFORE.search(before))


def _ends(group: str) -> list[int]:
    numbers = [int(each) for each in DIGITS.findall(group)]
    return [each for each in numbers if not 1000 <= each < 2200]
