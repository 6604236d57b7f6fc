"""A report without what hides text."""

import pytest

from reflection.multipath.markup import plain_words, sentences, stands_in, visible


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("A <!-- hidden --> B", "A  B"),
        ("A <!-- hid\nden --> B", "A  B"),
        ("A <!-- never closed\nB [1]", "A \\<!-- never closed\nB [1]"),
        ("`<!--` A `-->`", "`<!--` A `-->`"),
        ("```\n<!-- A -->\n```", "```\n<!-- A -->\n```"),
        ("<!-- ``` -->\nA", "A"),
        ("```\nA", "```\nA\n```"),
        ("~~~~py\nA\n```", "~~~~py\nA\n```\n~~~~"),
        ("> ```\n> A\nB", "> ```\n> A\nB"),
        ("<script>x</script>", "\\<script>x\\</script>"),
        ("<pre>\nA", "\\<pre>\nA"),
        ('<div style="display:none">A</div>', '\\<div style="display:none">A\\</div>'),
        ("<?php <![CDATA[ <!DOCTYPE", "\\<?php \\<\\![CDATA[ \\<!DOCTYPE"),
        ("H<sub>2</sub>O<br/> <https://a.example>", "H<sub>2</sub>O<br/> <https://a.example>"),
        ("1 < 2, a<b, `<div>`", "1 < 2, a<b, `<div>`"),
        ("\\<div> \\\\<div>", "\\<div> \\\\\\<div>"),
        ("A\r\nB\u2028C\x85D", "A\nB\nC\nD"),
        ("\ud800", "\ufffd"),
        ("\n\nA\n\n", "A"),
    ],
)
def test_what_is_shown(report: str, shown: str) -> None:
    """Comments go, other HTML becomes text, open fences are closed, and code stays."""
    assert visible(report) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One [1]. Two! [2] Three", ["One [1].", "Two! [2]", "Three"]),
        ("# Title\n- Item one.\n2. Item two.", ["Title", "Item one.", "Item two."]),
        ("A\n```\nB.\n```\n> C.", ["A", "C."]),
        ("[^1]: idea. More.", ["idea.", "More."]),
        ("In 3.5 days.", ["In 3.5 days."]),
        ("", []),
    ],
)
def test_sentences(text: str, found: list[str]) -> None:
    """A sentence has its citations, also those behind its full stop, and no marks of Markdown."""
    assert list(sentences(text)) == found


REPORT = (
    "# Dams\n\nThe **old** dam\nwas built in `1931` [1]. "
    "It is [high](https://a.example) \u2013 very."
)


@pytest.mark.parametrize(
    ("quoted", "stands"),
    [
        ("The **old** dam\nwas built in `1931` [1].", True),
        ("the old dam was built in 1931", True),
        ("The old dam was built in 1931 [2].", True),
        ('"It is high - very"', True),
        ("The old dam \u2026 1931", True),
        ("The old dam [...] very.", True),
        ("\uff34he old dam", True),
        ("1931 ... The old dam", False),
        ("The old dam was built in 1932.", False),
        ("193", False),
        ("https://a.example", False),
        ("...", False),
        ("", False),
    ],
)
def test_a_quoted_sentence(quoted: str, stands: bool) -> None:
    """Markup, white space, case and citations make no difference; other words do."""
    assert stands_in(quoted, plain_words(REPORT)) is stands
