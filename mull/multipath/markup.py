r"""Markdown that looks the same to every reader: nothing hidden, only harmless links; citations.

CommonMark by markdown-it-py, without HTML. Inline code must end on its line, and every other
backtick is escaped, so that lines can be moved without changing their meaning.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mull.replies import after_thought
from mull.text import fold, well_formed, words

# Replaces each character of code, so that a masked text keeps its length.
CODE = "\x01"
ROUNDS = 3

BEFORE = r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++){0,5}+"
# An address with a scheme that leads to a page or a mailbox, or with none, and perhaps a title.
# Behind a scheme parentheses may nest once; an entity may stand for any character.
WITHIN = rf"(?:[^()<>\s\\{CODE}]|\([^()<>\s\\{CODE}]{{0,300}}+\)){{0,2000}}+"
ADDRESS = (
    rf"(?:(?:https?:|mailto:){WITHIN}|[^()<>\s:&\\\]`{CODE}]{{0,300}}+)"
    rf"(?:[ \t]+(?:\"[^\"\n\\{CODE}]{{0,500}}+\"|'[^'\n\\{CODE}]{{0,500}}+'))?[ \t]*"
)
# A tag that only formats stays, but for the beginning of a line, where a block of HTML may begin.
TAGS = r"(?:(?<=[\w.,;)\]]<)|(?<=[\w,;] <))/?(?:br|sub|sup|b|i|em|strong|kbd|u)\s{0,8}/?>"
UNSAFE = re.compile(
    rf"\\.|(`|!(?=\[)|<(?!https?://|mailto:)(?!{TAGS})(?=[!?/a-z])"
    rf"|\](?=\()(?!\([ \t]*{ADDRESS}\)))",
    re.IGNORECASE,
)
LABEL = r"(?:[^\[\]\\\n]++|\\.)*+"
ANY_ADDRESS = rf"(?:<[^<>\n]*>|[^\s{CODE}]\S*)(?:[ \t]+[\"'(].*)?[ \t]*$"
# A link definition is escaped at its bracket; a footnote stays one, without a link. What either
# defines may stand on the next line.
DEFINITION = re.compile(
    rf"^{BEFORE}\[?(?!\^{LABEL}\]:[ \t]*+\S){LABEL}\]:"
    rf"(?=[ \t]*+(?:$|(?!{ADDRESS}$){ANY_ADDRESS})).*"
    rf"|^{BEFORE}\[\^{LABEL}\]:[ \t]*+(?P<note>(?=[^\s\\])(?!{ADDRESS}$)(?={ANY_ADDRESS}))",
    re.IGNORECASE | re.MULTILINE,
)
ENDED = re.compile(r"\\.|(\]:)")
# A run of backquotes up to the next of the same length; not if escaped or in an address.
SPAN = re.compile(r"\\.|<(?:https?|mailto):[^<>\s]*>|(`++).{1,500}?(?<!`)\1(?!`)|`+")
WRAPPED = re.compile(r"(`{3,})[ \t]*(?:markdown|md)?[ \t]*\n(.*)\n\1", re.DOTALL | re.IGNORECASE)

LEADING = re.compile(r"[ \t>]*(?:(?:#{1,6}|[-*+]|\d{1,4}[.)])[ \t]+|\[\^[^\]\s]{1,60}\]:)?")
SENTENCE = re.compile(r"\S.*?(?:[.!?](?:\s?\[[^\[\]\n]{1,40}\]){0,9}(?=\s|$)|$)")
CITATION = re.compile(r"\[(?:[\s\d,;–—-]{1,80}|\^[^\]\s]{1,60})\]")
# Parts of a text that a reader does not see: tags and addresses.
MARKS = re.compile(
    r"</?[a-zA-Z][^<>]{0,300}>|(?<=\])\([^()\s]{0,2000}(?:\s+\"[^\"\n]{0,200}\")?\)|[*_~`|\\]+"
)


# Link definitions are text here, and so is HTML.
_BLOCKS = MarkdownIt("commonmark", {"html": False}).disable("reference")


# One report is read several times in a row.
@lru_cache(maxsize=2)
def blocks(text: str) -> list[Token]:
    r"""Parse the blocks of a text whose lines end with `\n`; inline tokens are left unparsed."""
    tokens: list[Token] = []
    _BLOCKS.block.parse(text, _BLOCKS, {}, tokens)
    return tokens


def fenced_lines(text: str) -> set[int]:
    """Return the numbers, from 0, of the lines of fenced code, fences included.

    A fence with `|` in its info may be a table for some readers, and does not count.
    """
    sure = (fence for fence in _fences(text) if "|" not in fence.info)
    return {line for fence in sure for line in range(*fence.map or (0, 0))}


@lru_cache(maxsize=8)
def masked(text: str) -> str:
    """Return a text of the same length with `CODE` for each character of code."""
    if "`" not in text and "~~~" not in text:
        return text
    fenced, lines = fenced_lines(text), text.split("\n")
    for place, line in enumerate(lines):
        if place in fenced:
            lines[place] = CODE * len(line)
        elif "`" in line:
            lines[place] = _without_spans(line)
    return "\n".join(lines)


def visible(report: str) -> str:
    r"""Return a report with nothing hidden and only harmless links, in linear time.

    HTML becomes text, comments too, except a few inline tags such as `<sub>`; so do images, and
    links that are not relative, http, https or mailto. A code fence that is never closed is closed
    at the end. Code stays as it is. Lines end with `\n`.
    """
    text = "\n".join(well_formed(report).splitlines())
    # Escaping a bracket may turn what follows into a definition.
    for _ in range(ROUNDS):
        places = sorted(set(_unsafe(masked(text))))
        if not places:
            break
        pairs = pairwise([0, *places, len(text)])
        text = "\\".join(text[start:end] for start, end in pairs)
    return f"{text}\n{_open_fence(text)}".strip("\n")


def unfenced(reply: str) -> str:
    """Return the report in a reply, without leading thoughts or a fence around it."""
    text = after_thought(reply).strip()
    wrapped = WRAPPED.fullmatch(text)
    return wrapped[2] if wrapped and not _open_fence(wrapped[2]) else text


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text line by line with their citations, without code."""
    fenced = fenced_lines(text)
    for place, line in enumerate(text.split("\n")):
        if place not in fenced:
            yield from (found[0] for found in SENTENCE.finditer(LEADING.sub("", line, count=1)))


def plain_words(report: str) -> str:
    """Return the visible words of a report, for `stands_in`."""
    return _words(visible(report))


def stands_in(quoted: str, text: str) -> bool:
    """Tell whether quoted words occur in a report's `plain_words`, in their order.

    Case, white space, punctuation, markup and citations are ignored.
    """
    piece = _words(quoted)
    return bool(piece.strip()) and piece in text


def _words(text: str) -> str:
    return f" {' '.join(words(MARKS.sub('', CITATION.sub(' ', fold(text)))))} "


def _fences(text: str) -> list[Token]:
    if "```" not in text and "~~~" not in text:
        return []
    return [token for token in blocks(text) if token.type == "fence"]


def _open_fence(text: str) -> str:
    """Return the fence that closes the last block of code, empty if it is closed.

    A block in a list or quotation ends with it.
    """
    for fence in _fences(text)[-1:]:
        first, end = fence.map or (0, 0)
        last = text.split("\n")[end - 1].strip(" \t")
        closed = end - first > 1 and last.startswith(fence.markup) and not last.strip(last[0])
        return "" if closed or fence.level else fence.markup
    return ""


def _without_spans(line: str) -> str:
    spans = [found.span() for found in SPAN.finditer(line) if found[1]]
    # Table cells take precedence over code, so a pipe may end a span early.
    piped = any("|" in line[start:end] for start, end in spans)
    letters = list(line)
    for start, end in spans:
        if not piped or next(_unsafe(line[start:end].strip("`")), None) is None:
            letters[start:end] = CODE * (end - start)
    return "".join(letters)


def _unsafe(shown: str) -> Iterator[int]:
    """Yield where a backslash is needed to disarm what would hide, fetch or run something."""
    yield from (found.start() for found in UNSAFE.finditer(shown) if found[1])
    for line in DEFINITION.finditer(shown):
        if line["note"] is not None:
            yield line.start("note")
        else:
            yield from (line.start() + end.start() for end in ENDED.finditer(line[0]) if end[1])


OPENING, CLOSING = "[\uff3b\ufe47\u3010\u3014", "]\uff3d\ufe48\u3011\u3015"
SQUARE = str.maketrans(OPENING + CLOSING, "[[[[[" + "]]]]]")
ROUND = str.maketrans(OPENING + CLOSING, "(((((" + ")))))")
BRACKETED = re.compile(
    rf"(?:(?<=\S)[ \t])?[{re.escape(OPENING)}][^{re.escape(OPENING + CLOSING)}\n]{{1,80}}"
    rf"[{re.escape(CLOSING)}]"
)
NUMBERS = r"\d{1,4}(?:\s?[,;–—-]\s?\d{1,4}){0,30}"
# Not an index (x[1], row_of[2]), nor a link.
NUMBERED = re.compile(
    r"(?<!\b[a-zA-Z])(?<!_)\[\s?(?:(?:source|ref|reference|doc|document|s|#)\.?:?\s?)?"
    rf"({NUMBERS})(?:†[^\]\n]{{0,60}})?\s?\](?!\(https?://)",
    re.IGNORECASE,
)
RANGE = re.compile(r"(\d+)\s?[–—-]\s?(\d+)")
WIDEST_RANGE = 100
YEARS = range(1000, 2200)
IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\s]{0,500}\)")
FOOTNOTE = re.compile(r"\[\^([^\]\s]{1,40})\](?!:)")
# An interval or a list of data: [0, 1].
ZERO = re.compile(r"(?:^|\D)0(?:\D|$)")
DEEPEST = 4


def cited(text: str) -> tuple[int, ...]:
    """List the distinct source numbers that a text cites, in ascending order.

    [1], [2, 3] and [4-6] cite; [^1] is a footnote, [text](address) and [1](https://...) are
    links. Code, images, years, indexes such as x[1] and lists with a 0 do not cite.
    """
    shown = FOOTNOTE.sub("", IMAGE.sub("", fold(masked(text)).translate(SQUARE)))
    groups = [group for group in NUMBERED.findall(shown) if not ZERO.search(group)]
    numbers = {
        int(number)
        for group in groups
        for number in re.findall(r"\d+", group)
        if int(number) not in YEARS
    }
    between = {
        number
        for group in groups
        for first, last in RANGE.findall(group)
        if {int(first), int(last)} <= numbers and int(last) - int(first) <= WIDEST_RANGE
        for number in range(int(first), int(last))
    }
    return tuple(sorted(numbers | between))


def uncited(text: str) -> str:
    """Return a text without citations: `cited` finds none in the result."""
    # Removing a citation may leave another one: [[1]2].
    for _ in range(DEEPEST):
        found = [
            one
            for one in BRACKETED.finditer(masked(text))
            if NUMBERED.fullmatch(fold(one[0].strip()).translate(SQUARE))
        ]
        if not found:
            break
        text = _without(text, found)
    return text.translate(ROUND) if cited(text) else text


def without_footnotes(text: str) -> str:
    """Return a text without references to footnotes."""
    return _without(text, FOOTNOTE.finditer(masked(text)))


def _without(text: str, parts: Iterable[re.Match[str]]) -> str:
    kept, place = [], 0
    for part in parts:
        kept.append(text[place : part.start()])
        place = part.end()
    return "".join([*kept, text[place:]])
