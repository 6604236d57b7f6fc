"""Inline footnotes: they are no findings, and cite nothing."""

import pytest

from reflection.multipath.citations import with_footnotes
from reflection.multipath.report import UNCITED, assemble, check_report
from tests.unit.multipath.research.sourced import DAM, LAKE


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("c ^[note].", ["note"]),
        ("c ^[note [2]].", ["note [2]"]),
        ("c ^[see [a](b) and [2], or [3]] d ^[e]", ["see [a](b) and [2], or [3]", "e"]),
        ("c ^[a `]` [2]]", ["a `]` [2]"]),
        ("c ^[a \\] [2]]", ["a \\] [2]"]),
        ("c ^[a\nb [2]]", ["a\nb [2]"]),
        (f"c ^[{'long ' * 400}[2]]", [f"{'long ' * 400}[2]"]),
        ("c ^[a\n\nb [2]]", []),
        ("c \\^[a [2]]", []),
        ("c `^[a [2]]`\n```\n^[a]\n```", []),
        ("c ^[1] ^[2, 3] ^[source 4] [^1]", []),
        ("c ^[a [b [2]]", []),
    ],
)
def test_what_is_an_inline_note(text: str, notes: list[str]) -> None:
    """A note ends with its bracket, has brackets one deep, and is more than a raised citation."""
    assert [
        each.split(": ", 1)[1]
        for each in with_footnotes(text).split("\n\n")
        if each.startswith("[^note-")
    ] == notes


def test_a_note_that_cites() -> None:
    """A citation in an inline footnote is a matter of demarcation, and none of the findings."""
    found = check_report("c ^[note [2]].", (DAM, LAKE))

    assert [(each.aspect, each.cited, each.sentence) for each in found] == [
        ("demarcation", 2, "note [2]"),
        ("citation", None, None),
    ]
    assert found[1].advice == UNCITED


def test_a_note_that_cites_what_is_no_source() -> None:
    """A number in an inline footnote is not looked for among the sources as a finding's is."""
    found = check_report("Old [1] ^[note [9]].", (DAM, LAKE))

    assert [(each.aspect, each.cited) for each in found] == [("demarcation", 9)]


def test_a_citation_behind_a_note() -> None:
    """Without the note between them a word and a citation stay apart."""
    assert without_notes("data^[note][1]") == "data [1]"


def test_nothing_but_a_note() -> None:
    """A report that is an inline footnote alone has no findings."""
    assert [each.aspect for each in check_report("^[An idea.]", ())] == ["completeness"]


@pytest.mark.parametrize(
    ("creative", "first"), [(True, "Old [1], c ^[note]."), (False, "Old [1], c.")]
)
def test_a_note_in_the_whole(creative: bool, first: str) -> None:
    """Its citation is left out, or all of it, and what it cites is not listed as cited."""
    space = " " if creative else ""
    whole = assemble(f"Old [1], c{space}^[note [2]].", [], (DAM, LAKE), creative)

    assert whole.split("\n")[0] == first
    assert "Found, and not cited:\n\n- [2]" in whole
