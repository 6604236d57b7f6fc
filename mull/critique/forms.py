"""A draft's Markdown taken apart, and what is wrong with its form: JSON, YAML, Python or a table.

Only the first defect of a form is reported.
"""

import ast
import json
import re
import warnings
from functools import lru_cache
from textwrap import dedent
from typing import NamedTuple

import yaml  # type: ignore[import-untyped]
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mull.text import fold, terminal_safe

INLINE_CODE = re.compile(r"``[^\n]{1,300}?``|`[^`\n]{1,300}`")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
CODE = "\ufffc"
"""Replaces inline code in prose, so that a sentence keeps its end."""

# Blocks alone: the parser of inline markup takes time quadratic in the number of brackets.
_BLOCKS = MarkdownIt("commonmark").disable(["inline", "reference"])


class Reading(NamedTuple):
    """The parts of a text. `text` has the prose outside quotations, `hidden` the HTML comments.

    `code` are the tokens of its blocks. `ending` is the last paragraph, "" if the text ends with
    something else. `open_fence` is the line, from 1, of a code fence that is never closed.
    """

    text: str
    quoted: str
    hidden: str
    code: tuple[Token, ...]
    ending: str
    open_fence: int | None


@lru_cache(maxsize=4)
def read(text: str) -> Reading:
    """Take a text apart by its Markdown, in time linear in its length."""
    lines = re.sub(r"\r\n?", "\n", fold(text)).split("\n")
    prose, quoted, hidden, code = list[str](), list[str](), list[str](), list[Token]()
    depth, ending, before, open_fence = 0, "", "", None
    for token in _BLOCKS.parse("\n".join(lines)):
        depth += token.nesting if token.type.startswith("blockquote") else 0
        if token.type in {"inline", "html_block"}:
            shown = INLINE_CODE.sub(CODE, token.content)
            hidden += COMMENT.findall(shown)
            shown = COMMENT.sub(" ", shown).strip()
            (quoted if depth else prose).append(shown)
            ending = shown if before == "paragraph_open" and not depth else ""
        elif token.type in {"fence", "code_block"}:
            code.append(token)
            ending = ""
        if token.type == "fence":
            first, end = token.map or (0, 0)
            last, marks = lines[end - 1].strip(" \t>"), token.markup
            if end - first < 2 or not last.startswith(marks) or last.strip(marks[0]):
                open_fence = open_fence or first + 1
        before = token.type
    prose_text, quoted_text, hidden_text = map("\n\n".join, (prose, quoted, hidden))
    return Reading(prose_text, quoted_text, hidden_text, tuple(code), ending, open_fence)


def defect(draft: str, form: str, *, alone: bool = True) -> str | None:
    """Describe the first defect of a draft that must be in a form; None if there is none.

    The forms are JSON, YAML, Python, and Markdown or a table. `alone` says that the draft must be
    nothing else, or each of its blocks Python; otherwise one part in this form is enough.
    """
    reading = read(draft)
    codes = [block.content for block in reading.code]
    if form == "json":
        whole = codes if len(codes) == 1 and not reading.text else [draft]
        found = [_bad_json(part, alone) for part in (whole if alone else [draft, *codes])]
    elif form == "yaml":
        found = [_bad_yaml(part) for part in codes or [draft]]
    elif form == "python":
        found = _python_defects(draft, reading, alone)
    else:
        rows = re.findall(r"[|\t│┃&;]|<t[dr]| {3}|\S,\S", draft)
        found = ["there is no table" if not alone and len(rows) < 2 else _bad_row(reading)]
    return next(filter(None, found), None) if alone or None not in found else None


ASKED = re.compile(
    r"(?:\b(?:(?<!such )as|als|only|nur|return|output|(?:reply|respond|answer|antworte)\w* "
    r"(?:only |nur )?(?:in|with|mit))|^(?:(?:please|bitte) )?(?:convert\b.* to|(?:compare|create|"
    r"format|give|list|make|put|show|write|erstelle|gib|liste|schreibe?|vergleiche|zeige?)\b"
    r"(?:.* (?:in|into|to an?))?)) (?:(?:me|mir|an?|eine[mr]?|some|valid) )*"
    r"(?:(?!(?:about|over|the|this|that|my|your|our|its|these|über|die|der|das|dem)\b)\w+ )?"
    r"((?:json|yaml)\b(?! (?:joke|to|vs))|tab(?:le|elle)(?=\s*$|[^\w\s-]| (?:about|and|by|compar|"
    r"for|from|in|list|of(?! contents)|order|please|show|sort|that|to|which|with|aus|bitte|dar|der|"
    r"die|für|mit|von|zu)))"
)
ASKS_PYTHON = re.compile(
    r"^(?:(?:please|bitte) )?(?:write|implement|create|give me|schreibe?|erstelle|implementiere)\b"
    r"(?!.*\b(?:pseudo|essay|article|poem|story|about|aufsatz|artikel|gedicht|über))(?=.*\bpython\b)"
    r".*(?:\bcode|function|script|program|\bclass|method|funktion|skript|klasse)"
)
# A sentence that names a form and asks for something else, such as code or an essay.
ELSE = re.compile(
    r"^(?:how|why|what|when|which|who|is|are|does|do|did|explain|wie|warum|was|wer|ist|erkläre)\b"
    r"|\b(?:function|funktion|script|skript|class\b|program|method|endpoint|api\b|pars|schema|librar|"
    r"code|command|sql|database|template|essay|article|guide|tutorial|story|poem|difference|"
    r"advantage)"
)


def forms_asked(query: str) -> list[str]:
    """List the forms that a query asks for in its words, in English or German."""
    asked, forms = fold(f"{query[:2_000]}\n{query[-2_000:]}").casefold(), list[str]()
    for sentence in re.split(r"(?<=[.?!:])\s|\n", asked):
        if (named := ASKED.search(sentence)) and not ELSE.search(sentence):
            forms.append(named[1].replace("tabelle", "table"))
        elif ASKS_PYTHON.search(sentence):
            forms.append("python")
    return list(dict.fromkeys(forms))


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return dict(pairs)


# NaN and Infinity are not JSON: `int` refuses them, and a number may be longer than it takes.
JSON = json.JSONDecoder(object_pairs_hook=_members, parse_constant=int, parse_int=str)


def _bad_json(text: str, alone: bool) -> str | None:
    begin = None if alone else re.search(r"[{\[]", text)
    try:
        JSON.raw_decode(text[begin.start() :]) if begin else JSON.decode(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


# The parser of YAML takes time quadratic in open brackets; what has more is not parsed.
MOST_BRACKETS = 2_000
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _bad_yaml(text: str) -> str | None:
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        return None
    try:
        kinds = {type(event) for event in yaml.parse(text, Loader=LOADER)}
    except yaml.YAMLError as error:
        return terminal_safe(str(error), 120)
    nodes = {yaml.MappingStartEvent, yaml.SequenceStartEvent}
    return None if kinds & nodes else "it has neither names nor items"


def _python_defects(draft: str, reading: Reading, alone: bool) -> list[str | None]:
    """Check the blocks named Python, or else those without a name, or else the whole draft."""
    named = [block for block in reading.code if block.info.strip().startswith("py")]
    if blocks := named or [block for block in reading.code if not block.info.strip()]:
        return [bad_python(block.content, (block.map or [0])[0] + 1) for block in blocks]
    if alone:
        return ["no block is Python" if reading.code else bad_python(draft)]
    is_code = reading.code or re.search(r"\w\(|[={`]", draft)
    return [None if is_code else "there is no code"]


def bad_python(text: str, lines_before: int = 0) -> str | None:
    """Describe the first error of a program; None if it has none."""
    if text.lstrip().startswith((">>>", "%", "!")):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            statements = ast.parse(dedent(text)).body
    except SyntaxError as error:
        line = (error.lineno or 1) + lines_before
        return f"line {line}, column {error.offset or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it cannot be parsed ({type(error).__name__})"
    return None if statements else "it contains no statement"


def _bad_row(reading: Reading) -> str | None:
    """Describe the first table row whose number of columns differs from its header's."""
    for part in reading.text.split("\n\n"):
        lines = [line.replace("\\|", " ").strip(" \t") for line in part.split("\n") if "|" in line]
        if len(lines) > 2 and "-" in lines[1] and set(lines[1]) <= set("-:| \t"):
            columns = [line.removeprefix("|").removesuffix("|").count("|") + 1 for line in lines]
            for line, count in zip(lines[2:], columns[2:], strict=True):
                if count != columns[0]:
                    row = terminal_safe(line, 40)
                    return f"the row {row!r} does not have the {columns[0]} columns of its header"
    return None


def unclosed(draft: str) -> str | None:
    """Describe a bracket or string of JSON or Python that is open where its text ends."""
    begun = "json" if draft.lstrip().startswith(("{", "[")) else ""
    blocks = [(block.info.strip(), block.content.strip()) for block in read(draft).code]
    for language, text in blocks or [(begun, draft.strip())]:
        wrong = _bad_json(text, alone=True) if language == "json" else None
        wrong = bad_python(text) if language.startswith("py") else wrong
        at_end = rf"never closed|unterminated triple|^Unterminated|char {len(text)}\)"
        if wrong and re.search(at_end, wrong):
            return f"{language}: {wrong}"
    return None
