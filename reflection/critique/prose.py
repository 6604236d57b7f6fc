"""What of a draft is prose, and what is code, quotation, link or markup."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from reflection.spelling import fold

# A text of so many lines is data: its beginning and its end are read.
MOST_LINES = 10_000
# Inline markup is read in pieces, and not where it is denser than in any prose: a reader of
# Markdown takes the square of the brackets.
PIECE = 2_000
DENSEST = 200
INLINE = re.compile(r"[\[`<\\]")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
CODE = "\ufffc"
"""Stands in prose where inline code stood, so that a sentence keeps its end."""

# Tables stay text, and definitions of links stay where a reader would look for references.
_MARKDOWN = MarkdownIt("commonmark").disable(["inline", "reference", "emphasis", "entity"])


class Block(NamedTuple):
    """A block of code: its language as written, its text, its first line from 1, its end."""

    language: str
    text: str
    line: int
    closed: bool


class Reading(NamedTuple):
    """A text by its parts. `prose` are paragraphs, items and headings outside of quotations.

    `html` has the tags and comments that stood among them. `ending` is the last paragraph, ""
    where the text ends with something else.
    """

    prose: tuple[str, ...]
    quoted: tuple[str, ...]
    code: tuple[Block, ...]
    links: tuple[str, ...]
    html: str
    ending: str

    @property
    def text(self) -> str:
        """The prose with a blank line between its parts."""
        return "\n\n".join(self.prose)


@lru_cache(maxsize=4)
def read(text: str) -> Reading:
    """Take a text apart by its Markdown, in time linear in its length."""
    lines = fold(text).replace("\r\n", "\n").split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES // 2], *lines[-MOST_LINES // 2 :]]
    parts: dict[str, list[str]] = {"prose": [], "quoted": [], "links": [], "html": []}
    code = list[Block]()
    depth, ending, before = 0, "", ""
    for token in _MARKDOWN.parse("\n".join(lines)):
        depth += token.nesting if token.type.startswith("blockquote") else 0
        if token.type in {"fence", "code_block", "html_block", "inline", "hr"}:
            ending = ""
        if token.type in {"fence", "code_block"}:
            code.append(_block(token, lines))
        elif token.type in {"inline", "html_block"}:
            kind = "quoted" if depth else "prose"
            shown = _take(token, parts, parts[kind])
            ending = shown if before == "paragraph_open" and not depth else ""
        before = token.type
    return Reading(
        prose=tuple(parts["prose"]),
        quoted=tuple(parts["quoted"]),
        code=tuple(code),
        links=tuple(parts["links"]),
        html="\n".join(parts["html"]),
        ending=ending,
    )


def _block(token: Token, lines: list[str]) -> Block:
    first, end = token.map or (0, 0)
    if token.type == "code_block":
        return Block("", token.content, first + 1, closed=True)
    last = lines[end - 1].strip(" \t>")
    closed = end - first > 1 and last.startswith(token.markup) and not last.strip(token.markup[0])
    return Block(token.info.strip(), token.content, first + 2, closed)


def _take(token: Token, parts: dict[str, list[str]], to: list[str]) -> str:
    """Add what a reader sees of a block, and return it."""
    if token.type == "html_block":
        parts["html"].append(token.content)
        shown = TAG.sub(" ", COMMENT.sub(" ", token.content)).strip()
    else:
        shown = "".join(_inline(token.content, parts)).strip()
    if shown:
        to.append(shown)
    return shown


def _inline(content: str, parts: dict[str, list[str]]) -> Iterator[str]:
    for piece in _pieces(content):
        marks = len(INLINE.findall(piece))
        if not 0 < marks <= DENSEST:
            yield piece
            continue
        tokens = list[Token]()
        _MARKDOWN.inline.parse(piece, _MARKDOWN, {}, tokens)
        for token in tokens:
            if token.type == "link_open":
                parts["links"].append(str(token.attrs.get("href", "")))
            elif token.type == "html_inline":
                parts["html"].append(token.content)
            elif token.type == "text_special":
                yield token.content.replace("|", "¦")
            elif token.type in {"softbreak", "hardbreak"}:
                yield "\n"
            else:
                yield CODE if token.type == "code_inline" else token.content * (not token.nesting)


def _pieces(content: str) -> Iterator[str]:
    """Cut a long paragraph between words."""
    start = 0
    while len(content) - start > PIECE:
        end = content.rfind(" ", start + PIECE // 2, start + PIECE) + 1 or start + PIECE
        yield content[start:end]
        start = end
    yield content[start:]
