"""What is wrong with a report for certain, whatever a model says of it."""

from collections.abc import Iterator, Sequence

from reflection.multipath.research.considerations import demarcation
from reflection.multipath.research.reading.citations import cited
from reflection.multipath.research.reading.notes import without_notes
from reflection.multipath.research.reading.parts import split
from reflection.multipath.research.reading.sentences import sentences
from reflection.multipath.result import Source
from reflection.multipath.state import Critique
from reflection.spelling import words

MOST_CRITIQUES = 20
ON_CITATIONS = {"citation", "demarcation"}

EMPTY = "the report has no findings: write what answers the request"
UNCITED = (
    "the report cites no source: put [n] behind each claim that source n supports, or, where "
    "the sources do not answer the request, say so and cite those that you looked at"
)
UNKNOWN = "[{number}] is no source: {known}"
NONE_GIVEN = "none was found, so leave the citation out, and say that the claim is your own"
GIVEN = "cite one of {known} where it supports the claim, or leave the claim out"


def check_report(report: str, sources: Sequence[Source]) -> tuple[Critique, ...]:
    """Find what needs no model to be found.

    A cited number that no source has, a citation in "Further considerations" or in a footnote,
    findings without any citation though there are sources, and no findings at all. At most 20.
    """
    findings = without_notes(split(report).findings)
    if not any(each.isalnum() for each in findings):
        return (Critique(aspect="completeness", advice=EMPTY),)
    found = [*_unknown(findings, sources), *demarcation(report)]
    if sources and not cited(findings):
        found.append(Critique(aspect="citation", advice=UNCITED))
    return tuple(found[:MOST_CRITIQUES])


def with_checks(
    report: str, sources: Sequence[Source], critiques: Sequence[Critique]
) -> tuple[Critique, ...]:
    """Put what is certain before what a model says, and leave out what says the same again.

    At most 20 together. Doing it twice changes nothing.
    """
    certain = check_report(report, sources)
    said = [each for each in critiques if not any(_repeats(each, other) for other in certain)]
    return tuple([*certain, *dict.fromkeys(said)][:MOST_CRITIQUES])


def _repeats(said: Critique, certain: Critique) -> bool:
    alike = said.aspect == certain.aspect or {said.aspect, certain.aspect} == ON_CITATIONS
    if not alike or said.cited not in {None, certain.cited}:
        return False
    if said.sentence is None or certain.sentence is None:
        return said.sentence is None and said.cited == certain.cited
    one, other = _words(said.sentence), _words(certain.sentence)
    return one in other or other in one


def _words(sentence: str) -> str:
    return " ".join(words(sentence))


def _unknown(findings: str, sources: Sequence[Source]) -> Iterator[Critique]:
    known = {each.number for each in sources}
    unknown = [each for each in cited(findings) if each not in known]
    first: dict[int, str] = {}
    for sentence in sentences(findings) if unknown else ():
        for number in cited(sentence):
            first.setdefault(number, sentence)
    for number in unknown:
        yield Critique(
            aspect="citation",
            advice=_advice(number, known),
            sentence=first.get(number),
            cited=number,
        )


def _advice(number: int, known: set[int]) -> str:
    names = "[1]" if len(known) == 1 else f"[1] to [{max(known, default=0)}]"
    ways = GIVEN.replace("{known}", names) if known else NONE_GIVEN
    return UNKNOWN.replace("{number}", str(number)).replace("{known}", ways)
