"""The parts of a report: findings, further considerations, and footnotes."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from reflection.multipath.research.reading.unwrapping import unwrapped
from reflection.multipath.research.reading.visible import fence_after, visible
from reflection.spelling import fold

TITLE = "Further considerations"

PREFIX = r" {0,3}(?:> ?){0,5}"
HASHES = re.compile(rf"{PREFIX}(#{{1,6}})(?:[ \t]+(.*))?")
BOLD = re.compile(rf"{PREFIX}(?:\*\*|__)([^*_]{{1,200}})(?:\*\*|__)[ \t]*:?[ \t]*")
LED = re.compile(
    rf"{PREFIX}(?:\*\*|__)(further considerations?)[ \t]*:?(?:\*\*|__)[ \t]*:?[ \t]+(.*)",
    re.IGNORECASE,
)
UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
UNDERLINES = {"=", "-"}
NO_TEXT = re.compile(rf"{PREFIX}(?:[-*+|>]|\d{{1,9}}[.)]|$)")
NUMBERING = re.compile(r"^(?:(?:\d{1,3}[.)]?){1,4}|[ivx]{1,6}[.)])\s+", re.IGNORECASE)
IDEAS = re.compile(r"further considerations?\b.*", re.IGNORECASE)
IDEAS_ALONE = re.compile(r"further considerations? ?:?", re.IGNORECASE)
SOURCES = re.compile(
    r"(?:(?:list of |cited )?sources(?: cited)?|references|bibliography|works cited|citations|"
    r"quellen|literatur|références|referencias|fuentes)",
    re.IGNORECASE,
)
ENTRY = re.compile(r"[ \t>]*(?:[-*+][ \t]|\[\^?\d{1,4}\]|\d{1,4}[.)][ \t]|\|)")
DEFINED = re.compile(r" {0,3}(?:> ?){0,5}\[(\^?)([^\]\n]{1,60})\]:")
INDENTED = re.compile(r"(?: {2}|\t)")
UNDER_ALL = 7

Part = Literal["findings", "considerations", "footnotes", "listed"]


class Heading(NamedTuple):
    """A heading: 1 to 6 as in Markdown, 7 for a bold line; what follows on its line; its lines."""

    level: int
    title: str
    rest: str = ""
    lines: int = 1


class Parts(NamedTuple):
    """A report taken apart, each part in its order, `considerations` without their heading.

    `footnotes` are the definitions, [^1]: and what belongs to them. `listed` is the report's own
    list of sources, and definitions that would turn a citation into a link.
    """

    findings: str
    considerations: str
    footnotes: str
    listed: str


def split(report: str) -> Parts:
    """Take a report apart, as it is shown: what is hidden in it belongs to no part."""
    found: dict[Part, list[str]] = {
        "findings": [],
        "considerations": [],
        "footnotes": [],
        "listed": [],
    }
    for part, line in _Reader(visible(unwrapped(report)).split("\n")).placed():
        found[part].append(line)
    return Parts(*("\n".join(each).strip("\n") for each in found.values()))


def heading(lines: Sequence[str], place: int) -> Heading | None:
    """Read the heading that begins at a line, if one does: #, underlined, or bold alone."""
    line = lines[place]
    below = lines[place + 1] if place + 1 < len(lines) else ""
    if "#" in line and (hashes := HASHES.fullmatch(line)):
        return Heading(len(hashes[1]), _title(re.sub(r"[ \t]#+[ \t]*$", "", hashes[2] or "")))
    if (
        below.lstrip(" ")[:1] in UNDERLINES
        and UNDERLINE.fullmatch(below)
        and not NO_TEXT.match(line)
    ):
        return Heading(1 if "=" in below else 2, _title(line), lines=2)
    if "**" in line or "__" in line:
        return _in_bold(line)
    alone = IDEAS_ALONE.fullmatch(line.strip(" \t>"))
    return Heading(UNDER_ALL, TITLE) if alone else None


def _in_bold(line: str) -> Heading | None:
    if bold := BOLD.fullmatch(line):
        return Heading(UNDER_ALL, _title(bold[1]))
    led = LED.fullmatch(line)
    return Heading(UNDER_ALL, _title(led[1]), led[2]) if led else None


def _title(text: str) -> str:
    return text.strip(" \t*_:.>")


class _Section(NamedTuple):
    part: Part
    level: int


def _named(title: str) -> str:
    return NUMBERING.sub("", fold(title).strip("`"))


class _Reader:
    """Goes through the lines of a report, and knows in which section and footnote it is."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._sections = [_Section("findings", 0)]
        self._in_note = False
        self._blank = False

    def placed(self) -> Iterator[tuple[Part, str]]:
        """Yield each line that is kept, with the part that it belongs to."""
        place, mark = 0, ""
        while place < len(self._lines):
            mark, code = fence_after(self._lines[place], mark)
            found = None if code else heading(self._lines, place)
            if found is None:
                yield self._part(self._lines[place], code), self._lines[place]
                place += 1
            else:
                yield from self._enter(found, self._lines[place : place + found.lines], place)
                place += found.lines

    def _enter(
        self, found: Heading, lines: Sequence[str], place: int
    ) -> Iterator[tuple[Part, str]]:
        self._in_note = False
        while found.level <= self._sections[-1].level:
            self._sections.pop()
        if IDEAS.fullmatch(_named(found.title)):
            self._sections.append(_Section("considerations", found.level))
            lines = [found.rest] if found.rest else []
        elif SOURCES.fullmatch(_named(found.title)) and self._lists(place + found.lines):
            self._sections.append(_Section("listed", found.level))
        yield from ((self._sections[-1].part, line) for line in lines)

    def _lists(self, place: int) -> bool:
        """Tell whether nothing but entries of a list stands from a line to the next heading."""
        for at in range(place, len(self._lines)):
            if heading(self._lines, at):
                return True
            line = self._lines[at]
            if line.strip() and not ENTRY.match(line) and not INDENTED.match(line):
                return False
        return True

    def _part(self, line: str, code: bool) -> Part:
        defined = None if code else DEFINED.match(line)
        self._in_note = bool(defined and defined[1]) or self._goes_on(line, code or bool(defined))
        self._blank = not line.strip()
        if self._in_note:
            return "footnotes"
        return "listed" if defined and defined[2].isdecimal() else self._sections[-1].part

    def _goes_on(self, line: str, begins: bool) -> bool:
        """Tell whether a line goes on with a footnote; `begins` where it begins something else."""
        lazy = not self._blank and not begins and not NO_TEXT.match(line)
        return self._in_note and (not line.strip() or lazy or bool(INDENTED.match(line)))
