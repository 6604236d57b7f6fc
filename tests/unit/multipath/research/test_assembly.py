"""The report as it is given out."""

import pytest

from reflection.multipath.report import NO_SOURCE, assemble, split
from tests.unit.multipath.research.sourced import DAM, SOURCES, source

REPORT = """# Dams

The dam was built in 1931 [1], and the lake is large [2].[^1]

## Further considerations

The lake could be a queue [1].

[^1]: As a reservoir is in computing [2].

## Sources

- [9] made up
"""

WHOLE = """# Dams

The dam was built in 1931 [1], and the lake is large [2].[^1]

## Further considerations

The lake could be a queue.

- Trout as agents.

[^1]: As a reservoir is in computing.

## Sources

- [1] `docs/1.md`, line 1
- [2] `docs/lake.pdf`, page 7, lines 1 to 2

Found, and not cited:

- [3] `docs/3.md`, lines 1 to 3"""

PLAIN = """# Dams

The dam was built in 1931 [1], and the lake is large [2].

## Sources

- [1] `docs/1.md`, line 1
- [2] `docs/lake.pdf`, page 7, lines 1 to 2

Found, and not cited:

- [3] `docs/3.md`, lines 1 to 3"""


def test_the_whole() -> None:
    """Findings, one section of ideas without citations, footnotes, and the list of sources."""
    assert assemble(REPORT, ["Trout as agents."], SOURCES, creative=True) == WHOLE


def test_without_ideas() -> None:
    """Without creative contributions suggestions, the section and footnotes are left out."""
    assert assemble(REPORT, ["Trout as agents."], SOURCES, creative=False) == PLAIN


def test_no_source_is_said_first() -> None:
    """Without a source the first line says so, and a citation is said to name none."""
    whole = assemble("It leaks [1].", [], (), creative=True)

    assert whole.splitlines()[0] == NO_SOURCE
    assert whole.endswith("It leaks [1].\n\n## Sources\n\n- [1] is no source that was found")
    assert assemble("It leaks.", [], (), creative=True) == f"{NO_SOURCE}\n\nIt leaks."


def test_a_number_that_is_no_source() -> None:
    """A citation that is still wrong in the end is shown as such."""
    whole = assemble("It leaks [1-2].", [], [DAM], creative=True)

    assert whole.endswith(
        "## Sources\n\n- [1] `docs/1.md`, line 1\n- [2] is no source that was found"
    )


def test_a_report_that_cites_nothing() -> None:
    """All sources are listed as not cited."""
    whole = assemble("It leaks.", [], [DAM], creative=True)

    assert whole == "It leaks.\n\n## Sources\n\nFound, and not cited:\n\n- [1] `docs/1.md`, line 1"


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


@pytest.mark.parametrize("suggestion", ["", " ", "[1]", "###", "The LAKE could be a queue."])
def test_a_suggestion_that_adds_nothing(suggestion: str) -> None:
    """What is empty without its citation, or is in the report's own section, is left out."""
    assert assemble(REPORT, [suggestion], SOURCES, True) == assemble(REPORT, [], SOURCES, True)


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


@pytest.mark.parametrize("opened", ["```", "~~~", "<!--", "<pre>", "<div>", "<script>"])
def test_nothing_hides_what_follows(opened: str) -> None:
    """A block that a report leaves open ends before the section and the sources."""
    whole = assemble(f"It is old [1].\n\n{opened}\nx", ["A queue."], [DAM], creative=True)

    parts = split(whole)
    assert parts.considerations == "- A queue."
    assert parts.listed.startswith("## Sources\n\n- [1]")
