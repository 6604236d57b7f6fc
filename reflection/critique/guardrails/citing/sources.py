"""Research without sources, and citations that point at none."""

from collections.abc import Iterator

from reflection.critique.guardrails.citing import citations
from reflection.critique.guardrails.prose import fold
from reflection.critique.guardrails.registry import Checked, Finding, guardrail
from reflection.text import terminal_safe

CAP = 0.5
NEEDS_SOURCES = frozenset({"citation_coverage", "source_quality", "evidence"})
SHOWN = 3


@guardrail("no_sources", default=True)
def no_sources(checked: Checked) -> Finding | None:
    """Cap a research answer that cites nothing.

    Research is what is judged by citation_coverage, source_quality or evidence, or was given
    sources. A citation is [1], [^1], a link to a host, a DOI, (Smith, 2020), or an entry of a
    list of references; not one in code, [citation needed], an empty heading, or example.com.
    Source: the reflection chapter's exercise 3, rule 2.
    """
    if not checked.sources and not NEEDS_SOURCES & set(checked.asks_for):
        return None
    if citations.cites(citations.readable(checked.draft)):
        return None
    how = _how_to_cite(len(checked.sources))
    return Finding(CAP, f"the draft cites no source: support its claims with {how}")


@guardrail("unknown_citation", default=True)
def unknown_citation(checked: Checked) -> Finding | None:
    """Cap a draft that cites what is not among its sources.

    With sources: a number that none of them has, a link or DOI that none of them names where
    they name any, an author whom none of them names. Without: a number, or a footnote, that has
    no entry in the draft's own references. Years, and the indices and lists of code, are no
    citations.
    """
    text = citations.readable(checked.draft)
    unknown = list(dict.fromkeys(_beyond(checked, text) if checked.sources else _without(text)))
    if not unknown:
        return None
    shown = ", ".join(terminal_safe(each, 60) for each in unknown[:SHOWN])
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    where = f"the {len(checked.sources)} given sources" if checked.sources else "its references"
    return Finding(
        CAP, f"the draft cites {shown}{more}, not among {where}: cite what is, or add it"
    )


def _how_to_cite(sources: int) -> str:
    if sources:
        return f"the given sources, as {'[1]' if sources == 1 else f'[1] to [{sources}]'}"
    return "citations or links"


def _without(text: str) -> Iterator[str]:
    known = citations.entries(text)
    yield from (f"[{each}]" for each in citations.numbers(text) if str(each) not in known)
    yield from (f"[^{each}]" for each in citations.names_of_notes(text) if each not in known)


def _beyond(checked: Checked, text: str) -> Iterator[str]:
    given = fold("\n".join([*checked.sources, checked.query])).casefold()
    most = len(checked.sources)
    yield from (f"[{each}]" for each in citations.numbers(text) if not 1 <= each <= most)
    known = citations.entries(text)
    yield from (f"[^{each}]" for each in citations.names_of_notes(text) if each not in known)
    yield from _unnamed_addresses(text, given)
    yield from (each for each in citations.authors(text) if each.casefold() not in given)


def _unnamed_addresses(text: str, given: str) -> Iterator[str]:
    known = {each.casefold() for each in citations.links(given)}
    dois = set(citations.dois(given))
    if not known and not dois:
        return
    for link in citations.links(text):
        if link.casefold() not in known and not dois & set(citations.dois(link)):
            yield link
    yield from (each for each in citations.dois(text) if each not in given)
