"""The report as it is given out: findings, what is beyond them, and the sources."""

from collections.abc import Iterator, Sequence

from reflection.critique.guardrails.citing.citations import FOOTNOTE
from reflection.details import code
from reflection.multipath.research.considerations import section
from reflection.multipath.research.quoting import where
from reflection.multipath.research.reading.citations import cited, uncited
from reflection.multipath.research.reading.notes import (
    inline_notes,
    with_uncited_notes,
    without_all_notes,
    without_notes,
)
from reflection.multipath.research.reading.parts import DEFINED, INDENTED, split
from reflection.multipath.research.reading.visible import fence_after, outside_code
from reflection.multipath.result import Source

NO_SOURCE = (
    "> No source was found: what follows is the model's own knowledge, and no document was there "
    "to check it against."
)
NAME_COLUMNS = 200
DEEPEST = 4


def assemble(
    report: str, suggestions: Sequence[str], sources: Sequence[Source], creative: bool
) -> str:
    """Put the final Markdown together from a report and the last reflection's suggestions.

    Its first line says so where no source was found. The report's own "Further considerations"
    and the suggestions make one section, without citations; that and all footnotes are left out
    where `creative` is false. The list of sources is ours: those that are cited, then the others.
    """
    parts = split(report)
    keep = with_uncited_notes if creative else _without_footnotes
    findings = keep(parts.findings)
    texts = [
        "" if sources else NO_SOURCE,
        findings,
        section(parts.considerations, suggestions) if creative else "",
        _notes(parts.footnotes) if creative else "",
        "\n".join(_list(cited(without_notes(findings)), sources)),
    ]
    return "\n\n".join(each.strip("\n") for each in texts if each.strip())


def _list(numbers: Sequence[int], sources: Sequence[Source]) -> Iterator[str]:
    """List the sources; a number that is cited and is none of them is said to be none."""
    known = {each.number for each in sources}
    used = [each for each in sources if each.number in numbers]
    unused = [each for each in sources if each.number not in numbers]
    unknown = [each for each in numbers if each not in known]
    if used or unused or unknown:
        yield "## Sources\n"
    yield from map(_entry, used)
    yield from (f"- [{each}] is no source that was found" for each in unknown)
    if unused:
        yield "\nFound, and not cited:\n" if used or unknown else "Found, and not cited:\n"
    yield from map(_entry, unused)


def _entry(source: Source) -> str:
    name = code(source.passage.source, NAME_COLUMNS)
    return f"- [{source.number}] {name}, {where(source.passage)}"


def _notes(footnotes: str) -> str:
    """Indent what belongs to a definition, so that it can't be taken for a finding."""
    lines = uncited(footnotes).split("\n")
    belongs = [not each.strip() or DEFINED.match(each) or INDENTED.match(each) for each in lines]
    pairs = zip(lines, belongs, strict=True)
    return "\n".join(each if fits else f"    {each.lstrip()}" for each, fits in pairs)


def _without_footnotes(findings: str) -> str:
    for _ in range(DEEPEST):
        # What is left of a line may begin a note, or the section, by itself.
        findings = split(_unmarked(without_all_notes(findings))).findings
        if not inline_notes(findings):
            break
    return findings


def _unmarked(text: str) -> str:
    lines, mark = [], ""
    for line in text.split("\n"):
        mark, in_code = fence_after(line, mark)
        lines.append(line if in_code else outside_code(line, _without_marks))
    return "\n".join(lines)


def _without_marks(text: str) -> str:
    return FOOTNOTE.sub("", text)
