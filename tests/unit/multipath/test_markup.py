"""A report as it is shown, without what hides, fetches or runs something; and what it cites."""

import pytest

from mull.multipath.markup import cited, sentences, uncited, unfenced, visible

HIDDEN = [
    ("A <!-- shown --> B", "A \\<!-- shown --> B"),
    ("A <!-- never closed\nB [1]", "A \\<!-- never closed\nB [1]"),
    ("`<!--` A `-->`", "`<!--` A `-->`"),
    ("```\n<!-- A -->\n```", "```\n<!-- A -->\n```"),
    ("```\nA", "```\nA\n```"),
    ("~~~~py\nA\n```", "~~~~py\nA\n```\n~~~~"),
    ("> ```\n> A\nB", "> ```\n> A\nB"),
    ("<script>x</script>", "\\<script>x\\</script>"),
    ('<div style="display:none">A</div>', '\\<div style="display:none">A\\</div>'),
    ("<?php <![CDATA[ <!DOCTYPE", "\\<?php \\<\\![CDATA[ \\<!DOCTYPE"),
    ("H<sub>2</sub>O<br/> <https://a.example>", "H<sub>2</sub>O<br/> <https://a.example>"),
    ("| a <br> b |", "| a <br> b |"),
    ("<br>\n> <b>A</b>", "\\<br>\n> \\<b>A</b>"),
    ("1. <br>\n[^1]:<br>", "1. \\<br>\n[^1]:\\<br>"),
    ("- <b>\n```\n\n![x](u)", "- \\<b>\n```\n\n![x](u)\n```"),
    ("1 < 2, a<b, `<div>`", "1 < 2, a\\<b, `<div>`"),
    ("\\<div> \\\\<div>", "\\<div> \\\\\\<div>"),
    ("A\r\nB\u2028C\x85D", "A\nB\nC\nD"),
    ("\ud800", "\ufffd"),
    ("\n\nA\n\n", "A"),
]
IMAGES = [
    ("![x](http://a.example/?q=secret)", "\\![x](http://a.example/?q=secret)"),
    ("A ![x][r] ![r] ![[f]]", "A \\![x][r] \\![r] \\![[f]]"),
    ("[![x](a.png)](http://a.example)", "[\\![x](a.png)](http://a.example)"),
    ("\\![x](u) \\\\![x](u)", "\\![x](u) \\\\\\![x](u)"),
    ("`![x](u)` wow! [x](u)", "`![x](u)` wow! [x](u)"),
    ("```\n![x](u)\n```", "```\n![x](u)\n```"),
]
# What a reader of Markdown may not take for code is treated as text.
NO_CODE = [
    ("\\` ![x](u) `", "\\` \\![x](u) \\`"),
    ("a ` b\n` ![x](u) `", "a \\` b\n` ![x](u) `"),
    ("| ` | ![x](u) | ` |", "| \\` | \\![x](u) | \\` |"),
    ("| `a | b` `![x](u)` |", "| `a | b` \\`\\![x](u)\\` |"),
    ("`a | b`", "`a | b`"),
    ("\\\\`![x](u)`", "\\\\`![x](u)`"),
    ("<https://a/`b> ![x](u) `", "<https://a/\\`b> \\![x](u) \\`"),
    ("    ```\n![x](u)", "    \\`\\`\\`\n\\![x](u)"),
    ("- a\n\n  ```\n![x](u)\n  ```", "- a\n\n  ```\n\\![x](u)\n  ```\n```"),
    ("- a\n\n  ```\n  ![x](u)\n  ```", "- a\n\n  ```\n  ![x](u)\n  ```"),
    ("~~~a | b\n--|--\n![x](u)", "~~~a | b\n--|--\n\\![x](u)\n~~~"),
]
LINKS = [
    ("[l](javascript:alert(1))", "[l\\](javascript:alert(1))"),
    ("[l](JavaScript:a)", "[l\\](JavaScript:a)"),
    ("[l]( \t<vbscript:a>)", "[l\\]( \t\\<vbscript:a>)"),
    ("[l](java&#115;cript:a)", "[l\\](java&#115;cript:a)"),
    ("[l](javascript\\:a)", "[l\\](javascript\\:a)"),
    ("[l](<java\tscript:a>)", "[l\\](\\<java\tscript:a>)"),
    ("[l](\njavascript:a)", "[l\\](\njavascript:a)"),
    ("[l](a/`b) ![x](u)`", "[l\\](a/`b) ![x](u)`"),
    ("[l\\](javascript:a) [l\\\\](b:c)", "[l\\](javascript:a) [l\\\\\\](b:c)"),
    ("[a [l](b:c)](d:e)", "[a [l\\](b:c)\\](d:e)"),
    ("<javascript:alert(1)>", "\\<javascript:alert(1)>"),
    (f"<{'a' * 50} onclick=b>", f"\\<{'a' * 50} onclick=b>"),
    ("[r]: javascript:a", "[r\\]: javascript:a"),
    ("> - [1]:  <javascript:a> 'title'", "> - [1\\]:  \\<javascript:a> 'title'"),
    ("[r]:\njavascript:a", "[r\\]:\njavascript:a"),
    ("[a\n!]:)b]:\njavascript:a", "[a\n!\\]:)b\\]:\njavascript:a"),
    ("[a\\]b]: javascript:a", "[a\\]b\\]: javascript:a"),
    ("[^1]: javascript:a", "[^1]: \\javascript:a"),
    ("[^1]: <java&#115;cript:a>", "[^1]: \\<java&#115;cript:a>"),
    ("[^1]:\njavascript:a", "[^1\\]:\njavascript:a"),
]


@pytest.mark.parametrize(("report", "shown"), [*HIDDEN, *IMAGES, *NO_CODE, *LINKS])
def test_what_is_shown(report: str, shown: str) -> None:
    """Comments, HTML, images and links with any other scheme become text, and code stays."""
    assert visible(report) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "report",
    [
        "[l](https://a.example/b?c=d#e)",
        "[l](http://a.example 'title')",
        "[l](MAILTO:a@b.example)",
        '[l](docs/1.md) [l](1.md#a) [l](#a) [l](a.md "t") [l]()',
        "[l](//a.example) [l](https://a.example/b_(c))",
        "[l][r] [r]",
        "[r]: https://a.example",
        "[r]: https://a.example 'title'",
        "[r]: docs/1.md",
        "[Note]: see this: it is so",
        "As in [1]: it is so",
        "[^1]: idea: it is so",
        "[^1]: idea",
        "`[l](javascript:a)`",
        "f[1](a) <https://a.example>",
    ],
)
def test_an_ordinary_link_stays(report: str) -> None:
    """Links to pages, mailboxes and files stay, and so do footnotes and code."""
    assert visible(report) == report


@pytest.mark.parametrize(
    ("reply", "report"),
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
def test_the_report_in_a_reply(reply: str, report: str) -> None:
    """A report that is fenced as a whole, or thought about first, is read as the report it is."""
    assert unfenced(reply) == report


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
    ("text", "numbers"),
    [
        ("Built in 1931 [1].", (1,)),
        ("Built [2][1] and [1].", (1, 2)),
        ("Built [1, 3].", (1, 3)),
        ("Built [1; 3].", (1, 3)),
        ("Built [1-3], [7\u20139].", (1, 2, 3, 7, 8, 9)),
        ("Built [2, 4-6].", (2, 4, 5, 6)),
        ("Built [source 2].", (2,)),
        ("Built \u30102\u2020lake\u3011 and \uff3b3\uff3d.", (2, 3)),
        ("# Dams [1]\n\n- old [2]\n\n| a [3] | b |", (1, 2, 3)),
        ("Built.[^1] And[^note].", ()),
        ("Built [here](https://a.example).", ()),
        ("Built [1](https://a.example).", ()),
        ("Built [1](docs/1.md).", (1,)),
        ("![1](a.png)", ()),
        ("Call `x[1]` or `[2]`.", ()),
        ("Call x[1], row_[2].", ()),
        ("```python\nx = y[1]\n# [2]\n```\nBuilt [3].", (3,)),
        ("~~~\n[1]\n~~~", ()),
        ("> ```\n> [1]\n\nBuilt [2].", (2,)),
        ("```inline``` and [1].", (1,)),
        ("Use `<!--` there. Built [1].", (1,)),
        ("In [1998], built.", ()),
        ("The interval [0, 1] is closed.", ()),
        ("[citation needed] [x] [ ]", ()),
        ("[1-9999]", (1, 9999)),
        ("", ()),
    ],
)
def test_what_cites(text: str, numbers: tuple[int, ...]) -> None:
    """Numbers, lists and ranges in brackets cite; footnotes, links, code, years and data do not."""
    assert cited(text) == numbers


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Built [1].", "Built."),
        ("Built [1][2], [3-5] then.", "Built, then."),
        ("[[1]2] then", " then"),
        ("\u30101\u2020a\u3011 \uff3b\uff12\uff3d", ""),
        ("Built.[^1]", "Built.[^1]"),
        ("[here](https://a.example) and [a] `x[1]`", "[here](https://a.example) and [a] `x[1]`"),
        ("```\n[1]\n```\nBuilt [1]", "```\n[1]\n```\nBuilt"),
        ("[[[[[[[1]1]1]1]1]1]1]", "(((1)1)1)"),
    ],
)
def test_a_text_without_citations(text: str, bare: str) -> None:
    """Citations go, with the space before them; what only looks like one stays."""
    assert uncited(text) == bare
    assert cited(bare) == ()
