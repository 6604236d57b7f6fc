"""What holds for every report, whatever a model writes."""

import re
from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mull.multipath.markup import cited, uncited, visible
from mull.multipath.report import assemble, check_report, with_checks
from mull.multipath.result import Source
from tests.unit.multipath.sourced import SOURCES, split

PIECES = [
    *["[1]", "[2, 3]", " [9]", "\uff3b1\uff3d", "\u30102\u3011", "[\u00b9]", "[^1]", "[^1]: "],
    *["## Further considerations\n", "**Further considerations:** ", "# A\n", "### B\n"],
    *["Sub\n---\n", "=\n", "## Sources\n", "- [1] a\n", "[1]: http://e.f\n", "^[idea]"],
    *["^[", "^[note [2]]", "^[a `x` ", "\\^[b [1]]", "^[[1]2]", "![x](http://a.b/?q)", "!"],
    *[
        "[l](javascript:a)", "](data:", "[r]: vb:x\n", "<js:x>", "\\`", "](<", "](", "]:",
        "&colon;", ":",
    ],
    *["```\n", "~~~\n", "> ```\n", "`", "``", "<!--", "-->", "<pre>", "<b>", "<think>", "\u200b"],
    *["\n", "\n\n", "    ", "- ", "1. ", "> ", "[", "]", "(", "\\", "|", "\u2028", "*", "_"],
    *["<br>\n", "`x|y`", "<https://a/`b>", "~~~a | b\n--|--\n", "| a | b |\n", "](a`", "[^1]"],
    *["word ", "An idea. ", "1", "x", "[t](u)", "[1](http://a.b)", "a[1]", "list ", "[0, 1]"],
]  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)
GIVEN: st.SearchStrategy[tuple[Source, ...]] = st.sampled_from([(), SOURCES])


@given(MARKDOWN, st.lists(MARKDOWN, max_size=3), GIVEN)
@example("[1]## Further considerations\n## Further considerations\n- [1] a\n- [1] a\n", [], ())
def test_ideas_stand_apart(
    report: str, suggestions: list[str], sources: tuple[Source, ...]
) -> None:
    """No idea is cited as if D had it, no suggestion changes the findings, and all can be left out.

    What is shown is shown alike the next time; what is uncited cites nothing; checks repeat.
    """
    whole = assemble(report, suggestions, sources, creative=True)
    alone = assemble(report, [], sources, creative=True)
    without = split(assemble(report, suggestions, sources, creative=False))
    shown, critiques = visible(report), check_report(report, sources)

    assert [one for one in check_report(whole, sources) if one.aspect == "demarcation"] == []
    assert split(whole).findings.strip() == split(alone).findings.strip()
    assert (without.considerations, without.footnotes) == ("", "")
    assert visible(shown) == shown
    assert cited(uncited(report)) == ()
    assert with_checks(report, sources, critiques) == critiques


READERS = [MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"])]
SAFE_TAG = re.compile(r"</?(?:br|sub|sup|b|i|em|strong|kbd|u)\s*/?>", re.IGNORECASE)
SCHEME = re.compile(r"(?!https?:|mailto:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
for _reader in READERS:
    setattr(_reader, "validateLink", lambda url: True)  # noqa: B010, ARG005 - a method


def acting(text: str) -> Iterator[str]:
    """What would fetch, hide or run something where a text is shown."""
    for reader in READERS:
        for block in reader.parse(text):
            for token in [block, *(block.children or ())]:
                if token.type in {"image", "html_block"}:
                    yield token.type
                if token.type == "html_inline" and not SAFE_TAG.fullmatch(token.content):
                    yield token.content
                if SCHEME.match(str(token.attrs.get("href", ""))):
                    yield str(token.attrs["href"])


@given(MARKDOWN, st.lists(MARKDOWN, max_size=3), st.booleans())
def test_nothing_acts_when_it_is_shown(report: str, suggestions: list[str], creative: bool) -> None:
    """A reader of Markdown, also one that knows tables, finds no image, HTML or script."""
    assert list(acting(visible(report))) == []
    assert list(acting(assemble(report, suggestions, SOURCES, creative))) == []
