"""A draft's Markdown taken apart, and what is wrong with its form.

The parts are prose, quotations, code and citations. A form is JSON, Python or Markdown, and only
the first defect is told.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Literal, NamedTuple

from markdown_it import MarkdownIt

from reflection.text import fold, terminal_safe

# A text with more lines than this is data: only its beginning and end are read.
MOST_LINES = 10_000
INLINE_CODE = re.compile(r"``[^\n]{1,300}?``|`[^`\n]{1,300}`")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
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

    @property
    def unclosed(self) -> int | None:
        """The line of the first code fence that is never closed, from 1."""
        return next((block.line - 1 for block in self.code if not block.closed), None)


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
            shown = INLINE_CODE.sub(CODE, token.content)
            if token.type == "html_block":
                html.append(token.content)
                shown = re.sub(r"</?[a-zA-Z][^<>]{0,300}>", " ", COMMENT.sub(" ", shown))
            html += COMMENT.findall(shown)
            shown = COMMENT.sub(" ", shown)
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


def defect(draft: str, form: Literal["json", "python", "markdown"]) -> str | None:
    """Describe the first defect of a draft that must be in this format alone; None if none."""
    reading = read(draft)
    if form == "markdown":
        if reading.unclosed is not None:
            return f"line {reading.unclosed}: the code fence is never closed"
        if reading.html.rfind("<!--") > reading.html.rfind("-->"):
            return "an HTML comment is never closed, and hides the rest"
        return _bad_rows(reading)
    if form == "json":
        alone = len(reading.code) == 1 and not reading.prose
        return _bad_json(reading.code[0].text if alone else draft)
    blocks = _python_blocks(reading) if reading.code else [Block("python", draft)]
    return next(filter(None, map(_bad_python, blocks)), None) if blocks else "no block is Python"


FORM = re.compile(
    r"\b(?:(?<!such )as|return|output|only|als|(?:reply|respond|answer)\w* (?:in|with)) "
    r"(?:(?!(?:the|this|that|my|your|our|its|these)\b)\w+ ){0,2}(json)\b"
    r"|^(?:please )?(?:give|list|put|convert|format|write|show|gib)\b.* (?:in|into|to|als) "
    r"(?:valid )?(json)\b|\b(?:as|into?) an? (?:\w+ )?(table)\b(?! of)|\bmarkdown (table)\b"
)
NO_FORM = re.compile(
    r"^(?:how|why|what|when|which|who|is|are|does|do|did|explain)\b|\b(?:functions?|scripts?|class|"
    r"programs?|methods?|endpoints?|api|pars\w+|schemas?|library|code|commands?|sql|essay|article|"
    r"guide|tutorial|post|story|poem|ways|reasons|problems|tips|differences|advantages)\b"
)
PYTHON = re.compile(
    r"^(?:please )?(?:write|implement|create|give me)\b(?!.*\b(?:essay|article|poem|story|about)\b)"
    r"(?=.*\b(?:function|script|program|class|method)\b).*\bpython\b"
)


def lack(draft: str, query: str) -> str | None:
    """Describe what a draft lacks of a form that its query asks for in words; None if nothing."""
    asked = fold(f"{query[:2_000]}\n{query[-2_000:]}").casefold()
    for sentence in re.split(r"(?<=[.?!:])\s|\n", asked):
        if (form := FORM.search(sentence)) and not NO_FORM.search(sentence):
            wished = form[form.lastindex or 0]
        else:
            wished = "python" if PYTHON.search(sentence) else ""
        if wished and (wrong := _lack(draft, wished)):
            return f"{wished}: {wrong}"
    return None


def _lack(draft: str, form: str) -> str | None:
    """Describe the defect of the only part in this form; None if one part has none."""
    reading = read(draft)
    codes = [block.text for block in reading.code]
    if form == "json":
        begin, end = re.search(r"[{\[]", draft), max(draft.rfind("}"), draft.rfind("]")) + 1
        found = [_bad_json(draft[begin.start() : end] if begin else draft), *map(_bad_json, codes)]
    elif form == "table":
        rows = re.findall(r"[|\t│┃&;]|<t[dr]| {3}|\S,\S", draft)
        found = [_bad_rows(reading) if len(rows) > 1 else "there is no table"]
    else:
        code = codes or CODE in reading.text or re.search("[=(){};]", draft)
        found = list(map(_bad_python, _python_blocks(reading)))
        found = found or [None if code else "there is no code"]
    return None if None in found else found[0]


def _python_blocks(reading: Reading) -> list[Block]:
    """List the blocks named Python, or else those without a name."""
    named = [block for block in reading.code if block.language.startswith("py")]
    return named or [block for block in reading.code if not block.language]


def _bad_json(text: str) -> str | None:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice in one object")
        return dict(pairs)

    def constant(name: str) -> None:
        raise ValueError(f"{name} is not valid JSON")

    try:
        json.loads(text, object_pairs_hook=members, parse_constant=constant, parse_int=str)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


def _bad_python(block: Block) -> str | None:
    if block.text.lstrip().startswith((">>>", "%", "!")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = ast.parse(dedent(block.text)).body
    except SyntaxError as error:
        line = (error.lineno or 1) + block.line - 1
        return f"line {line}, column {error.offset or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it cannot be parsed ({type(error).__name__})"
    return None if statements else "it contains no statement"


def _bad_rows(reading: Reading) -> str | None:
    """Describe the first table row whose number of columns differs from its header's."""
    for part in reading.prose:
        columns = 0
        for header, line in pairwise(part.split("\n")):
            if set(line) <= set("-:| \t") and "|" in line and "-" in line:
                columns = _columns(header)
            if "|" not in line:
                columns = 0
            elif columns and _columns(line) != columns:
                row = terminal_safe(line, 40)
                return f"the row {row!r} does not have the {columns} columns of its header"
    return None


def _columns(row: str) -> int:
    bare = row.replace("\\|", " ").strip().removeprefix("|").removesuffix("|")
    return bare.count("|") + 1
