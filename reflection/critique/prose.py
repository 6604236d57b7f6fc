"""A draft's Markdown taken apart: prose, quotations, code and citations."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from markdown_it import MarkdownIt

from reflection.text import fold

# A text with more lines than this is data: only its beginning and end are read.
MOST_LINES = 10_000
INLINE_CODE = re.compile(r"``[^\n]{1,300}?``|`[^`\n]{1,300}`")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
CODE = "\ufffc"
"""Replaces inline code in prose, so that a sentence keeps its end."""

# Blocks alone: the parser of inline markup takes time quadratic in the number of brackets.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "reference"])


class Block(NamedTuple):
    """A block of code: its language as written, text, first line (from 1), and if it is closed."""

    language: str
    text: str
    line: int = 1
    closed: bool = True


class Reading(NamedTuple):
    """The parts of a text. `prose` are the paragraphs, items and headings outside quotations.

    `html` has the blocks and comments found among them. `ending` is the last paragraph, "" if the
    text ends with something else.
    """

    prose: tuple[str, ...]
    quoted: tuple[str, ...]
    code: tuple[Block, ...]
    html: str
    ending: str

    @property
    def text(self) -> str:
        """The prose with a blank line between its parts."""
        return "\n\n".join(self.prose)


@lru_cache(maxsize=4)
def read(text: str) -> Reading:
    """Take a text apart by its Markdown, in time linear in its length."""
    lines = re.sub(r"\r\n?", "\n", fold(text)).split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES // 2], *lines[-MOST_LINES // 2 :]]
    prose, quoted, html = list[str](), list[str](), list[str]()
    code = list[Block]()
    depth, ending, before = 0, "", ""
    for token in _BLOCKS.parse("\n".join(lines)):
        depth += token.nesting if token.type.startswith("blockquote") else 0
        if token.type == "code_block":
            code.append(Block("", token.content))
        elif token.type == "fence":
            first, end = token.map or (0, 0)
            last, marks = lines[end - 1].strip(" \t>"), token.markup
            closed = end - first > 1 and last.startswith(marks) and not last.strip(marks[0])
            code.append(Block(token.info.strip(), token.content, first + 2, closed))
        elif token.type in {"inline", "html_block"}:
            is_html = token.type == "html_block"
            shown = INLINE_CODE.sub(CODE, token.content)
            html += [token.content] if is_html else COMMENT.findall(shown)
            shown = TAG.sub(" ", COMMENT.sub(" ", shown)) if is_html else COMMENT.sub(" ", shown)
            (quoted if depth else prose).append(shown.strip())
            ending = shown.rstrip() if before == "paragraph_open" and not depth else ""
        if token.type in {"fence", "code_block", "hr"}:
            ending = ""
        before = token.type
    return Reading(tuple(prose), tuple(quoted), tuple(code), "\n".join(html), ending)


NUMBERED = re.compile(
    r"[\[【] ?(\d{1,3}(?: ?[,;–-] ?\d{1,3}){0,30})(?:†[^\]】\n]{0,60})? ?[\]】]"
    r"(\(|\[(?!\d{1,3}\])|[*+?{=]|\.\w| ?=)?"
)
DATA = re.compile(
    r"(?:\b(?i:lists?|arrays?|vectors?|tuples?|matri\w+|sets?|(?:in|out)puts?|returns?|gives|range|"
    r"values?|intervall?e?s?|between|scale|sorted|index|regex|pattern|match\w*|digits?|items?|"
    r"elements?|is|are|as|equals?|prints?|liste|bereich)|\w*[_\d]|\b\w|[a-z][A-Z]\w*|[=∈→(\[{:|^])\s?$"
)
"""Text before bracketed numbers that shows them to be an index, an interval or a list."""

FOOTNOTE = re.compile(r"[\w.,;!?\"')\]]\[\^(\d{1,3}|[A-Za-z]\w{3,30})\](?![:*+?{])")
PAGE = re.compile(
    r"\bhttps?://(?!(?:www\.)?(?:example\.|your))(?:www\.)?([\w.-]+\.[a-z]{2,24}\b(?:/[^\s<>\"')\]}|`*#?]*)?)"
    r"|\b(10\.\d{4,9}/[^\s\"<>)\],;]+)",
    re.IGNORECASE,
)


def cited_numbers(text: str) -> Iterator[tuple[int, bool]]:
    """List the cited source numbers, and whether each is alone in its brackets."""
    for found in NUMBERED.finditer(text):
        listed = [int(number) for number in re.findall(r"\d+", found[1])]
        before = text[max(0, found.start() - 30) : found.start()]
        data = found[2] or 0 in listed or (before[-1:] != "]" and DATA.search(before))
        if not data and listed == sorted(set(listed)):
            yield from ((number, len(listed) == 1) for number in listed)


def addresses(text: str) -> list[str]:
    """List links without scheme, query and fragment, and DOIs; example.com is none."""
    found = PAGE.findall(text.casefold())
    return [(page or doi).rstrip(".,;:!/") for page, doi in found]
