"""What is wrong with the form of a draft: JSON, Python, Markdown, and what a query asks for."""

import ast
import json
import re
import warnings
from collections import Counter
from itertools import pairwise
from textwrap import dedent
from typing import Any, Literal

from reflection.critique.prose import CODE, Block, Reading, read
from reflection.text import terminal_safe

AS = r"\b(?:as|in|return|output|only|with|als|en|au format) (?:\w+ ){0,2}"
WISHES = {
    "JSON": re.compile(rf"{AS}json\b", re.IGNORECASE),
    "YAML": re.compile(rf"{AS}yaml\b", re.IGNORECASE),
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
    r"^(?:how|why|what|when|which|who|is|are|does|do|did|explain)\b|\b(?:functions?|scripts?"
    r"|programs?"
    r"|class|methods?|endpoints?|api|pars\w+|schemas?|library|code|commands?|sql|essay|article"
    r"|guide)\b",
    re.IGNORECASE,
)


def defect(draft: str, form: Literal["json", "python", "markdown"]) -> str | None:
    """Say what is wrong, and where, with a draft that was asked for in this format alone."""
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
    """Say that a draft has none of what its query asks for in words, or none that is sound."""
    for sentence in re.split(r"(?<=[.?!:])\s|\n", f"{query[:2_000]}\n{query[-2_000:]}"):
        for name, wish in WISHES.items():
            wished = wish.search(sentence) and (name == "Python" or not NO_WISH.search(sentence))
            if wished and (wrong := _lack(name, draft)):
                return f"{name}; {wrong}"
    return None


def _lack(name: str, draft: str) -> str | None:
    reading = read(draft)
    code = "\n".join(block.text for block in reading.code) or draft
    if name == "Python":
        tried = [_bad_python(one) for one in reading.code if one.language.startswith("py")]
    elif name == "JSON":
        parts = [draft, *(block.text for block in reading.code)]
        tried = [_bad_json(part) for part in parts if part.lstrip()[:1] in {"{", "["}]
        tried = tried or [_bad_json(draft) and "the draft has none"]
    elif name == "YAML":
        tabs = re.search(r"^ *\t+ *[\w-]+:", code, re.MULTILINE)
        some = re.search(r"^[ \t]*(?:- |[\w\"'-]+:|[{\[])", code, re.MULTILINE)
        tried = ["it is indented by a tab" if tabs else None if some else "the draft has none"]
    else:
        some = re.search(r"[|\t│┃&,;]|<t[dr]| {3}", draft)
        tried = [_bad_rows(reading) if some else "the draft has none"]
    return tried[0] if tried and None not in tried else None


def _bad_json(text: str) -> str | None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        return refuse(f"the name {twice[0][:40]!r} twice in one object") if twice else dict(pairs)

    def refuse(what: str) -> Any:
        raise ValueError(f"{what} is no JSON")

    try:
        json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_int=str)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return "nested too deep" if isinstance(error, RecursionError) else str(error)
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
    return None if said else "it holds no statement"


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
    """Say which row of a table has another number of columns than its header."""
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
                return f"the row {row!r} has not the {columns} columns of its header"
    return None
