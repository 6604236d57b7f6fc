"""A report taken apart, what is wrong with it for certain, and how it is given out."""

from collections.abc import Sequence

import pytest

from mull.multipath.parts import Critique
from mull.multipath.report import EMPTY, NO_SOURCE, UNCITED, assemble, check_report, with_checks
from mull.multipath.result import Source
from tests.unit.multipath.sourced import DAM, SOURCES, source, split


def test_a_title_that_leads_a_paragraph() -> None:
    """A bold title with the text behind it begins the section, up to the next heading."""
    parts = split("A.\n\n**Further considerations:** A queue.\nA graph.\n\n**End**\n\nB.")

    assert parts.considerations == "A queue.\nA graph."
    assert parts.findings == "A.\n\n**End**\n\nB."


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("A.\n\n## References\n\n1. x\n2. y", "A."),
        ("A.\n\n**Sources:**\n\n[1] x\n[9] y", "A."),
        ("A.\n\n## Sources\n\n- x\n\n## End\n\nB.", "A.\n\n## End\n\nB."),
        ("A.\n\n[1]: https://a.example", "A."),
        (
            "A.\n\n## Sources\n\nThe river rises here [1].",
            "A.\n\n## Sources\n\nThe river rises here [1].",
        ),
    ],
)
def test_the_report_s_own_list_of_sources(text: str, findings: str) -> None:
    """A list of sources is no finding, nor what would make a link of [1]; prose is."""
    assert split(text).findings == findings


GOOD = "The dam was built in 1931 [1].\n\n## Further considerations\n\nIt could be a queue.[^1]"
UNKNOWN = Critique(
    aspect="citation",
    advice="[9] is no source: cite one of [1] to [3] where it supports the claim, "
    "or leave the claim out",
    sentence="It leaks [9].",
    cited=9,
)
CITED_IDEA = Critique(
    aspect="demarcation",
    advice="[2] stands with an idea of your own: leave the citation out there, or move what "
    "source 2 does say among the findings",
    sentence="It is a queue [2].",
    cited=2,
)


@pytest.mark.parametrize(
    "report",
    [
        GOOD,
        "Built in 1931 [1]. `x[9]`",
        "Built in 1931 [1].\n\n```\n[9]\n```",
        "Built in 1931 [1-3].[^9]\n\n[^9]: An idea.",
        "Built in 1931 [1]. See [9](https://a.example).",
        "Built in 1931 [1].\n\n## Sources\n\n- [1] x\n- [9] y",
    ],
)
def test_a_report_without_a_fault(report: str) -> None:
    """Nothing is found where each [n] is a source and stands among the findings."""
    assert check_report(report, SOURCES) == ()


@pytest.mark.parametrize(
    ("report", "critiques"),
    [
        ("Built in 1931 [1]. It leaks [9].", [UNKNOWN]),
        ("Built in 1931 [1].\n- It leaks [9].\n- It leaks more [9].", [UNKNOWN]),
        (
            "Built in 1931 [1].\n\n## Further considerations\n\nAn idea. It is a queue [2].",
            [CITED_IDEA],
        ),
        ("Built in 1931 [1].[^1]\n\n[^1]: It is a queue [2].", [CITED_IDEA]),
        ("A [1].\n\n**Further considerations:** It is a queue [2].", [CITED_IDEA]),
        ("A [1].\n\n> ## Further considerations\n> It is a queue [2].", [CITED_IDEA]),
        ("```md\nA [1].\n\n[^n]: Note.\n    It is a queue [2].\n```", [CITED_IDEA]),
        ("It leaks [9].\n\n## Further considerations\n\nIt is a queue [2].", [UNKNOWN, CITED_IDEA]),
        ("Built in 1931.", [Critique(aspect="citation", advice=UNCITED)]),
        ("Built in 1931.[^1]", [Critique(aspect="citation", advice=UNCITED)]),
        ("Built.\n\n## Sources\n\n- [1] x", [Critique(aspect="citation", advice=UNCITED)]),
        ("", [Critique(aspect="completeness", advice=EMPTY)]),
        ("## Further considerations\n\nIdea.", [Critique(aspect="completeness", advice=EMPTY)]),
    ],
)
def test_what_is_found(report: str, critiques: list[Critique]) -> None:
    """Each fault is one critique with the sentence it is about, where there is one."""
    assert list(check_report(report, SOURCES)) == critiques


REPEATED = [
    Critique(aspect="citation", advice="no such source", sentence="It leaks [9].", cited=9),
    Critique(aspect="citation", advice="there is no 9", cited=9),
    Critique(aspect="demarcation", advice="leave it out", sentence="it leaks [9]", cited=9),
]
NEW = [
    Critique(aspect="citation", advice="no such source", sentence="It leaks"),
    Critique(aspect="clarity", advice="leaks what?", sentence="It leaks [9]."),
    Critique(
        aspect="citation", advice="source 1 says 1931", sentence="Built in 1932 [1].", cited=1
    ),
    Critique(aspect="citation", advice="it is 1931", sentence="Built in 1932 [1].", cited=1),
    Critique(aspect="completeness", advice="say how high it is"),
    Critique(aspect="person", advice="shorter", author="Ada"),
]


def test_nothing_is_said_twice() -> None:
    """What a model says of a fault that is found anyway is left out; all else is kept, in order."""
    report = "Built in 1932 [1]. It leaks [9]."

    together = with_checks(report, SOURCES, [*REPEATED, *NEW, NEW[0]])

    assert list(together) == [UNKNOWN, *NEW]
    assert with_checks(report, SOURCES, together) == together


REPORT = """# Dams

The dam was built in 1931 [1], and the lake is large [2].[^1]

## Further considerations

The lake could be a queue [1].

[^1]: As a reservoir is in computing [2].

## Sources

- [9] made up
"""

LIST = """

## Sources

- [1] `docs/1.md`, line 1
- [2] `docs/lake.pdf`, page 7, lines 1 to 2

Found but not cited:

- [3] `docs/3.md`, lines 1 to 3"""

IDEAS = """[^1]

## Further considerations

The lake could be a queue.

- Trout as agents.

[^1]: As a reservoir is in computing."""

PLAIN = "# Dams\n\nThe dam was built in 1931 [1], and the lake is large [2]."
LISTED = "It leaks.\n\n## Sources\n\nFound but not cited:\n\n- [1] `docs/1.md`, line 1"
NO_SUCH = "- [2] is not one of the sources"


@pytest.mark.parametrize(
    ("report", "sources", "creative", "whole"),
    [
        (REPORT, SOURCES, True, f"{PLAIN}{IDEAS}{LIST}"),
        (REPORT, SOURCES, False, f"{PLAIN}{LIST}"),
        ("It leaks [2].", (), True, f"{NO_SOURCE}\n\nIt leaks [2].\n\n## Sources\n\n{NO_SUCH}"),
        ("It leaks.", (), True, f"{NO_SOURCE}\n\nIt leaks."),
        ("It leaks.", [DAM], True, LISTED),
        (
            "It leaks [1-2].",
            [DAM],
            True,
            f"It leaks [1-2].\n\n## Sources\n\n- [1] `docs/1.md`, line 1\n{NO_SUCH}",
        ),
    ],
)
def test_the_whole(report: str, sources: Sequence[Source], creative: bool, whole: str) -> None:
    """Findings, one section of ideas without citations, footnotes, and the list of sources.

    Without creative contributions there are no ideas and footnotes; without a source the first
    line says so; a citation that is still wrong in the end is shown as such.
    """
    ideas = ["Trout as agents."] if report is REPORT else []

    assert assemble(report, ideas, sources, creative=creative) == whole


@pytest.mark.parametrize(
    ("suggestion", "item"),
    [
        ("A queue.", "- A queue."),
        ("As [1] says, a queue [2, 3].", "- As says, a queue."),
        ("# A queue", "- A queue"),
        ("A queue\n\n## Findings\n\nIt is [1]", "- A queue ## Findings It is"),
        ("- > ```py", "- '''py"),
        ("A `queue`", "- A 'queue'"),
        ("See [here](https://a.example)[^1]", "- See \\[here\\](https://a.example)\\[^1\\]"),
        ("<b>A</b> <!-- queue -->", "- \\<b>A\\</b> \\<!-- queue -->"),
        ("\u202eeueuq\u202c\x1b[1m A", "- eueuq\u241b\\[1m A"),
        ("~~~ \uff3b1\uff3d idea", "- idea"),
    ],
)
def test_a_suggestion_stays_in_its_line(suggestion: str, item: str) -> None:
    """A suggestion is one item without citation, heading, link, HTML or code."""
    whole = assemble("It is old [1].", [suggestion], [DAM], creative=True)

    assert whole.split("## Further considerations\n\n")[1].split("\n\n## Sources")[0] == item


@pytest.mark.parametrize(
    "name", ["a`b.md", "a\n## Findings\n.md", "[1](https://a.example).md", "<script>.md"]
)
def test_a_file_s_name_is_data(name: str) -> None:
    """A file's name stands in code on one line, whatever it is."""
    whole = assemble("It is old [1].", [], [source(1, "x", name)], creative=True)

    last = whole.splitlines()[-1]
    assert last.startswith("- [1] `")
    assert last.endswith("`, line 1")
    assert last.count("`") == 2
