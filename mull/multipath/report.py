"""A report: its parts, the checks that need no model, and its final form.

Ideas beyond the sources are kept apart from the findings, in "Further considerations" and in
footnotes. Source: section 2.4 of the report that `mull.multipath.parts` cites.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from mull.details import code
from mull.multipath import markup
from mull.multipath.parts import Critique, Passage
from mull.multipath.result import Source
from mull.text import fold, neutral

PREFIX = r" {0,3}(?:> ?){0,5}"
BOLD = re.compile(rf"{PREFIX}(?:\*\*|__)([^*_]{{1,200}})(?:\*\*|__)[ \t]*:?[ \t]*")
LED = re.compile(
    rf"{PREFIX}(?:\*\*|__)(further considerations?)[ \t]*:?(?:\*\*|__)[ \t]*:?[ \t]+(.*)",
    re.IGNORECASE,
)
ALONE = re.compile(rf"{PREFIX}(further considerations?) ?:?[ \t]*", re.IGNORECASE)
LISTED = re.compile(rf"{PREFIX}(?:[-*+]|\d{{1,9}}[.)])[ \t]")
NUMBERING = re.compile(r"^(?:(?:\d{1,3}[.)]?){1,4}|[ivx]{1,6}[.)])\s+", re.IGNORECASE)
IDEAS = re.compile(r"further considerations?\b.*", re.IGNORECASE)
SOURCES = re.compile(
    r"(?:(?:list of |cited )?sources(?: cited)?|references|bibliography|works cited|citations|"
    r"quellen|literatur|références|referencias|fuentes)",
    re.IGNORECASE,
)
ENTRY = re.compile(
    r"[ \t>]*(?:[-*+][ \t]|\[(?:\d{1,4}|\^[^\]\s]{1,40})\]|\d{1,4}[.)][ \t]|\|)|(?: {2}|\t)|[ \t]*$"
)
DEFINED = re.compile(rf"{PREFIX}\[(\^?)([^\]\n]{{1,60}})\]:")
BEGINS = re.compile(rf"{PREFIX}(?:[-*+>#|`~=]|\d{{1,9}}[.)][ \t])")
UNDER_ALL = 7
ROUNDS = 4

MOST_CRITIQUES = 20
CERTAIN = {"citation", "demarcation"}
EMPTY = "the report has no findings: write what answers the request"
UNCITED = (
    "the report cites no source: put [n] behind each claim that source n supports, or, where "
    "the sources do not answer the request, say so and cite those that you looked at"
)
NONE_GIVEN = "none was found, so leave the citation out, and say that the claim is your own"

NO_SOURCE = (
    "> No source was found: what follows is the model's own knowledge, and no document was there "
    "to check it against."
)
NAME_COLUMNS = 200
SPECIAL = re.compile(r"[\\\[\]<]")
BLOCK_MARKS = "#>-+*=~|` \t"

Part = Literal["findings", "considerations", "footnotes", "listed"]
PARTS: tuple[Part, ...] = get_args(Part)


class Parts(NamedTuple):
    """A report taken apart, each part in its order, `considerations` without their heading.

    `footnotes` are the definitions, [^1]: and what belongs to them. `listed` is the report's own
    list of sources, and definitions that would turn a citation into a link.
    """

    findings: str
    considerations: str
    footnotes: str
    listed: str


class Heading(NamedTuple):
    """A heading: 1 to 6 as in Markdown, 7 for a bold line; what follows on its line; its lines."""

    level: int
    title: str
    rest: str = ""
    lines: int = 1


def check_report(report: str, sources: Sequence[Source]) -> tuple[Critique, ...]:
    """Find the defects that can be found without a model, at most 20.

    These are a cited number without a source, a citation in "Further considerations" or in a
    footnote, findings without citations although there are sources, and no findings at all.
    """
    parts = split(markup.visible(markup.unfenced(report)))
    if not any(letter.isalnum() for letter in markup.FOOTNOTE.sub("", parts.findings)):
        return (Critique(aspect="completeness", advice=EMPTY),)
    known = {source.number for source in sources}
    names = "[1]" if len(known) == 1 else f"[1] to [{max(known, default=0)}]"
    given = f"cite one of {names} where it supports the claim, or leave the claim out"
    unknown = [number for number in markup.cited(parts.findings) if number not in known]
    found = [
        Critique(
            aspect="citation",
            advice=f"[{number}] is no source: {given if known else NONE_GIVEN}",
            sentence=next(
                (text for text in markup.sentences(parts.findings) if number in markup.cited(text)),
                None,
            ),
            cited=number,
        )
        for number in unknown[:MOST_CRITIQUES]
    ]
    for text in (parts.considerations, parts.footnotes):
        for sentence in markup.sentences(text) if markup.cited(text) else ():
            found += [
                Critique(
                    aspect="demarcation",
                    advice=f"[{number}] stands with an idea of your own: leave the citation out "
                    f"there, or move what source {number} does say among the findings",
                    sentence=sentence,
                    cited=number,
                )
                for number in markup.cited(sentence)
            ]
    if sources and not markup.cited(parts.findings):
        found.append(Critique(aspect="citation", advice=UNCITED))
    return tuple(dict.fromkeys(found))[:MOST_CRITIQUES]


def with_checks(
    report: str, sources: Sequence[Source], critiques: Sequence[Critique]
) -> tuple[Critique, ...]:
    """Put the certain critiques before a model's, without those that repeat them.

    At most 20 in all. Idempotent.
    """
    certain = check_report(report, sources)
    numbers = {critique.cited for critique in certain} - {None}
    said = [one for one in critiques if one.aspect not in CERTAIN or one.cited not in numbers]
    return tuple(dict.fromkeys([*certain, *said]))[:MOST_CRITIQUES]


def assemble(
    report: str, suggestions: Sequence[str], sources: Sequence[Source], creative: bool
) -> str:
    """Build the final Markdown from a report and the last reflection's suggestions.

    The first line says if no source was found. The report's own "Further considerations" and the
    suggestions form one section, without citations; it and all footnotes are left out if
    `creative` is false. The list of sources is generated: those that are cited, then the others.
    """
    shown = markup.visible(markup.unfenced(report))
    for _ in range(0 if creative else ROUNDS):
        # What is left of a line may begin a footnote, or the section, by itself.
        bare = markup.visible(markup.without_footnotes(shown))
        if bare == shown:
            break
        shown = bare
    parts = split(shown)
    # What belongs to a footnote is indented, so that it can't be taken for a finding.
    notes = "\n".join(
        line
        if not line.strip() or DEFINED.match(line) or line.startswith("    ")
        else f"    {line.lstrip()}"
        for line in parts.footnotes.split("\n")
    )
    texts = [
        "" if sources else NO_SOURCE,
        parts.findings,
        _section(parts.considerations, suggestions) if creative else "",
        markup.uncited(notes) if creative else "",
        _list(markup.cited(parts.findings), sources),
    ]
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def where(passage: Passage) -> str:
    """Name the lines of a passage in its document, and the page if there are pages."""
    lines = f"line {passage.first_line}"
    if passage.first_line != passage.last_line:
        lines = f"lines {passage.first_line} to {passage.last_line}"
    return lines if passage.page is None else f"page {passage.page}, {lines}"


def split(report: str) -> Parts:
    """Split a report that `visible` returned into its parts, line by line."""
    lines, fenced, headings = report.split("\n"), markup.fenced_lines(report), _headings(report)
    kept: dict[Part, list[str]] = {part: [] for part in PARTS}
    last = dict.fromkeys(kept, -1)
    sections: list[tuple[Part, int]] = [("findings", 0)]
    in_note, place = False, 0
    while place < len(lines):
        line, heading = lines[place], headings.get(place)
        defined = None if place in fenced else DEFINED.match(line)
        if heading is not None:
            taken, in_note = _enter(sections, heading, lines, place, headings), False
        else:
            goes_on = (
                not line.strip()
                or line.startswith(("  ", "\t"))
                or (lines[place - 1].strip() and place not in fenced and not BEGINS.match(line))
            )
            taken, in_note = [line], bool(defined[1] if defined else in_note and goes_on)
        part: Part = "footnotes" if in_note else sections[-1][0]
        if defined and defined[2].isdecimal() and not in_note:
            part = "listed"
        if taken and kept[part] and last[part] < place - 1 and kept[part][-1].strip():
            # Lines between these two are gone; a blank line keeps them separate paragraphs.
            kept[part].append("")
        kept[part] += taken
        place += heading.lines if heading else 1
        last[part] = place - 1
    return Parts(*("\n".join(text).strip("\n") for text in kept.values()))


def _enter(
    sections: list[tuple[Part, int]],
    heading: Heading,
    lines: list[str],
    place: int,
    headings: dict[int, Heading],
) -> list[str]:
    """Enter the section that a heading begins, and return the heading lines to keep."""
    while heading.level <= sections[-1][1]:
        sections.pop()
    name = NUMBERING.sub("", fold(heading.title).strip("`"))
    below = place + heading.lines
    if IDEAS.fullmatch(name):
        sections.append(("considerations", heading.level))
        return [heading.rest] if heading.rest else []
    if SOURCES.fullmatch(name):
        end = below
        while end < len(lines) and end not in headings and ENTRY.match(lines[end]):
            end += 1
        if end == len(lines) or end in headings:
            sections.append(("listed", heading.level))
    return lines[place:below]


def _headings(text: str) -> dict[int, Heading]:
    """Return the headings by their first line.

    A line in bold alone, and "Further considerations:" in any form, are headings too.
    """
    lines, headings = text.split("\n"), dict[int, Heading]()
    for opening, token in pairwise(markup.blocks(text)):
        first, end = opening.map or (0, 0)
        if opening.type == "heading_open" and not LISTED.match(lines[first]):
            headings[first] = Heading(int(opening.tag[1]), _title(token.content), "", end - first)
        for place in range(first, end) if opening.type == "paragraph_open" else ():
            if found := BOLD.fullmatch(lines[place]) or ALONE.fullmatch(lines[place]):
                headings[place] = Heading(UNDER_ALL, _title(found[1]))
            elif led := LED.fullmatch(lines[place]):
                headings[place] = Heading(UNDER_ALL, _title(led[1]), led[2])
    return headings


def _title(text: str) -> str:
    return text.strip(" \t*_:.>")


def _section(own: str, suggestions: Sequence[str]) -> str:
    """Join the report's own ideas and the reflection's in one section; empty without any.

    `own` keeps its Markdown, with headings below the section's. A suggestion is one item of a
    list, in which no heading, link, HTML or code stands. Nothing in the section cites.
    """
    # What is left of a line without its citation may be a heading, or open a block of code.
    lines = markup.visible(markup.uncited(own)).split("\n")
    for place, heading in _headings("\n".join(lines)).items():
        if heading.level < UNDER_ALL:
            lines[place : place + heading.lines] = [""] * heading.lines
            lines[place] = f"### {heading.title}"
    written = "\n".join(lines).strip("\n")
    said = markup.plain_words(own)
    items = [_item(idea) for idea in dict.fromkeys(suggestions) if not markup.stands_in(idea, said)]
    texts = [written, "\n".join(f"- {item}" for item in items if item)]
    filled = [text for text in texts if text.strip()]
    return "\n\n".join(["## Further considerations", *filled]) if filled else ""


def _item(suggestion: str) -> str:
    line = " ".join(neutral(suggestion).replace("`", "'").split())
    bare = markup.uncited(line.lstrip(BLOCK_MARKS)).strip().lstrip(BLOCK_MARKS)
    return SPECIAL.sub(r"\\\g<0>", fold(bare) if markup.cited(bare) else bare)


def _list(numbers: Sequence[int], sources: Sequence[Source]) -> str:
    """List what is cited, sources or not, and then the other sources; empty without any."""
    entries = {
        source.number: f"- [{source.number}] {code(source.passage.source, NAME_COLUMNS)}, "
        f"{where(source.passage)}"
        for source in sources
    }
    used = [entries.pop(number, f"- [{number}] is not one of the sources") for number in numbers]
    listed = ["\n".join(used)] if used else []
    if entries:
        listed += ["Found but not cited:", "\n".join(entries.values())]
    return "\n\n".join(["## Sources", *listed]) if listed else ""
