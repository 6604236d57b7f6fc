"""What counts as a citation, and a text without any."""

import pytest

from reflection.multipath.citations import cited, uncited, with_footnotes


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


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("c ^[note].", "c [^note-1].\n\n[^note-1]: note"),
        (
            "c ^[see [a](b) and [2], or [3]] d ^[e]",
            "c [^note-1] d [^note-2]\n\n[^note-1]: see [a](b) and [2], or [3]\n\n[^note-2]: e",
        ),
        ("c ^[a `]` [2]]", "c [^note-1]\n\n[^note-1]: a `]` [2]"),
        ("c ^[a \\] [2]]", "c [^note-1]\n\n[^note-1]: a \\] [2]"),
        ("c ^[a\nb [2]]", "c [^note-1]\n\n[^note-1]: a b [2]"),
        (f"c ^[{'long ' * 400}[2]]", f"c [^note-1]\n\n[^note-1]: {'long ' * 400}[2]"),
        ("c[^note-1] ^[d]", "c[^note-1] [^note--1]\n\n[^note--1]: d"),
    ],
)
def test_an_inline_footnote(text: str, noted: str) -> None:
    """A footnote in the line is defined at the end; brackets may stand in it one deep."""
    assert with_footnotes(text) == noted


@pytest.mark.parametrize(
    "text",
    [
        "c ^[a\n\nb [2]]",
        "c \\^[a [2]]",
        "c `^[a [2]]`\n```\n^[a]\n```",
        "c ^[1] ^[2, 3] ^[source 4] [^1]",
        "c ^[a [b [2]]",
    ],
)
def test_what_is_no_inline_footnote(text: str) -> None:
    """A raised citation, code, and what ends with its paragraph stay as they are."""
    assert with_footnotes(text) == text
