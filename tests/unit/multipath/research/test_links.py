"""What would fetch something, or run something, when a report is shown."""

import pytest

from reflection.multipath.markup import visible
from reflection.multipath.report import assemble
from tests.unit.multipath.research.sourced import DAM


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("![x](http://a.example/?q=secret)", "\\![x](http://a.example/?q=secret)"),
        ("A ![x][r] ![r] ![[f]]", "A \\![x][r] \\![r] \\![[f]]"),
        ("[![x](a.png)](http://a.example)", "[\\![x](a.png)](http://a.example)"),
        ("!<!-- -->[x](u)", "\\![x](u)"),
        ("\\![x](u) \\\\![x](u)", "\\![x](u) \\\\\\![x](u)"),
        ("`![x](u)` wow! [x](u)", "`![x](u)` wow! [x](u)"),
        ("```\n![x](u)\n```", "```\n![x](u)\n```"),
    ],
)
def test_an_image_is_a_link(report: str, shown: str) -> None:
    """Nothing is fetched for an image in a report; in code it stays as it is."""
    assert visible(report) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("\\` ![x](u) `", "\\` \\![x](u) \\`"),
        ("a ` b\n` ![x](u) `", "a \\` b\n` ![x](u) `"),
        ("| ` | ![x](u) | ` |", "| \\` | \\![x](u) | \\` |"),
        ("`` a ` | b ``", "\\`\\` a \\` | b \\`\\`"),
        ("`a | b`", "`a | b`"),
        ("\\\\`![x](u)`", "\\\\`![x](u)`"),
        ("    ```\n![x](u)\n    ```", "    ```\n\\![x](u)\n    ```"),
        ("- a\n\n  ```\n![x](u)\n  ```", "- a\n\n  ```\n\\![x](u)\n  ```"),
        ("- a\n\n  ```\n  ![x](u)\n  ```", "- a\n\n  ```\n  ![x](u)\n  ```"),
    ],
)
def test_what_only_looks_like_code(report: str, shown: str) -> None:
    """What a reader of Markdown may not take for code is treated as text."""
    assert visible(report) == shown
    assert visible(shown) == shown


ORDINARY = [
    "[l](https://a.example/b?c=d#e)",
    "[l](http://a.example 'title')",
    "[l](MAILTO:a@b.example)",
    '[l](docs/1.md) [l](1.md#a:b) [l](#a) [l](?a:b) [l](<1 b.md>) [l](a.md "t") [l]()',
    "[l](//a.example)",
    "[l][r] [r]",
    "[r]: https://a.example",
    "[r]: <https://a.example> 'title'",
    "[r]: docs/1.md",
    "[r]: a.md (title)",
    "[Note]: see this: it is so",
    "As in [1]: it is so",
    "[^1]: idea: it is so",
    "[^1]: idea",
    "`[l](javascript:a)`",
    "f[1](a) <https://a.example>",
]


@pytest.mark.parametrize("report", ORDINARY)
def test_an_ordinary_link_stays(report: str) -> None:
    """Links to pages, mailboxes and files stay, and so do footnotes and code."""
    assert visible(report) == report


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("[l](javascript:alert(1))", "[l\\](javascript:alert(1))"),
        ("[l](JavaScript:a)", "[l\\](JavaScript:a)"),
        ("[l]( \t<vbscript:a>)", "[l\\]( \t\\<vbscript:a>)"),
        ("[l](data:text/html,a)", "[l\\](data:text/html,a)"),
        ("[l](java&#115;cript:a)", "[l\\](java&#115;cript:a)"),
        ("[l](javascript&colon;a)", "[l\\](javascript&colon;a)"),
        ("[l](javascript\\:a)", "[l\\](javascript\\:a)"),
        ("[l](<java\tscript:a>)", "[l\\](\\<java\tscript:a>)"),
        ("[l](\njavascript:a)", "[l\\](\njavascript:a)"),
        ("[l\\](javascript:a) [l\\\\](b:c)", "[l\\](javascript:a) [l\\\\\\](b:c)"),
        ("[a [l](b:c)](d:e)", "[a [l\\](b:c)\\](d:e)"),
        ("<javascript:alert(1)>", "\\<javascript:alert(1)>"),
        (f"<{'a' * 50} onclick=b>", f"\\<{'a' * 50} onclick=b>"),
        ("[r]: javascript:a", "[r\\]: javascript:a"),
        ("> - [1]:  <javascript:a> 'title'", "> - [1\\]:  \\<javascript:a> 'title'"),
        ("[r]:\njavascript:a", "[r\\]:\njavascript:a"),
        ("[a\nb]: javascript:a", "[a\nb\\]: javascript:a"),
        ("[a\\]b]: javascript:a", "[a\\]b\\]: javascript:a"),
        ("[^1]: javascript:a", "[^1]: \\javascript:a"),
        ("[^1]: <java&#115;cript:a>", "[^1]: \\<java&#115;cript:a>"),
    ],
)
def test_another_link_is_text(report: str, shown: str) -> None:
    """A link with any other scheme is text, however it is written, and so is its definition."""
    assert visible(report) == shown
    assert visible(shown) == shown


def test_the_whole_has_none() -> None:
    """No image and no such link gets into what is given out, in none of its parts."""
    planted = "![x](http://a.example/?q=secret) [l](javascript:a)"
    report = f"Old [1] {planted}\n\n## Further considerations\n\n{planted}\n\n[^1]: b {planted}"

    whole = assemble(report, [f"An idea {planted}"], (DAM,), creative=True)

    assert whole.count("\\![x]") == 3
    assert whole.count("[l\\](javascript:a)") == 4
    assert "!\\[x\\](http://a.example/?q=secret) \\[l\\](javascript:a)" in whole
