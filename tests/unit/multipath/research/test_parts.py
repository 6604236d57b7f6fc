"""A report taken apart."""

import pytest

from reflection.multipath.report import split

REPORT = """# Dams

The dam is old [1].[^1]

## Further considerations

It could be a queue.

### More

And a graph.

## Conclusion

Old [1].

[^1]: As an idea.

    With a second paragraph.

## Sources

- [1] docs/1.md
- [2] docs/2.md
"""


def test_the_parts() -> None:
    """A section ends at a heading as high as its own; footnotes and lists stand apart."""
    parts = split(REPORT)

    assert parts.findings == "# Dams\n\nThe dam is old [1].[^1]\n\n## Conclusion\n\nOld [1]."
    assert parts.considerations == "It could be a queue.\n\n### More\n\nAnd a graph."
    assert parts.footnotes == "[^1]: As an idea.\n\n    With a second paragraph."
    assert parts.listed == "## Sources\n\n- [1] docs/1.md\n- [2] docs/2.md"


@pytest.mark.parametrize(
    "title",
    [
        "# Further considerations",
        "## Further Considerations",
        "### FURTHER CONSIDERATIONS ###",
        "## 5. Further considerations",
        "## 2.1 Further considerations:",
        "## IV. Further considerations",
        "## **Further considerations**",
        "## Further considerations (beyond the sources)",
        "## Further consideration",
        "> ## Further considerations",
        "Further considerations\n---",
        "Further considerations\n======",
        "**Further considerations**",
        "__Further considerations__:",
        "**Further considerations:**",
        "Further considerations:",
        "## \uff26urther considerations",
        "## Further <!-- x -->considerations",
    ],
)
def test_the_section_s_title(title: str) -> None:
    """The section is found however its title is written, and the title is no part of it."""
    parts = split(f"Built [1].\n\n{title}\n\nA queue.")

    assert parts.findings == "Built [1]."
    assert parts.considerations == "A queue."


@pytest.mark.parametrize(
    "text",
    [
        "There are further considerations.",
        "- Further considerations",
        "```\n## Further considerations\n```\n\nA queue.",
        "<!--\n## Further considerations\n-->\n\nA queue.",
        "## Few further considerations\n\nA queue.",
    ],
)
def test_what_is_no_title(text: str) -> None:
    """The title's words within a sentence, a list, code or a comment begin no section."""
    assert split(text).considerations == ""


def test_a_title_that_leads_a_paragraph() -> None:
    """A bold title with the text behind it begins the section, up to the next heading."""
    parts = split("A.\n\n**Further considerations:** A queue.\nA graph.\n\n**End**\n\nB.")

    assert parts.considerations == "A queue.\nA graph."
    assert parts.findings == "A.\n\n**End**\n\nB."


@pytest.mark.parametrize(
    ("text", "notes", "findings"),
    [
        ("A.[^1]\n\n[^1]: idea", "[^1]: idea", "A.[^1]"),
        ("[^a]: idea\nthat goes on\n\nB.", "[^a]: idea\nthat goes on", "B."),
        ("[^a]: idea\n\n  more\n\nB.", "[^a]: idea\n\n  more", "B."),
        ("[^a]: idea\n- item", "[^a]: idea", "- item"),
        ("[^a]: idea\n# B", "[^a]: idea", "# B"),
        ("[^a]: x\n[^b]: y\n\nB.", "[^a]: x\n[^b]: y", "B."),
        ("`[^a]: x`", "", "`[^a]: x`"),
    ],
)
def test_footnotes(text: str, notes: str, findings: str) -> None:
    """A footnote is its definition, what follows at once, and what is indented."""
    parts = split(text)

    assert parts.footnotes.strip() == notes
    assert parts.findings.strip() == findings


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


@pytest.mark.parametrize(
    ("reply", "findings"),
    [
        ("```markdown\n# A\n\nB.\n```", "# A\n\nB."),
        ("\n```\n# A\n```\n", "# A"),
        ("````md\n# A\n```py\nx\n```\n````", "# A\n```py\nx\n```"),
        ("<think>What? ```</think>\n\n# A", "# A"),
        ("<think>x</think>```markdown\n# A\n```", "# A"),
        ("```py\nx\n```", "```py\nx\n```"),
        ("```md\nA\n```\n\nB\n```py\nx\n```", "```md\nA\n```\n\nB\n```py\nx\n```"),
    ],
)
def test_the_report_in_a_reply(reply: str, findings: str) -> None:
    """A report that is fenced as a whole, or thought about first, is read as the report it is."""
    assert split(reply).findings == findings
