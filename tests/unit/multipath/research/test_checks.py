"""What is wrong with a report for certain."""

import pytest

from reflection.multipath.report import EMPTY, UNCITED, check_report, with_checks
from reflection.multipath.state import Critique
from tests.unit.multipath.research.sourced import DAM, SOURCES

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
        "Built in 1931 [1]. <!-- [9] -->",
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
        (
            "It leaks [9].\n\n## Further considerations\n\nIt is a queue [2].",
            [UNKNOWN, CITED_IDEA],
        ),
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


def test_one_source() -> None:
    """With a single source the advice names that one."""
    found = check_report("It leaks [2].", [DAM])

    assert found[0].advice.startswith("[2] is no source: cite one of [1] where")


def test_without_sources() -> None:
    """Without sources nothing must be cited, and each citation is a fault."""
    found = check_report("It leaks [1]. It is old.", ())

    assert check_report("It leaks.", ()) == ()
    assert [(each.cited, each.sentence) for each in found] == [(1, "It leaks [1].")]
    assert "none was found" in found[0].advice


def test_there_are_at_most_twenty() -> None:
    """However many faults there are, twenty critiques are made."""
    report = " ".join(f"Claim [{number}]." for number in range(10, 99))

    assert len(check_report(report, SOURCES)) == 20


REPEATED = [
    Critique(aspect="citation", advice="no such source", sentence="It leaks [9].", cited=9),
    Critique(aspect="citation", advice="no such source", sentence="It leaks"),
    Critique(aspect="citation", advice="there is no 9", cited=9),
    Critique(aspect="demarcation", advice="leave it out", sentence="it leaks [9]", cited=9),
]
NEW = [
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


def test_together_there_are_at_most_twenty() -> None:
    """What is certain is kept before what a model says."""
    said = [Critique(aspect="clarity", advice=f"point {number}") for number in range(40)]

    together = with_checks("It leaks [9].", SOURCES, said)

    assert list(together) == [UNKNOWN, *said[:19]]


@pytest.mark.parametrize(
    "report",
    [
        "A [1].\n\n**Further considerations:** A queue [2].",
        "A [1].\n\nFurther considerations\n---\n\n- A queue [2, 3].",
        "A [1].\n\n## Further considerations\n\n### Deep\n\nA queue \u30102\u3011.",
        "A [1].\n\n> ## Further considerations\n> A queue [2].",
        "A.[^n]\n\n[^n]: A queue\n    [2].",
        "```markdown\nA [1].\n\n## Further considerations\n\nA queue [2].\n```",
    ],
)
def test_a_cited_idea_is_found_in_every_form(report: str) -> None:
    """Whatever form the section or the footnote has, an idea that is cited as D is found."""
    found = check_report(report, SOURCES)

    assert (2, "demarcation") in {(each.cited, each.aspect) for each in found}
