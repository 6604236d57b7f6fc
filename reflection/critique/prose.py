"""A draft's Markdown taken apart: prose, quotations, code, citations and defects of form."""

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from reflection.text import fold, terminal_safe, words

# A text with more lines than this is data: only its beginning and end are read.
MOST_LINES = 10_000
# Inline markup is parsed in pieces, and not at all if it is denser than in any prose: the parser
# takes time quadratic in the number of brackets.
PIECE = re.compile(r".{1,2000}(?:\s|\Z)|.{1,2000}", re.DOTALL)
DENSEST = 200
INLINE = re.compile(r"[\[`<\\]")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
CODE = "\ufffc"
"""Replaces inline code in prose, so that a sentence keeps its end."""

# Tables stay text, and link definitions stay in place, where references are looked for.
_MARKDOWN = MarkdownIt("commonmark").disable(["inline", "reference", "emphasis", "entity"])


class Block(NamedTuple):
    """A block of code: its language as written, text, first line (from 1), and if it is closed."""

    language: str
    text: str
    line: int
    closed: bool


class Reading(NamedTuple):
    """The parts of a text. `prose` are the paragraphs, items and headings outside quotations.

    `html` has the tags and comments found among them. `ending` is the last paragraph, "" if the
    text ends with something else.
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
    """Add the visible text of a block to `to`, and return it."""
    if token.type == "html_block":
        parts["html"].append(token.content)
        shown = TAG.sub(" ", COMMENT.sub(" ", token.content)).strip()
    else:
        shown = "".join(_inline(token.content, parts)).strip()
    if shown:
        to.append(shown)
    return shown


def _inline(content: str, parts: dict[str, list[str]]) -> Iterator[str]:
    for piece in PIECE.findall(content):
        tokens = list[Token]()
        if 0 < len(INLINE.findall(piece)) <= DENSEST:
            _MARKDOWN.inline.parse(piece, _MARKDOWN, {}, tokens)
        else:
            yield piece
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


LENGTH = re.compile(
    r"(?:^|[,(;:.–-] ?|\b(?:at least|exactly|about|around|approximately|roughly|minimum|of|in|with|"
    r"write|an?|mindestens|etwa|genau|au moins|environ|al menos|unos|de|en) (?:(?:about|an?) )?)"
    r"(\d{1,3}(?:,\d{3})+|\d{1,6})(?: ?(?:to|–|-) ?\d+)?[ -](?:words?|wörtern?|mots|palabras)\b"
    r"(?! (?:max|limit|at most|or (?:less|fewer)|tops))"
)
LIMITED = re.compile(r"(?:max\w*|limit|more|less|fewer|at most|up to|within)(?: than)?(?: of)? $")


def asked_words(query: str) -> int:
    """Return the number of words that a lower-case query asks for, 81 to 20,000; else 0."""
    for found in LENGTH.finditer(query):
        number, before = int(found[1].replace(",", "")), query[: found.start(1)][-30:]
        if 80 < number <= 20_000 and not LIMITED.search(before):
            return number
    return 0


def length_of(reading: Reading) -> tuple[int, int]:
    """Count words, and bytes as the source does.

    Ordinary text hardly ever repeats four words in a row. If more than a fifth of a text is such
    repetition, repeated parts do not count.
    """
    parts = [*reading.prose, *reading.quoted, *(block.text for block in reading.code)]
    listed = words("\n".join(parts))
    fresh = len(set(zip(listed, listed[1:], listed[2:], listed[3:], strict=False))) + 3
    share = min(1.0, fresh / len(listed)) if fresh < 0.8 * len(listed) else 1.0
    shown = re.sub(r"[\s*_#|=-]+|(.)\1{3,}", " ", " ".join(parts)).strip()
    return int(share * len(listed)), int(share * len(shown.encode()))


NUMBERED = re.compile(
    r"\[ ?(?:(?:source|ref|doc|#)\.?:? ?)?(\d{1,3}(?: ?[,;–-] ?\d{1,3}){0,30})(?:†[^\]\n]{0,60})?"
    r" ?\](\(|\[(?!\d{1,3}\])|[*+?{=]|\.\w| ?=)?",
    re.IGNORECASE,
)
BRACKETS = str.maketrans("【】\u3014\u3015\uff3b\uff3d", "[][][]")
DATA = re.compile(
    r"(?:\b(?i:lists?|arrays?|vectors?|tuples?|matri\w+|sequences?|sets?|(?:in|out)puts?|returns?|"
    r"gives|values?|intervals?|range|between|scale|domain|in|sort(?:ed)?|ind\w+|regex\w*|pattern|"
    r"match\w*|digits?|items?|nums?|arg[sv]|data|rows?|stack|queue|result|liste|intervall[eo]?|"
    r"bereich)|\w*[_\d]|\b\w|[a-z][A-Z]\w*|[=∈→(\[{:|])\s*$"
)
"""Text before bracketed numbers that shows them to be an index, an interval or a list."""

FOOTNOTE = re.compile(r"(?<=[\w.,;!?\"')\]])\[\^(\d{1,3}|[a-z]\w{3,30})\](?!:)", re.IGNORECASE)
LINK = re.compile(r"\b(?:https?://|www\.)[^\s<>\"')\]}|`*]{3,2000}", re.IGNORECASE)
HOST = re.compile(
    r"(?!(?:[\w-]{1,63}\.){0,4}(?:example\.|your-|\w{1,60}\.(?:example|invalid|test)\b))"
    r"(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?=[/:?]|$)"
)
DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"<>)\],;]{1,200}")
AUTHOR_OR_LIST = re.compile(
    r"\b(?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|spring|summer|autumn|winter|since|in|"
    r"until|from|year|by))[^\W\d_]{2,40}(?: et al\.?| (?:and|&|und|et|y) [^\W\d_]{2,40})?,? "
    r"\(?(?:1[5-9]|20)\d\d[a-z]?[);]|\b(?:arxiv:\s?|pmid:?\s?|isbn[:\s]\s?|rfc )\d{3}"
    r"|^[#*_ ]*(?:references|sources|bibliography|works cited|quellen|literatur|références|fuentes)"
    r"[*_ ]*:?[*_ ]*\n+[ \t]*(?:[-*+]|\[?\d+[\].)])?[ \t]*[^\W\d]",
    re.IGNORECASE | re.MULTILINE,
)


def cited_numbers(text: str) -> Iterator[tuple[int, bool]]:
    """List the cited source numbers, and whether each is alone in its brackets."""
    for found in NUMBERED.finditer(text):
        listed = [int(number) for number in re.findall(r"\d+", found[1])]
        before = text[max(0, found.start() - 30) : found.start()]
        data = found[2] or 0 in listed or (before[-1:] != "]" and DATA.search(before))
        if not data and listed == sorted(set(listed)):
            yield from ((number, len(listed) == 1) for number in listed)


def addresses(text: str, links: Iterable[str] = ()) -> Iterator[str]:
    """List links to real hosts, without scheme, query and fragment, and DOIs."""
    for link in [*LINK.findall(text), *links]:
        bare = re.sub(r"^(?:https?://)?(?:www\.)?", "", link.casefold())
        bare = re.split(r"[#?]", bare, maxsplit=1)[0].rstrip(".,;:!/")
        if HOST.match(bare):
            yield bare
    yield from (doi.rstrip(".").casefold() for doi in DOI.findall(text))


AS = r"\b(?:as|in|return|output|only|with|als|en|au format) (?:\w+ ){0,2}"
WISHES = {
    "JSON": re.compile(rf"{AS}json\b", re.IGNORECASE),
    "a table": re.compile(
        r"\b(?:(?:as|in|into) an? (?:\w+ )?|markdown )table\b(?! of)", re.IGNORECASE
    ),
    "Python": re.compile(
        r"^(?:please )?(?:write|implement|create|give me)\b.{0,40}\bpython\b.{0,20}\b"
        r"(?:function|script|program|class|code)",
        re.IGNORECASE,
    ),
}
NO_WISH = re.compile(
    r"^(?:how|why|what|when|which|who|is|are|does|do|did|explain)\b|\b(?:functions?|scripts?|class|"
    r"programs?|methods?|endpoints?|api|pars\w+|schemas?|library|code|commands?|sql|essay|article|"
    r"guide)\b",
    re.IGNORECASE,
)


def defect(draft: str, form: Literal["json", "python", "markdown"]) -> str | None:
    """Describe the first defect of a draft that must be in this format alone; None if none."""
    reading = read(draft)
    if form == "markdown":
        return _bad_markdown(reading)
    if form == "json":
        alone = len(reading.code) == 1 and not reading.prose
        return _bad_json(reading.code[0].text if alone else draft)
    blocks = reading.code or (Block("python", draft, 1, closed=True),)
    ours = [one for one in blocks if one.language.startswith("py")]
    ours = ours or [one for one in blocks if not one.language]
    return next(filter(None, map(_bad_python, ours)), None) if ours else "no block is Python"


def lack(draft: str, query: str) -> str | None:
    """Describe what a draft lacks of a format that its query asks for in words; None if nothing."""
    for sentence in re.split(r"(?<=[.?!:])\s|\n", f"{query[:2_000]}\n{query[-2_000:]}"):
        for name, wish in WISHES.items():
            wished = wish.search(sentence) and (name == "Python" or not NO_WISH.search(sentence))
            if wished and (wrong := _lack(name, draft)):
                return f"{name}; {wrong}"
    return None


def _lack(name: str, draft: str) -> str | None:
    reading, none = read(draft), "the draft has none"
    if name == "Python":
        tried = [_bad_python(one) for one in reading.code if one.language.startswith("py")]
    elif name == "JSON":
        parts = [draft, *(block.text for block in reading.code)]
        tried = [_bad_json(part) for part in parts if part.lstrip()[:1] in {"{", "["}]
        tried = tried or [_bad_json(draft) and none]
    else:
        columns = re.search(r"[|\t│┃&,;]|<t[dr]| {3}", draft)
        tried = [_bad_rows(reading) if columns else none]
    return tried[0] if tried and None not in tried else None


def _bad_json(text: str) -> str | None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        return refuse(f"the name {twice[0][:40]!r} twice in one object") if twice else dict(pairs)

    def refuse(what: str) -> Any:
        raise ValueError(f"{what} is not valid JSON")

    try:
        json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_int=str)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return None


def _bad_python(block: Block) -> str | None:
    if block.text.lstrip().startswith((">>>", "%", "!")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(dedent(block.text)).body
    except SyntaxError as error:
        place = f"line {(error.lineno or 1) + block.line - 1}, column {error.offset or 1}"
        return f"{place}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it cannot be parsed ({type(error).__name__})"
    bare = ast.Name | ast.Constant | ast.Attribute
    said = any(not isinstance(one, ast.Expr) or not isinstance(one.value, bare) for one in body)
    return None if said else "it contains no statement"


def _bad_markdown(reading: Reading) -> str | None:
    if open_fence := next((block for block in reading.code if not block.closed), None):
        return f"line {open_fence.line - 1}: the code fence is never closed"
    if reading.html.rfind("<!--") > reading.html.rfind("-->"):
        return "an HTML comment is never closed, and hides the rest"
    for part in reading.prose:
        if "<!--" in part:
            return "an HTML comment is never closed, and hides the rest"
        if re.match(r"#{2,6}[^\s#]", part):
            return f"{terminal_safe(part, 40)!r}: a heading needs a space after its #"
        if found := re.search(r"\]\((?:https?://|[/#.])|\[[^\[\]()\n]{1,200}\(https?://", part):
            return f"{terminal_safe(part[found.start() :], 40)!r}: a link is never closed"
    return _bad_rows(reading)


def _bad_rows(reading: Reading) -> str | None:
    """Describe the first table row whose number of columns differs from its header's."""
    for part in reading.prose:
        columns, lines = 0, part.split("\n")
        for before, line in pairwise(lines):
            if "|" not in line:
                columns = 0
                continue
            bare, header = (
                re.sub(rf"\\.|{CODE}", "x", row).strip().removeprefix("|").removesuffix("|")
                for row in (line, before)
            )
            if "-" in bare and set(bare) <= set("-:| \t"):
                columns = header.count("|") + 1
            if columns and bare.count("|") + 1 != columns:
                row = terminal_safe(line, 40)
                return f"the row {row!r} does not have the {columns} columns of its header"
    return None
